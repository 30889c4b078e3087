#!/usr/bin/env bash
# Checks and benchmarks that need a GPU. The machine with the GPU needs neither a compiler nor packages.
#
#   tests/gpu.sh pack [FILE]           packs all that is needed, on the build machine (default: build/release/gpu.tar.gz)
#   ./gpu.sh conformance [SECTION...]  sections: suite nccl memcheck racecheck
#   ./gpu.sh training [SECTION...]     sections: curves networks accuracy variants exchange losses
#   ./gpu.sh bench [SECTION...]        sections: update convolutions steps large sweep
#
# conformance, training and bench are parts, to be run in the unpacked folder on the GPU machine or, as tests/gpu.sh, in
# a built source tree. Each part is a script in gpu/, which describes its sections. Without names a part runs all of its
# sections; docs/gpu.md says how long they take. A part prints a table at the end. Exit status: 0 all checks passed, 1 a
# check failed, 2 invalid arguments, 77 nothing was run because there is no GPU. A signal (TERM, INT, HUP) also ends the
# programs that run.
#
# Environment variables:
#   CUDA_LIBRARY_PATH=DIR[:DIR...]  folders of cuBLAS, cuDNN and NCCL: each contains libraries, or is a site-packages
#                                   with NVIDIA's wheels. Default: the system's libraries or, if one is missing, the
#                                   wheels of PYTHON
#   PYTHON=FILE                     a Python with PyTorch. Default: the first of python3, /usr/bin/python3 that has it
#   COMPUTE_SANITIZER=FILE          the compute-sanitizer. Default: the one on the PATH or in CUDA's toolkit
#   OUT=DIR                         folder for the table, PART.tsv (section, check, value, limit, verdict), and the logs
#   LIMIT=SECONDS                   time limit of each program; default 200. memcheck may need more
#   ROUNDS=N                        rounds of bench steps; default 3
#   FLAGS="FLAG..."                 further flags of tethys train for every GPU run, for example --set=tuning.graph=false
#   DEVICE=cpu                      tries this script without a GPU, by small runs on the CPU; their times mean nothing
#   BUILD=DIR                       build folder of the source tree. Default: build/release
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda}
work=$(mktemp -d)
mkdir "$work/running"
trap 'rm -rf "$work"' EXIT
# shellcheck source=gpu/place.sh
source "$here/gpu/place.sh"
# shellcheck source=gpu/table.sh
source "$here/gpu/table.sh"
# shellcheck source=gpu/runs.sh
source "$here/gpu/runs.sh"

# Prints the name of the GPU; if there is no GPU, prints the reason and ends the script.
need_gpu() {
  local output
  if [ "$device" = cpu ]; then
    note machine "a trial on the CPU"
    return
  fi
  output=$(program cuda_device_test --gtest_filter=CudaDevice.IsAvailableOrSkippedWithTheReason 2>&1) || { echo "$output"; exit 1; }
  if grep -q '^\[  SKIPPED \]' <<<"$output"; then
    echo "gpu.sh: nothing was run: $(grep -m1 -E '^[A-Z_]+: ' <<<"$output")"
    exit 77
  fi
  note machine "$(grep '^cuda, ' <<<"$output")"
}

# run_part PART [SECTION...]: runs the given sections of PART, by default all sections, and prints their
# times.
run_part() {
  local part=$1 name begin
  shift
  # shellcheck source=/dev/null
  source "$here/gpu/$part.sh"
  # shellcheck disable=SC2046
  [ $# -gt 0 ] || set -- $(sections)
  for name in "$@"; do
    sections | grep -qwF -- "$name" || { echo "gpu.sh: $part has no section $name; its sections are: $(sections)" >&2; exit 2; }
  done
  section=machine
  need_gpu
  note build "$("$tethys" --version)"
  for name in "$@"; do
    section=$name
    begin=$SECONDS
    echo "== $part $name"
    "run_$name" || failed "$name did not come to its end"
    note took "$((SECONDS - begin)) s"
  done
  section=all
  note took "$SECONDS s"
  print_table "$part"
}

# Sends a signal to the process group of each running program. Fails if no program runs.
signal_programs() {
  local leader any=1
  for leader in $(ls "$work/running"); do
    kill -s "$1" -- "-$leader" 2>/dev/null && any=0
  done
  return "$any"
}

# end_part NUMBER: handles the signal NUMBER. Sends TERM to the part and to the programs that run, waits until all
# programs have ended, and exits with 128 + NUMBER. Each program runs under `timeout`. If the program still runs ten
# seconds after TERM, `timeout` kills it.
end_part() {
  local signal=$1
  trap '' TERM INT HUP
  : >"$work/ending"
  kill "$part" 2>/dev/null || true
  signal_programs TERM || true
  while signal_programs 0; do sleep 0.1; done
  exit $((128 + signal))
}

case ${1:-} in
  pack)
    # shellcheck source=gpu/pack.sh
    source "$here/gpu/pack.sh"
    pack "${2:-}"
    ;;
  conformance | training | bench)
    trap 'end_part 15' TERM
    trap 'end_part 2' INT
    trap 'end_part 1' HUP
    run_part "$@" &
    part=$!
    wait "$part"
    ;;
  *)
    echo "gpu.sh: the first argument must be pack, conformance, training or bench" >&2
    exit 2
    ;;
esac
