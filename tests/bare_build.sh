#!/usr/bin/env bash
# Runs the README's two commands, which build Tethys, in bare Debian systems, to find mistakes that a machine with many
# packages hides: packages that no script installs, warnings of other compilers, paths that exist on one machine only.
# (tests/bare_roots.sh tries what needs no build.) As root:
#
#   tests/bare_build.sh [RELEASE...]     RELEASE: bookworm (12) or trixie (13); default: both
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
#   MIRROR=URL                   Debian's archive (tests/bare_system.sh)
#   LOGS=DIR                     keeps the output of all commands, as RELEASE.COMMAND.log
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/bare_system.sh"
commands=${COMMANDS:-quickstart tests}
releases=("$@")
((${#releases[@]} > 0)) || releases=(bookworm trixie)

need_root_and_debootstrap
for name in $commands; do
  [[ $name == quickstart || $name == tests ]] || refuse "COMMANDS has '$name': use quickstart or tests"
done
for release in "${releases[@]}"; do
  [[ $release == bookworm || $release == trixie ]] || refuse "the release '$release' is unknown: use bookworm or trixie"
done

in_namespace "${releases[@]}"

work=${WORK:-$(mktemp -d /var/tmp/tethys-bare.XXXXXX)}
mkdir -p "$work"
[[ -z $(ls -A "$work") ]] || refuse "$work is not empty, and would be removed at the end: name another folder by WORK"
end() {
  unmount_below "$work"
  rm -rf --one-file-system "$work"
}
trap end EXIT

megabytes() { du -smx "$1" | cut -f1; }

make_system() {
  bootstrap "$release" "$system"
  mount_system "$system"
  if [[ -n ${CCACHE:-} ]]; then
    mkdir -p "$CCACHE/$release" "$system/root/.cache/ccache"
    mount --bind "$CCACHE/$release" "$system/root/.cache/ccache"
  fi
  mkdir "$system/repository"
  mount --bind "$root" "$system/repository"
  inside "$system" apt-get update -q
  inside "$system" apt-get install -qy --no-install-recommends git ca-certificates
  inside "$system" git -c safe.directory='*' clone -q file:///repository /root/tethys
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
    inside "$system" bash -c "cd /root/tethys && CCACHE_BASEDIR=/root/tethys CCACHE_NOHASHDIR=1 TETHYS_CMAKE_FLAGS='${TETHYS_CMAKE_FLAGS:-}' $script" </dev/null 2>&1 |
      tee "${LOGS:-$work}/$release.$name.log" || result=$?
    rows+=("$(printf '%-10s %-12s %8d %12d %7d' "$release" "$name" $((SECONDS - begin)) \
      $(($(megabytes "$system") - before)) "$result")")
    ((result == 0)) || status=1
  done
  end
done
printf '%s\n' "${rows[@]}"
exit "$status"
