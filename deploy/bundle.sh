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
set -euo pipefail
(($# > 0)) || cd "$(dirname "$0")/.."

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
for binary in "${packed[@]}"; do ldd "$binary"; done | awk '$2 == "=>" {print $3}' | sort -u |
  xargs -I{} cp -L {} "$folder/lib/"
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

tar -C "$folder" --owner=0 --group=0 -cf - build tethys lib | gzip "-${BUNDLE_LEVEL:-9}" > "$new"
chmod 644 "$new"
mv "$new" "$bundle"
echo "$bundle: $(($(stat -c %s "$bundle") / 1024)) KiB"
