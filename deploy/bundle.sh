#!/usr/bin/env bash
# Packs the tethys command with every library it needs, the C library and its loader included, into one file that
# runs where it is unpacked: on any x86-64 or arm64 Linux of the build's architecture, without installed packages.
#
#   deploy/bundle.sh [PROGRAM [BUNDLE [FOLDER]]]
#
# Defaults: PROGRAM is build/release/deploy/tethys; BUNDLE is tethys-bundle.tar.gz beside PROGRAM; FOLDER, which may
# contain libtethys_cuda.so and libtethys_remote.so, is PROGRAM's folder. The tethys command contains this script and
# runs it when other machines lack its build. The variable BUNDLE_LEVEL sets the compression level (default 9) of gzip,
# which every machine with tar has.
#
# The bundle contains:
#
#   build               the output of the program's --version
#   tethys              start script of lib/tethys; a link to it with another name starts the program of that name in lib/
#   lib/                the program without its debugging symbols, its libraries, libtethys_cuda.so,
#                       libtethys_remote.so
#   lib/c/              the loader and the C library. If the host's C library is at least as new as this one, the host's
#                       is used instead, because NVIDIA's libraries on the host may need it
#   share/doc/          the licence of Tethys and, if dpkg is here, the copyright file of every Debian package of which
#                       the bundle contains a part, with the licences that these files refer to; `packages` lists the
#                       packages with their versions. A packed file without a licence text is named on standard error,
#                       and is an error if the variable REQUIRE_LICENCES is set (deploy/release.sh sets it).
set -euo pipefail
source_tree=$(cd "$(dirname "$0")/.." && pwd)
(($# > 0)) || cd "$source_tree"

program=${1:-build/release/deploy/tethys}
bundle=${2:-$(dirname "$program")/tethys-bundle.tar.gz}
cuda=${3:-$(dirname "$program")}/libtethys_cuda.so
remote=${3:-$(dirname "$program")}/libtethys_remote.so

[ -x "$program" ] || { echo "bundle.sh: there is no program $program: build it first (deploy/quickstart.sh)" >&2; exit 2; }

# Removes the files of runs of this script that were killed. A run takes less than an hour and writes all the time, so
# older files are unused.
temporary=${TMPDIR:-/tmp}
remove_left() { find "$1" -maxdepth 1 -name "$2??????" -user "$(id -u)" -mmin +60 -exec rm -rf {} + 2>/dev/null || true; }
remove_left "$(dirname "$bundle")" "$(basename "$bundle").part-"
remove_left "$temporary" tethys-pack.
folder=$(mktemp -d "$temporary/tethys-pack.XXXXXX")
new=$(mktemp "$bundle.part-XXXXXX")
trap 'rm -rf "$folder" "$new"' EXIT
mkdir -p "$folder/lib/c"
# Without binutils, which has strip, the bundle works but is larger.
if command -v strip >/dev/null; then pack_binary() { strip -o "$2" "$1"; }; else pack_binary() { cp -L "$1" "$2"; }; fi
pack_binary "$program" "$folder/lib/tethys"
"$program" --version > "$folder/build"

# ldd prints "name => /path (address)" for a library, "/path (address)" for the loader.
missing=$(ldd "$program" | grep 'not found' || true)
[ -z "$missing" ] || { echo "bundle.sh: libraries of $program are missing here:"$'\n'"$missing" >&2; exit 1; }
loader=$(ldd "$program" | awk '$1 ~ /^\// && $1 ~ /ld-linux/ {print $1}')
[ -n "$loader" ] || { echo "bundle.sh: $program names no loader: is it linked dynamically?" >&2; exit 1; }
# Packs libtethys_cuda.so, which jobs on GPUs need, if it was built. NVIDIA's libraries must be on the host
# (--cuda_library_path).
[ ! -e "$cuda" ] || pack_binary "$cuda" "$folder/lib/libtethys_cuda.so"
# Packs libtethys_remote.so, which data named by URLs needs, if it was built, and the libraries that it links.
packed=("$program")
if [ -e "$remote" ]; then
  pack_binary "$remote" "$folder/lib/libtethys_remote.so"
  packed+=("$remote")
fi
mapfile -t libraries < <(for binary in "${packed[@]}"; do ldd "$binary"; done | awk '$2 == "=>" {print $3}' | sort -u)
cp -L "${libraries[@]}" "$folder/lib/"
cp -L "$loader" "$folder/lib/c/"
# Packs every part of the C library that NVIDIA's libraries need, too, because parts of different C libraries must never
# be mixed.
libc=$(ldd "$program" | awk '$1 ~ /^libc\.so/ {print $3}')
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2; do
  rm -f "$folder/lib/$name"
  cp -L "$(dirname "$libc")/$name" "$folder/lib/c/"
done
version=$(getconf GNU_LIBC_VERSION)

cat > "$folder/tethys" <<SCRIPT
#!/bin/sh
# The path is made absolute because the program starts itself again, maybe from another folder. The loader ignores
# LD_LIBRARY_PATH if --library-path is given, but this variable may name the folder of a GPU's driver.
case \$0 in */*) folder=\${0%/*} ;; *) folder=. ;; esac
folder=\$(cd "\$folder" && pwd) || exit
loader=\$folder/lib/c/${loader##*/} libraries=\$folder/lib:\$folder/lib/c
host=\$(getconf GNU_LIBC_VERSION 2>/dev/null)
case \$host in
  "${version%.*}".*) [ ! -x "$loader" ] || [ "\${host##*.}" -lt ${version##*.} ] || loader=$loader libraries=\$folder/lib ;;
esac
exec "\$loader" --library-path "\$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" "\$folder/lib/\${0##*/}" "\$@"
SCRIPT
chmod 755 "$folder/tethys" "$folder" "$folder/lib/tethys"

# The licence texts. The program contains this script, too, and runs it without the source tree.
documents=$folder/share/doc
mkdir -p "$documents/tethys" "$documents/common-licenses"
licence=$source_tree/LICENSE
[ -e "$source_tree/deploy/bundle.sh" ] || licence=/usr/share/common-licenses/Apache-2.0
[ ! -e "$licence" ] || cp "$licence" "$documents/tethys/copyright"
# The names by which dpkg may know a file: with and without links, and with and without /usr.
names_of() { printf '%s\n' "$1" "$(realpath "$1")" "/usr$1" "${1#/usr}"; }
if command -v dpkg-query >/dev/null; then
  files=("${libraries[@]}" "$loader")
  chart=/usr/share/javascript/chart.js/chart.min.js  # Every report contains Chart.js.
  [ ! -e "$chart" ] || files+=("$chart")
  declare -A package_of
  while read -r package name; do package_of[$name]=${package%%:*}; done \
    < <(for file in "${files[@]}"; do names_of "$file"; done | xargs dpkg-query -S 2>/dev/null)
  declare -A packages
  for file in "${files[@]}"; do
    package=''
    while read -r name; do [ -n "$package" ] || package=${package_of[$name]:-}; done < <(names_of "$file")
    if [ -z "$package" ] || [ ! -e "/usr/share/doc/$package/copyright" ]; then
      echo "bundle.sh: there is no licence text for $file" >&2
      [ -z "${REQUIRE_LICENCES:-}" ] || exit 1
      continue
    fi
    packages[$package]=
    mkdir -p "$documents/$package"
    cp -L "/usr/share/doc/$package/copyright" "$documents/$package/copyright"
  done
  # Without a name dpkg-query would list all packages of the machine.
  ((${#packages[@]} == 0)) ||
    dpkg-query -W -f '${Package} ${Version}\n' "${!packages[@]}" | sort -u > "$documents/packages"
  { grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$documents" || true; } | sort -u |
    while read -r licence; do [ ! -e "$licence" ] || cp -L "$licence" "$documents/common-licenses/"; done
elif [ -n "${REQUIRE_LICENCES:-}" ]; then
  echo "bundle.sh: licence texts are found by dpkg, which this machine lacks" >&2
  exit 1
fi

tar -C "$folder" --owner=0 --group=0 -cf - build tethys lib share | gzip "-${BUNDLE_LEVEL:-9}" > "$new"
chmod 644 "$new"
mv "$new" "$bundle"
echo "$bundle: $(($(stat -c %s "$bundle") / 1024)) KiB"
