#!/usr/bin/env bash
# Fuzzes the code that reads files and the network, one target after the other:
#
#   tests/fuzz.sh                      every target for a minute
#   tests/fuzz.sh 600 host_file idx    the targets host_file and idx for 600 seconds each
#
# Targets and seeds lie in tests/fuzz/. Inputs that reach new code are kept in build/fuzz/corpus/NAME for the
# next run. Inputs that make a target fail (findings) are kept as build/fuzz/findings/NAME/KIND-HASH. Once a
# bug is fixed, copy the input that found the bug to tests/fuzz/corpus/NAME, under a name that says what was
# wrong. Prints a table at the end; the exit status is 1 if there is a finding.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

seconds=${1:-60}
targets=("${@:2}")
bad_request() {
  echo "tests/fuzz.sh: $1" >&2
  exit 2
}
known=$(find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
for target in "${targets[@]}"; do
  grep -qx -- "$target" <<<"$known" || bad_request "no target is called '$target'; there are ${known//$'\n'/ }"
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || bad_request "'$seconds' is not a whole number of seconds, at least 1"
((${#targets[@]})) || mapfile -t targets <<<"$known"

install_missing "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${LINT_PACKAGES[@]}"
cmake --preset fuzz
cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"

# Memory limits in MB: 64 per allocation, 256 in all, including freed memory that AddressSanitizer keeps. Inputs are up to
# 16 KiB long, beyond the 8 KiB that a request to the live view may have.
limits=(-rss_limit_mb=256 -malloc_limit_mb=64 -timeout=25 -max_len=16384)
export ASAN_OPTIONS=quarantine_size_mb=8:allocator_may_return_null=1
# The folder for the targets' temporary files. A target that ends early leaves its files there.
TEST_TMPDIR=$(mktemp -d)/
export TEST_TMPDIR
trap 'rm -rf "$TEST_TMPDIR"' EXIT

rows=()
status=0
for target in "${targets[@]}"; do
  echo "=== $target, $seconds s"
  learned=build/fuzz/corpus/$target findings=build/fuzz/findings/$target log=build/fuzz/$target.log
  mkdir -p "$learned" "$findings"
  build/fuzz/tests/fuzz/"${target}_fuzz" -max_total_time="$seconds" "${limits[@]}" -print_final_stats=1 \
    -artifact_prefix="$findings/" "$learned" "tests/fuzz/corpus/$target" >"$log" 2>&1 || tail -n 40 "$log"
  figure() { awk -v name="stat::$1:" '$1 == name {print $2}' "$log"; }
  edges=$(grep -oE "cov: [0-9]+" "$log" | tail -n 1 | cut -d " " -f 2 || true)
  found=$(find "$findings" -type f | wc -l)
  ((found)) && status=1
  rows+=("$(printf '%-18s %12s %9s %7s %7s %9s' "$target" "$(figure number_of_executed_units)" \
    "$(figure average_exec_per_sec)" "$edges" "$(figure peak_rss_mb)" "$found")")
done
printf '%-18s %12s %9s %7s %7s %9s\n' target executions a_second edges MiB findings
printf '%s\n' "${rows[@]}"
exit $status
