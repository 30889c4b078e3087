# shellcheck shell=bash
# Packs what a GPU machine needs into one file: the bundle, the programs that gpu.sh runs, data and examples. Sourced by
# gpu.sh.

# of_this_build NAME ARGUMENT...: checks that a program and the built libtethys_cuda.so are of the same build. On the
# GPU machine a mixed build would be found too late.
of_this_build() {
  ! program "$@" 2>&1 | grep 'is of another build' >&2 || {
    echo "gpu.sh: the programs and libtethys_cuda.so are of different builds: build all targets again" >&2; exit 2
  }
}

pack() {
  [ -n "${root:-}" ] || { echo "gpu.sh: pack works in the source tree" >&2; exit 2; }
  local file=${1:-$build/gpu.tar.gz} folder=$work/gpu name kib
  local programs=(cuda_device_test cpu_device_test nccl_test update_bench convolution_bench)
  for name in "${programs[@]}"; do
    [ -n "$(binary "$name")" ] || { echo "gpu.sh: there is no $name in $build: build it first" >&2; exit 2; }
  done
  if [ "$device" = cuda ] && [ ! -e "${tethys%/*}/libtethys_cuda.so" ]; then
    echo "gpu.sh: there is no ${tethys%/*}/libtethys_cuda.so: build it first" >&2
    exit 2
  fi
  of_this_build cuda_device_test --gtest_filter=CudaDevice.IsAvailableOrSkippedWithTheReason
  of_this_build nccl_test
  of_this_build update_bench cuda 1 1
  BUNDLE_LEVEL=1 "$root/deploy/bundle.sh" "$tethys" "$work/bundle.tar.gz"
  mkdir "$folder"
  tar -C "$folder" -xf "$work/bundle.tar.gz"
  for name in "${programs[@]}"; do
    strip -o "$folder/lib/$name" "$(binary "$name")"
    ldd "$(binary "$name")" | awk '$2 == "=>" { print $3 }' | while read -r library; do
      [ -e "$folder/lib/c/${library##*/}" ] || cp -nL -t "$folder/lib" "$library"
    done
    ln -s tethys "$folder/$name"  # The start script runs the program that has its name.
  done
  cp -r "$here/gpu.sh" "$here/gpu" "$peers"/torch_{gpu_,}step.py "$folder/"
  mkdir -p "$folder/data" "$folder/examples/studies"
  cp "$data"/*.gz "$folder/data/"
  cp "$jobs"/*.textproto "$folder/examples/"
  cp "$jobs"/studies/003_*.textproto "$folder/examples/studies/"
  # xz is not used because a bare machine may lack it.
  tar -C "$work" -czf "$file" gpu
  kib=$(($(stat -c %s "$file") / 1024))
  echo "$file: $kib KiB"
  ((kib <= 64 * 1024)) || { echo "gpu.sh: that is more than 64 MiB" >&2; exit 1; }
}
