# shellcheck shell=bash
# Makes the one file for a GPU machine: the bundle, what gpu.sh runs, data, examples. Sourced by gpu.sh.

pack() {
  local file=$1 folder=$work/gpu name kib
  XZ_OPT=-1 "$root/deploy/bundle.sh" "$tethys" "$work/bundle.tar.xz"
  mkdir "$folder"
  tar -C "$folder" -xf "$work/bundle.tar.xz"
  for name in cuda_device_test cpu_device_test nccl_test update_bench; do
    [ -n "$(binary "$name")" ] || { echo "gpu.sh: there is no $name in $build: build it first" >&2; exit 2; }
    strip -o "$folder/lib/$name" "$(binary "$name")"
    ldd "$(binary "$name")" | awk '$2 == "=>" { print $3 }' | xargs cp -nL -t "$folder/lib"
  done
  cp -r "$here/gpu.sh" "$here/gpu" "$peers/torch_gpu_step.py" "$folder/"
  mkdir "$folder/data" "$folder/examples"
  cp "$data"/*.gz "$folder/data/"
  cp "$jobs"/*.textproto "$folder/examples/"
  tar -C "$work" -cJf "$file" gpu
  kib=$(($(stat -c %s "$file") / 1024))
  echo "$file: $kib KiB"
  ((kib <= 64 * 1024)) || { echo "gpu.sh: that is more than 64 MiB" >&2; exit 1; }
}
