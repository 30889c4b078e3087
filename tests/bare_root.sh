#!/usr/bin/env bash
# Runs the README's two commands in bare Debian systems, to find mistakes that a machine with many packages
# hides: packages that no script installs, warnings of other compilers, paths that exist on one machine only.
# As root:
#
#   tests/bare_root.sh [RELEASE...]     RELEASE: bookworm (12) or trixie (13); default: both
#
# Each system is made by debootstrap in a folder, and gets a clone of this repository's HEAD. The script prints how long
# each command took, and by how much the system grew. Exit status: 0 both commands ended with 0 in all systems, 1 one
# failed, 2 the script cannot run here. Each system takes about half an hour on two cores, and 3 GB of disk.
#
# Environment variables:
#   COMMANDS="quickstart tests"  the commands to run, in this order
#   WORK=DIR                     folder for the systems; default: a new one in /var/tmp. It is removed at the end
#   CCACHE=DIR                   compiler caches of earlier runs, a folder for each release. Times then mean little
#   TETHYS_CMAKE_FLAGS="FLAG..."  as for tests/run.sh
#   MIRROR=URL                   Debian's archive; default: the one that this machine's apt uses
#   LOGS=DIR                     keeps the output of all commands, as RELEASE.COMMAND.log
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
commands=${COMMANDS:-quickstart tests}
releases=("$@")
((${#releases[@]} > 0)) || releases=(bookworm trixie)

refuse() {
  echo "tests/bare_root.sh: $*" >&2
  exit 2
}
((EUID == 0)) || refuse "root is needed, to mount file systems and change the root folder"
command -v debootstrap >/dev/null || refuse "there is no debootstrap: apt-get install debootstrap"
for name in $commands; do
  [[ $name == quickstart || $name == tests ]] || refuse "COMMANDS has '$name': use quickstart or tests"
done
for release in "${releases[@]}"; do
  [[ $release == bookworm || $release == trixie ]] || refuse "the release '$release' is unknown: use bookworm or trixie"
done

# Mounts are made in a mount namespace of this script, and processes run in its PID namespace, so the kernel removes the
# mounts and kills the processes when the script ends.
if [[ -z ${TETHYS_IN_NAMESPACE:-} ]]; then
  TETHYS_IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child -- "$0" "${releases[@]}"
fi

mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)}
work=${WORK:-$(mktemp -d /var/tmp/tethys-bare.XXXXXX)}
mkdir -p "$work"
[[ -z $(ls -A "$work") ]] || refuse "$work is not empty, and would be removed at the end: name another folder by WORK"
end() {
  local mounted
  while read -r mounted; do umount -l "$mounted" || true; done \
    < <(awk -v under="$work/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
  rm -rf --one-file-system "$work"
}
trap end EXIT

megabytes() { du -smx "$1" | cut -f1; }
inside() { chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "$@"; }

make_system() {
  debootstrap --variant=minbase "$release" "$system" "$mirror"
  # Copies apt's proxies and credentials, and the settings of name resolution, from this machine.
  cp -rn /etc/apt/apt.conf.d /etc/apt/auth.conf.d "$system/etc/apt/" 2>/dev/null || true
  cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
  mount -t proc proc "$system/proc"
  mount --rbind /sys "$system/sys"
  mount --rbind /dev "$system/dev"
  mount -t tmpfs tmpfs "$system/dev/shm"
  if [[ -n ${CCACHE:-} ]]; then
    mkdir -p "$CCACHE/$release" "$system/root/.cache/ccache"
    mount --bind "$CCACHE/$release" "$system/root/.cache/ccache"
  fi
  mkdir "$system/repository"
  mount --bind "$root" "$system/repository"
  inside apt-get update -q
  inside apt-get install -qy --no-install-recommends git ca-certificates
  inside git -c safe.directory='*' clone -q file:///repository /root/tethys
}

status=0
rows=("$(printf '%-10s %-12s %8s %12s %7s' release command seconds 'MB on disk' status)")
for release in "${releases[@]}"; do
  system=$work/$release
  mkdir -p "$system"
  make_system
  for name in $commands; do
    script=deploy/quickstart.sh
    [[ $name == quickstart ]] || script=tests/run.sh
    before=$(megabytes "$system") begin=$SECONDS result=0
    echo "=== $release: $script"
    inside bash -c "cd /root/tethys && CCACHE_BASEDIR=/root/tethys CCACHE_NOHASHDIR=1 TETHYS_CMAKE_FLAGS='${TETHYS_CMAKE_FLAGS:-}' $script" </dev/null 2>&1 |
      tee "${LOGS:-$work}/$release.$name.log" || result=$?
    rows+=("$(printf '%-10s %-12s %8d %12d %7d' "$release" "$name" $((SECONDS - begin)) \
      $(($(megabytes "$system") - before)) "$result")")
    ((result == 0)) || status=1
  done
  end
done
printf '%s\n' "${rows[@]}"
exit "$status"
