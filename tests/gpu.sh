#!/usr/bin/env bash
# What needs a GPU, for a machine that has one and nothing else: no compiler, no packages.
#
#   tests/gpu.sh pack [FILE]      on the build machine: everything below in one file (default: build/release/gpu.tar.xz)
#   ./gpu.sh conformance          there, unpacked, or in the source tree after a build: the contract of devices
#   ./gpu.sh training             the same loss curve on cpu and cuda for 100 steps, then accuracies, also in bf16
#   ./gpu.sh bench                time per step of 784-128-10 and lenet
#
# CUDA_LIBRARY_PATH=DIR says where cuDNN and cuBLAS lie, if not where the system looks: for example the site-packages of
# a PyTorch. Ends with a short table. Exit status: 0 as it should be, 1 not, 77 nothing was run for want of a GPU.
set -euo pipefail

# ":DIR:DIR" of what CUDA_LIBRARY_PATH names, wheels of NVIDIA's in it included.
library_folders() {
  local folder
  for folder in "${CUDA_LIBRARY_PATH:-}" "${CUDA_LIBRARY_PATH:-}"/nvidia/*/lib; do
    if [ -d "$folder" ]; then printf ':%s' "$folder"; fi
  done
}

here=$(cd "$(dirname "$0")" && pwd)
if [ -x "$here/tethys" ]; then  # Unpacked.
  tethys=$here/tethys
  data=$here/data
  jobs=$here/examples
  conformance() {
    "$here"/lib/ld-linux*.so.* --library-path "$here/lib$(library_folders)" "$here/lib/cuda_device_test" "$@"
  }
else
  root=$(dirname "$here")
  tethys=$root/build/release/deploy/tethys
  data=/usr/share/datasets/fashion-mnist
  jobs=$root/examples
  conformance() {
    local folders
    folders=$(library_folders)
    LD_LIBRARY_PATH=${folders#:} "$root/build/release/tests/runtime/device/cuda_device_test" "$@"
  }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pack() {
  local file=${1:-$root/build/release/gpu.tar.xz}
  XZ_OPT=-1 "$root/deploy/bundle.sh" "$tethys" "$work/bundle.tar.xz"
  mkdir "$work/gpu"
  tar -C "$work/gpu" -xf "$work/bundle.tar.xz"
  strip -o "$work/gpu/lib/cuda_device_test" "$root/build/release/tests/runtime/device/cuda_device_test"
  cp "$here/gpu.sh" "$work/gpu/"
  mkdir "$work/gpu/data" "$work/gpu/examples"
  cp "$data"/*.gz "$work/gpu/data/"
  cp "$jobs"/*.textproto "$work/gpu/examples/"
  tar -C "$work" -cJf "$file" gpu
  local kib=$(($(stat -c %s "$file") / 1024))
  echo "$file: $kib KiB"
  ((kib <= 64 * 1024)) || { echo "gpu.sh: that is more than 64 MiB" >&2; exit 1; }
}

# Says which GPU, or what is lacking.
need_gpu() {
  local output
  output=$(conformance --gtest_filter=CudaDevice.IsThere 2>&1) || { echo "$output"; exit 1; }
  if grep -q '^\[  SKIPPED \]' <<<"$output"; then
    echo "gpu.sh: nothing was run: $(grep -m1 -E '^[A-Z_]+: ' <<<"$output")"
    exit 77
  fi
  grep '^cuda, ' <<<"$output"
  "$tethys" --version
}

run_conformance() {
  local status=0
  conformance >"$work/log" 2>&1 || status=1
  grep -E '^\[  (FAILED|SKIPPED) ' "$work/log" || true
  printf '%-14s %s\n' passed "$(grep -c '^\[       OK' "$work/log")" failed "$(grep -cE '^\[  FAILED  \] .* \(' "$work/log")"
  return $status
}

# train NAME EXAMPLE FLAG...: the results go to $work/NAME.
train() {
  local name=$1 example=$2 field
  shift 2
  local files=()
  for field in train_images:train-images-idx3 train_labels:train-labels-idx1 test_images:t10k-images-idx3 \
    test_labels:t10k-labels-idx1; do
    files+=("--set=data.idx.${field%%:*}=$data/${field#*:}-ubyte.gz")
  done
  "$tethys" train "$jobs/$example.textproto" --plain --run_dir="$work/$name" "${files[@]}" "$@" >"$work/$name.log" 2>&1 || {
    tail -n 5 "$work/$name.log"
    return 1
  }
}
on_gpu() { printf -- '--set=device.kind=CUDA\n'; [ -z "${CUDA_LIBRARY_PATH:-}" ] || printf -- '--cuda_library_path=%s\n' "$CUDA_LIBRARY_PATH"; }

# The mean loss of each step.
losses() { awk -F, 'NR > 1 { print $16 / $5 }' "$work/$1/steps.csv"; }
# Without the first 100 steps.
median_step() {
  awk -F, 'NR > 101 { print $12 / 1000 }' "$work/$1/steps.csv" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
test_accuracy() { sed -nE 's/.*[Tt]est.* accuracy:? *([0-9.]+).*/\1/p' "$work/$1.log" | tail -n 1; }

run_training() {
  local flags example worst status=0
  mapfile -t flags < <(on_gpu)
  for example in fashion_mnist_local lenet_fashion_mnist_local; do
    train "$example.cpu" "$example" --set=max_steps=100
    train "$example.cuda" "$example" --set=max_steps=100 "${flags[@]}"
    worst=$(paste <(losses "$example.cpu") <(losses "$example.cuda") |
      awk '{ d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (d > worst) worst = d } END { print worst + 0 }')
    awk -v w="$worst" 'BEGIN { exit !(w <= 1e-3) }' || status=1
    printf '%-26s %s\n' "$example" "largest relative difference of 100 losses: $worst (at most 1e-3)"
    train "$example.full" "$example" "${flags[@]}"
    train "$example.bf16" "$example" "${flags[@]}" --set=device.precision=BF16
    printf '%-26s %s\n' "" "test accuracy: fp32 $(test_accuracy "$example.full"), bf16 $(test_accuracy "$example.bf16")"
  done
  return $status
}

run_bench() {
  local flags example batch
  mapfile -t flags < <(on_gpu)
  for example in fashion_mnist_local lenet_fashion_mnist_local; do
    for batch in 128 1024; do
      train "bench.$example.$batch" "$example" "${flags[@]}" --set=batch_size_per_worker=$batch --set=epochs=5
      printf '%-26s %s\n' "$example" "batch $batch: median step $(median_step "bench.$example.$batch") us"
    done
  done
  echo "no comparison: a benchmark beside PyTorch, and the step as one CUDA graph, are not written yet (docs/gpu.md)"
}

case ${1:-} in
  pack) pack "${2:-}" ;;
  conformance | training | bench)
    need_gpu
    "run_$1"
    ;;
  *)
    echo "gpu.sh: say pack, conformance, training or bench" >&2
    exit 2
    ;;
esac
