#!/usr/bin/env bash
# Makes what users install without a build, from one build of the command:
#
#   deploy/release.sh [PROGRAM [FOLDER]]
#
#   FOLDER/tethys-VERSION-linux-ARCH.tar.gz     the bundle (deploy/bundle.sh) in a folder tethys-VERSION
#   FOLDER/tethys-VERSION-py3-none-TAGS.whl     the same bundle with the Python package (deploy/make_wheel.py)
#   FOLDER/SHA256SUMS                           the checksums of both, for sha256sum -c
#
# Defaults: PROGRAM is build/release/deploy/tethys, which is built first; FOLDER is dist. libtethys_cuda.so and
# libtethys_remote.so are packed if they lie beside PROGRAM; NVIDIA's libraries never are. The same build gives the same
# bytes. Both files run on every Linux of this architecture: they contain their own C library, and tests/bare_roots.sh
# tries them in bare systems.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${1:-$root/build/release/deploy/tethys}
folder=${2:-$root/dist}

if (($# == 0)); then
  [[ -f $root/build/release/build.ninja ]] || (cd "$root" && cmake --preset release -DTETHYS_BUILD_TESTS=OFF)
  cmake --build "$root/build/release" --target tethys
fi
[[ -x $program ]] || { echo "release.sh: there is no program $program" >&2; exit 2; }
version=$("$program" --version | sed -n 's/^Tethys \([^,]*\),.*/\1/p')
architecture=$(uname -m)
name=tethys-$version

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tethys-release.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder" "$scratch/$name"
REQUIRE_LICENCES=1 BUNDLE_LEVEL=1 "$root/deploy/bundle.sh" "$program" "$scratch/bundle.tar.gz" >/dev/null
tar -xzf "$scratch/bundle.tar.gz" -C "$scratch/$name"

archive=$name-linux-$architecture.tar.gz
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=u+w,go-w -cf - "$name" | gzip -9n \
  > "$folder/$archive"
wheel=$(python3 "$root/deploy/make_wheel.py" "$root" "$scratch/$name" "$version" "$architecture" "$folder")
(cd "$folder" && sha256sum "$archive" "$wheel" > SHA256SUMS)
for file in "$archive" "$wheel"; do
  echo "$folder/$file: $(($(stat -c %s "$folder/$file") / 1024)) KiB"
done
