#!/usr/bin/env bash
# Builds and runs the tests; the last lines of output are CTest's.
#
#   tests/run.sh          all tests, in the release build
#   tests/run.sh quick    without the tests labelled slow or cluster
#   tests/run.sh asan     all tests not labelled cluster, under AddressSanitizer and UndefinedBehaviorSanitizer
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

install_missing "${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
# shellcheck disable=SC2086
cmake --preset "$preset" -DTETHYS_BUILD_TESTS=ON ${TETHYS_CMAKE_FLAGS:-}

targets=(all)
if [[ $mode == tsan ]]; then
  # A test has the name of its target. Building only the listed tests builds no code that uses gRPC.
  mapfile -t targets < <(ctest --preset tsan --show-only | sed -nE 's/^ *Test +#[0-9]+: +//p')
fi
cmake --build --preset "$preset" --target "${targets[@]}"

# Tests in which a silent process counts as lost run alone (tests/integration/CMakeLists.txt), all others two at a time.
ctest --preset "$preset" --parallel 2 --no-tests=error "${select[@]}"
