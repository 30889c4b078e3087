#!/usr/bin/env bash
# Builds and runs the tests; the last lines of output are CTest's.
#
#   tests/run.sh          all tests, in the release build
#   tests/run.sh quick    without the tests labelled slow or cluster
#   tests/run.sh asan     all tests not labelled cluster, under AddressSanitizer and UndefinedBehaviorSanitizer, built by
#                         Clang 14, which Debian 12 has
#   tests/run.sh tsan     the tests labelled tsan under ThreadSanitizer
#
# Installs missing packages. TESTS=REGEX runs only the tests whose names match; TETHYS_CMAKE_FLAGS gives CMake further flags.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

mode=${1:-all}
preset=release
select=(--tests-regex "${TESTS:-.}")
case $mode in
  all) ;;
  quick) select+=(--label-exclude 'slow|cluster') ;;
  asan | tsan)
    preset=$mode
    select+=(--label-exclude cluster)
    ;;
  *)
    echo "tests/run.sh: unknown mode '$mode': use all, quick, asan or tsan" >&2
    exit 2
    ;;
esac

packages=("${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
if [[ $mode == asan ]]; then packages+=("${LINT_PACKAGES[@]}"); fi
install_missing "${packages[@]}"
# shellcheck disable=SC2086
cmake --preset "$preset" -DTETHYS_BUILD_TESTS=ON ${TETHYS_CMAKE_FLAGS:-}
if [[ $mode == asan ]] && ! grep -q '^TETHYS_SANITIZER:.*=address$' build/asan/CMakeCache.txt; then
  # CMake forgets the settings of a folder when its compiler changes.
  echo "tests/run.sh: build/asan was made with another compiler: remove this folder" >&2
  exit 1
fi

targets=(all)
if [[ $mode == tsan ]]; then
  # Each test has the name of its CMake target. Building only the targets of these tests avoids building code
  # that uses gRPC.
  mapfile -t targets < <(ctest --preset tsan --show-only | sed -nE 's/^ *Test +#[0-9]+: +//p')
fi
cmake --build --preset "$preset" --target "${targets[@]}"

# Three tests run at a time, because tests of several processes wait for most of their time. A test runs alone if a silent
# process counts as lost in it (tests/integration/CMakeLists.txt).
ctest --preset "$preset" --parallel 3 --no-tests=error "${select[@]}"
