#!/usr/bin/env bash
# Tries the archive and the wheel of a release (deploy/release.sh) in bare systems: Debian 11, 12 and 13, and BusyBox
# without any library. In each, the archive is unpacked, the wheel is installed by pip in an environment of its own
# (not in BusyBox, which has no Python), and both train two mirrored workers on Fashion-MNIST. The wheel trains from
# NumPy arrays, and /tmp cannot be written then. (tests/bare_build.sh tries the commands that build Tethys.) As root:
#
#   tests/bare_roots.sh [SYSTEM...]     SYSTEM: bullseye (11), bookworm (12), trixie (13) or busybox; default: all
#
# Prints the seconds from the downloaded file to the first trained model; more than 60 are a failure. Downloads of
# Debian's packages and of NumPy are not counted. Exit status: 0 all jobs trained in time, 1 one did not, 2 the script
# cannot run here.
#
# Environment variables:
#   DIST=DIR      the release; default: dist of this repository
#   ROOTS=DIR     bare systems that debootstrap has made; default: /var/tmp/tethys-roots. Kept, and used again
#   MIRROR=URL    Debian's archive (tests/bare_system.sh)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/bare_system.sh"
dist=${DIST:-$root/dist}
roots=${ROOTS:-/var/tmp/tethys-roots}
data=/usr/share/datasets/fashion-mnist
most_seconds=60
systems=("$@")
((${#systems[@]} > 0)) || systems=(bullseye bookworm trixie busybox)

need_root_and_debootstrap
for name in "${systems[@]}"; do
  case $name in
    bullseye | bookworm | trixie) ;;
    busybox)
      ldd "$(command -v busybox)" >/dev/null 2>&1 && refuse "there is no static busybox: apt-get install busybox-static"
      ;;
    *) refuse "the system '$name' is unknown: use bullseye, bookworm, trixie or busybox" ;;
  esac
done
[[ -d $data ]] || refuse "there is no $data: apt-get install dataset-fashion-mnist"
archives=("$dist"/tethys-*-linux-"$(uname -m)".tar.gz) wheels=("$dist"/tethys-*.whl)
[[ -e ${archives[0]} && -e ${wheels[0]} ]] || refuse "there is no release in $dist: run deploy/release.sh"
in_namespace "${systems[@]}"

work=$(mktemp -d /var/tmp/tethys-bare.XXXXXX)
end() {
  unmount_below "$work"
  rm -rf --one-file-system "$work"
}
trap end EXIT

# make_system NAME: makes the system in $system, from the kept one.
make_system() {
  system=$work/$1
  if [[ $1 == busybox ]]; then
    mkdir -p "$system"/{bin,proc,sys,dev,tmp,root,etc}
    cp "$(command -v busybox)" "$system/bin/busybox"
    chroot "$system" /bin/busybox --install -s /bin
    mount_kernel "$system"
  else
    if [[ ! -e $roots/$1/made ]]; then
      mkdir -p "$roots"
      rm -rf --one-file-system "${roots:?}/$1"
      bootstrap "$1" "$roots/$1/system" >&2
      touch "$roots/$1/made"
    fi
    cp -a "$roots/$1/system" "$system"
    mount_system "$system"
  fi
  mkdir -p "$system$data"
  cp "$data"/* "$system$data/"
  cp "$root"/examples/fashion_mnist_{local,mirrored}.textproto "$system/root/"
}

try_archive() {
  cp "${archives[0]}" "$system/root/release.tar.gz"
  begin=$EPOCHREALTIME
  inside "$system" sh -c 'cd /root && tar -xzf release.tar.gz && rm release.tar.gz && mv tethys-* tethys &&
    tethys/tethys train fashion_mnist_mirrored.textproto --set=workers=2 --set=epochs=1 --run_dir=run'
  finish "$system/root/run"
}

try_wheel() {
  inside "$system" sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends python3-venv' >&2
  # NumPy is downloaded by this machine's pip, which has its settings, for the Python of the system.
  mkdir "$system/root/wheels"
  local version
  version=$(inside "$system" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  python3 -m pip download -q --only-binary=:all: --python-version "$version" -d "$system/root/wheels" numpy >&2
  cp "${wheels[0]}" "$system/root/wheels/"
  begin=$EPOCHREALTIME
  inside "$system" sh -c 'cd /root && python3 -m venv python &&
    python/bin/pip install -q --no-index --find-links wheels tethys'
  mount -t tmpfs -o ro tmpfs "$system/tmp"
  inside "$system" sh -c 'cd /root && python/bin/tethys --version && python/bin/python - ' <<'PYTHON'
import gzip
import numpy
import tethys

def idx(name, header, shape):
    with gzip.open(f"/usr/share/datasets/fashion-mnist/{name}.gz") as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header).reshape(shape)

x, y = idx("train-images-idx3-ubyte", 16, (-1, 28, 28)), idx("train-labels-idx1-ubyte", 8, -1)
run = tethys.train("fashion_mnist_mirrored.textproto", data=(x, y), workers=2, epochs=1, run_dir="python-run",
                   quiet=False)
assert run.weights() and run.predict(x[:10]).shape == (10, 10)
PYTHON
  finish "$system/root/python-run"
}

# finish RUN: fails unless the run succeeded; keeps the seconds since $begin.
finish() {
  awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }" > "$work/seconds"
  grep -q '"status": *"succeeded"' "$1/summary.json"
}

status=0
rows=("$(printf '%-10s %-8s %8s' system what seconds)")
for name in "${systems[@]}"; do
  make_system "$name"
  for what in archive wheel; do
    [[ $name != busybox || $what == archive ]] || continue
    echo "=== $name: $what"
    # In the background, because `set -e` has no effect in a condition.
    ("try_$what") &
    if wait $!; then
      seconds=$(< "$work/seconds")
      awk "BEGIN { exit $seconds > $most_seconds }" || status=1
    else
      seconds=failed status=1
    fi
    rows+=("$(printf '%-10s %-8s %8s' "$name" "$what" "$seconds")")
  done
  unmount_below "$system"
done
printf '%s\n' "${rows[@]}"
exit "$status"
