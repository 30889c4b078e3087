# shellcheck shell=bash disable=SC2034
# Packages that Tethys needs from the distribution, and their installation. Sourced by quickstart.sh, tests/run.sh and
# .ci/run; not run by itself. The packages have these names in Debian 12 and 13 and in Ubuntu 24.04, and none of them
# starts a service.

BUILD_PACKAGES=(
  g++ cmake ninja-build ccache
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev  # control plane, wire contracts
  libabsl-dev libdnnl-dev                                                 # Status and strings; CPU compute
  libssl-dev zlib1g-dev                                                   # HMAC of the handshake; gzip, CRC-32
  libpng-dev libturbojpeg0-dev                                            # Pictures: PNG, JPEG
  libcurl4-openssl-dev                                                    # data from other machines
  libjs-chart.js                                                          # charts of reports
)
DATA_PACKAGES=(dataset-fashion-mnist)                  # Data of the examples.
TEST_PACKAGES=(libgtest-dev libgmock-dev python3       # python3 reads checkpoints without Tethys.
               libbenchmark-dev libgloo-dev            # Benchmarks; Gloo, to compare all-reduce with.
               python3-numpy                           # Gives the Python package its arrays.
               python3-yaml                            # Reads the Kubernetes manifest.
               python3-prometheus-client               # Reads the metrics of runs.
               curl                                    # Downloads data, here from a local server.
               openssl                                 # Certificates of servers of data.
               strace                                  # Simulates failing disks.
               iproute2 openssh-client                 # A cluster of network namespaces.
               tcsh)                                   # A login shell that is no POSIX shell.
# These versions exist only in Debian 12, on which .ci/run runs. The last package has libFuzzer.
LINT_PACKAGES=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev)

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# install_missing PACKAGE...: installs the packages that are missing. Needs network and root only if a package
# is missing.
install_missing() {
  if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here. Make sure that you have the contents of these Debian packages: $*" >&2
    return 0
  fi
  local package missing=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return 0; fi

  echo "Installing with apt-get: ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    echo "That needs root, and there is no sudo. As root: apt-get install ${missing[*]}" >&2
    return 1
  fi
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
}
