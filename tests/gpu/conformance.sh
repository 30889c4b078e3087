# shellcheck shell=bash
# The conformance suite of devices on a GPU. Sourced by gpu.sh.
#
#   suite      all primitives against double precision, memory, streams, events, graphs, refusals
#   nccl       all-reduce with one rank and with two ranks. Two ranks need two GPUs, or one GPU and NCCL 2.30 or later
#   memcheck   the suite, without the tests of TF32 and of random shapes, under compute-sanitizer: no access out of
#              bounds in our kernels and NVIDIA's. The tool patches every kernel that is loaded, which takes long, so
#              call this section alone
#   racecheck  the suite under compute-sanitizer: no race in the shared memory of our own kernels

sections() { echo suite nccl memcheck racecheck; }
if [ "$device" = cuda ]; then suite=(cuda_device_test); else suite=(cpu_device_test '--gtest_filter=CpuOneThread/*'); fi

# tests_that RESULT LOG: prints the number of tests with this result in a log of gtest.
tests_that() { grep -cE "^\[ +$1 +\] .* ms\)\$" "$2" || true; }

# hold_tests LOG STATUS: checks that every test has passed or was skipped with a reason.
hold_tests() {
  local skipped
  grep -E '^\[  FAILED  \] .* ms\)$' "$1" || true
  skipped=$(tests_that SKIPPED "$1")
  hold "tests passed" "$(tests_that OK "$1")" '>=' $((skipped == 0))
  hold "tests failed" "$(tests_that FAILED "$1")" == 0
  if ((skipped > 0)); then lacking "tests skipped: $skipped" "$(grep -m1 -A1 ' Skipped$' "$1" | tail -n 1)"; fi
  hold "exit status" "$2" == 0
}

run_suite() {
  local status=0
  program "${suite[@]}" >"$work/suite.log" 2>&1 || status=$?
  hold_tests "$work/suite.log" $status
}

run_nccl() {
  local status=0
  # NCCL_MULTI_RANK_GPU_ENABLE has an effect with NCCL 2.30 and later only; the test checks the version.
  NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_NVLS_ENABLE=0 program nccl_test >"$work/nccl.log" 2>&1 || status=$?
  hold_tests "$work/nccl.log" $status
}

find_sanitizer() {
  local file
  for file in "${COMPUTE_SANITIZER:-}" "$(command -v compute-sanitizer)" "$here"/compute-sanitizer/compute-sanitizer \
    /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    if [ -x "$file" ]; then
      echo "$file"
      return
    fi
  done
}

# sanitize TOOL FLAG...: runs the suite under a tool of compute-sanitizer.
sanitize() {
  local tool=$1 status=0 sanitizer summary
  shift
  sanitizer=$(find_sanitizer)
  if [ -z "$sanitizer" ]; then
    lacking "$tool" "no compute-sanitizer: COMPUTE_SANITIZER=FILE"
    return
  fi
  # Calls that CUDA refuses are not reported: NVIDIA's libraries make some on purpose, and the suite checks each status.
  program_under "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 99 "$@" -- "${suite[@]}" \
    >"$work/$tool.log" 2>&1 || status=$?
  if grep -q 'Device not supported' "$work/$tool.log"; then
    lacking "$tool" "compute-sanitizer does not support this device, or not in this sandbox"
    return
  fi
  summary=$(sed -nE 's/^=+ (ERROR SUMMARY|RACECHECK SUMMARY): //p' "$work/$tool.log" | tail -n 1)
  if [ -n "$summary" ]; then note "summary" "$summary"
  else failed "summary" "none: $tool did not come to its end"; fi
  hold_tests "$work/$tool.log" $status
}
run_memcheck() { GTEST_FILTER=${GTEST_FILTER:-*-*OfRandomShapes*:*/Tf32} sanitize memcheck; }
# racecheck does not check NVIDIA's own kernels, because this would take hours. Even so, kernels of cuBLASLt
# for bfloat16 and of cuDNN for TF32 make the tool fail on Hopper GPUs ("failed to handle a hardware
# exception"), and all following tests then fail, too. So the tests that use these kernels are left out.
run_racecheck() {
  GTEST_FILTER=${GTEST_FILTER:-*-*Dense*/Bfloat16:*Convolution*/Tf32:*Convolution*/Bfloat16} \
    sanitize racecheck --kernel-name kns=tethys
}
