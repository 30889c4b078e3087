#!/usr/bin/env bash
# What needs a GPU, for a machine that has one and nothing else: no compiler, no packages.
#
#   tests/gpu.sh pack [FILE]           on the build machine: all it takes in one file (default: build/release/gpu.tar.gz)
#   ./gpu.sh conformance [SECTION...]  there, unpacked, or in the source tree after a build: suite nccl memcheck racecheck
#   ./gpu.sh training [SECTION...]     curves accuracy exchange
#   ./gpu.sh bench [SECTION...]        update steps
#
# Sections are described in gpu/; without names a part runs all of its own, which takes less than eight minutes. It
# ends with a table. Exit status: 0 all as it should be, 1 something is not, 2 the request was wrong, 77 nothing was
# run for want of a GPU.
#
# From the environment:
#   CUDA_LIBRARY_PATH=DIR[:DIR...]  where cuBLAS, cuDNN and NCCL lie, each a folder of libraries or a site-packages with
#                                   NVIDIA's wheels. Default: where the system looks, else the wheels of PYTHON
#   PYTHON=FILE                     a Python with PyTorch. Default: the first that has it of python3, /usr/bin/python3
#   COMPUTE_SANITIZER=FILE          default: on the PATH, or where CUDA's toolkit lies
#   OUT=DIR                         keeps the table as PART.tsv (section, check, value, limit, verdict) and the logs
#   LIMIT=SECONDS                   for a program that is run once; default 200. memcheck may need more
#   ROUNDS=N                        of bench steps; default 3
#   FLAGS="FLAG..."                 more of tethys train, for every run on the GPU: --set=device.graph=false, say
#   DEVICE=cpu                      tries this script without a GPU: all on the CPU and small; its times mean nothing
#   BUILD=DIR                       of the source tree. Default: build/release
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=gpu/place.sh
source "$here/gpu/place.sh"
# shellcheck source=gpu/table.sh
source "$here/gpu/table.sh"
# shellcheck source=gpu/runs.sh
source "$here/gpu/runs.sh"

# Says which GPU, or what is lacking.
need_gpu() {
  local output
  if [ "$device" = cpu ]; then
    note machine "a trial on the CPU"
    return
  fi
  output=$(program cuda_device_test --gtest_filter=CudaDevice.IsThere 2>&1) || { echo "$output"; exit 1; }
  if grep -q '^\[  SKIPPED \]' <<<"$output"; then
    echo "gpu.sh: nothing was run: $(grep -m1 -E '^[A-Z_]+: ' <<<"$output")"
    exit 77
  fi
  note machine "$(grep '^cuda, ' <<<"$output")"
}

# Runs sections of a part, all by default; says how long each took.
run_part() {
  local part=$1 name begin
  shift
  # shellcheck source=/dev/null
  source "$here/gpu/$part.sh"
  # shellcheck disable=SC2046
  [ $# -gt 0 ] || set -- $(sections)
  for name in "$@"; do
    sections | grep -qwF -- "$name" || { echo "gpu.sh: $part has no section $name, but: $(sections)" >&2; exit 2; }
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

case ${1:-} in
  pack)
    # shellcheck source=gpu/pack.sh
    source "$here/gpu/pack.sh"
    pack "${2:-}"
    ;;
  conformance | training | bench) run_part "$@" ;;
  *)
    echo "gpu.sh: say pack, conformance, training or bench" >&2
    exit 2
    ;;
esac
