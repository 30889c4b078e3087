#!/usr/bin/env bash
# Runs link_bench between simulated machines whose links have a known bandwidth: network namespaces, each connected to a
# bridge by a link that is shaped in both directions. Needs root. Makes and removes its own namespaces (tethys-link-*)
# and changes nothing else. Measures each exchange without TLS and under mutual TLS.
#
#   tests/bench/shaped_links.sh [BUILD_DIR] [MBIT] [all_reduce|servers|all] [FLAG OF link_bench]...
#
# The defaults are build/release, 1000 and all.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=$PWD/${1:-build/release}/tests/bench/link_bench
mbit=${2:-1000}
what=${3:-all}
flags=("${@:4}")
machines=9
hub=tethys-link-hub

remove() {
  local name
  for name in $(ip netns list | awk '/^tethys-link-/ {print $1}'); do ip netns delete "$name"; done
}
trap remove EXIT
remove

# shape NAMESPACE DEVICE: limits the bandwidth of a device. Also limits packets to 16 KiB before they are cut
# into frames: with longer packets the token bucket would need a burst so large that a whole message passes
# unshaped, and with packets of one frame this machine's processors would limit the throughput instead of the
# link.
shape() {
  ip -n "$1" link set "$2" gso_max_size 16384 gso_max_segs 16
  ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "${mbit}mbit" burst 20kb limit 1mb
}

ip netns add $hub
ip -n $hub link add bridge type bridge
ip -n $hub link set bridge up
places=()
for ((i = 1; i <= machines; i++)); do
  name=tethys-link-$i
  ip netns add $name
  ip link add eth0 netns $name type veth peer name port$i netns $hub
  ip -n $name addr add 10.78.0.$i/24 dev eth0
  ip -n $name link set lo up
  ip -n $name link set eth0 up
  ip -n $hub link set port$i master bridge up
  shape $name eth0
  shape $hub port$i
  places+=("$name=10.78.0.$i")
done

sizes="409600 4194304"
if [[ $what != servers ]]; then
  for bytes in $sizes; do
    for ranks in 2 3 5 9; do
      for tls in 0 1; do
        "$bench" all_reduce --link_mbit="$mbit" --bytes="$bytes" --tls=$tls "${flags[@]}" "${places[@]:0:$ranks}"
      done
    done
  done
fi
if [[ $what != all_reduce ]]; then
  for bytes in $sizes; do
    for shape in 1,1 2,1 2,2 4,1 4,2 6,2 6,3; do
      workers=${shape%,*} servers=${shape#*,}
      for tls in 0 1; do
        "$bench" servers --workers="$workers" --link_mbit="$mbit" --bytes="$bytes" --tls=$tls "${flags[@]}" \
          "${places[@]:0:$((workers + servers))}"
      done
    done
  done
fi
