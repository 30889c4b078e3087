#!/usr/bin/env bash
# Compares training strategies on this machine, starting from a fresh Debian 12 or 13, or Ubuntu 24.04:
#
#   deploy/quickstart.sh
#
# Installs missing packages (as root, or through sudo), builds the tethys command into build/release, and trains one
# small network on Fashion-MNIST with four strategies. This takes eight minutes on two idle cores and 1.2 GB of disk,
# packages included. A second call installs and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

echo "The first time this takes eight minutes on two idle cores and 1.2 GB of disk; again, half a minute."
install_missing "${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}"

# Tests are not built here; tests/run.sh enables them later, in the same build directory.
[[ -f build/release/build.ninja ]] || cmake --preset release -DTETHYS_BUILD_TESTS=OFF
cmake --build --preset release --target tethys

run_dir=runs/quickstart-$(date +%Y%m%d-%H%M%S)
echo
echo "Training in one process, with mirrored workers, and with parameter servers, synchronous and asynchronous."
build/release/deploy/tethys compare --run_dir="$run_dir" \
  examples/fashion_mnist_{local,mirrored,ps_sync,ps_async}.textproto
