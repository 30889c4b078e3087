# shellcheck shell=bash
# Bare Debian systems in folders, in which tests/bare_build.sh and tests/bare_roots.sh run commands. Sourced, not run by
# itself. The caller sets `root`, the folder of this repository.
#
# MIRROR=URL names Debian's archive; default: the one that this machine's apt uses.

refuse() {
  echo "$0: $*" >&2
  exit 2
}

# need_root_and_debootstrap
need_root_and_debootstrap() {
  ((EUID == 0)) || refuse "root is needed, to mount file systems and change the root folder"
  command -v debootstrap >/dev/null || refuse "there is no debootstrap: apt-get install debootstrap"
}

# in_namespace ARGUMENT...: starts the script again with these arguments, unless it was started so before. Mounts are
# made in a mount namespace of the script, and processes run in its PID namespace, so the kernel removes the mounts and
# kills the processes when the script ends.
in_namespace() {
  if [[ -z ${TETHYS_IN_NAMESPACE:-} ]]; then
    TETHYS_IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child -- "$0" "$@"
  fi
}

# bootstrap RELEASE FOLDER
bootstrap() {
  local mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)}
  debootstrap --variant=minbase "$1" "$2" "$mirror"
}

# mount_system FOLDER: mounts the kernel's file systems, and gives the system this machine's network.
mount_system() {
  # Copies apt's proxies and credentials, and the settings of name resolution, from this machine.
  cp -rn /etc/apt/apt.conf.d /etc/apt/auth.conf.d "$1/etc/apt/" 2>/dev/null || true
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
  mount_kernel "$1"
}

# mount_kernel FOLDER
mount_kernel() {
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mount -t tmpfs tmpfs "$1/dev/shm"
}

# unmount_below FOLDER
unmount_below() {
  local mounted
  while read -r mounted; do umount -l "$mounted" || true; done \
    < <(awk -v under="$1/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
}

# inside SYSTEM WORD...: runs a command in the system, without this machine's environment variables.
inside() {
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb chroot "$@"
}
