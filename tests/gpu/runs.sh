# shellcheck shell=bash
# Training runs and the evaluation of their steps.csv. Sourced by gpu.sh.

if [ "$device" = cuda ]; then
  curve_steps=100 bench_steps=600 warm_steps=100 rounds=${ROUNDS:-3} torch_steps=500
  large_steps=36 large_warm_steps=10 large_torch_steps=12
  networks=(mlp lenet) whole_job=() variant_network=resnet frozen=conv1,bn1,layer1 loss_steps=3000
  mapfile -t small_examples < <(cd "$jobs" && ls -- *_fashion_mnist_local.textproto | sed 's/_fashion.*//')
else
  curve_steps=20 bench_steps=26 warm_steps=0 rounds=1 torch_steps=25
  large_steps=26 large_warm_steps=0 large_torch_steps=1
  networks=(lenet) whole_job=(--set=max_steps=20) small_examples=(residual)
  variant_network=residual frozen=stem loss_steps=300
fi

# Flags for jobs on $device.
on_device() {
  local folder
  if [ -n "${FLAGS:-}" ]; then tr ' ' '\n' <<<"$FLAGS"; fi
  [ "$device" = cuda ] || return 0
  printf -- '--set=device.kind=CUDA\n'
  for folder in "${cuda_libraries[@]}"; do printf -- '--cuda_library_path=%s\n' "$folder"; done
}
in_tf32() { if [ "$device" = cuda ]; then printf -- '--set=device.tf32=true\n'; fi; }
in_bf16() { if [ "$device" = cuda ]; then printf -- '--set=device.precision=BF16\n'; fi; }
sums_in_bf16() {
  printf -- '--set=strategy=mirrored\n'
  if [ "$device" = cuda ]; then printf -- '--set=strategy.mirrored.gradients=BF16\n'; fi
}

# train NAME NETWORK FLAG...: trains NETWORK, with the run directory $work/NAME. NETWORK is one of three: mlp;
# a network of study 3 on pictures of 224 x 224, such as vgg16-224, whose job names its own data; or the first
# part of the name of an example NETWORK_fashion_mnist_local. If training fails, adds a row to the table.
train() {
  local name=$1 job=$jobs/${2}_fashion_mnist_local.textproto field files=()
  case $2 in
    mlp) job=$jobs/fashion_mnist_local.textproto ;;
    *-224) job=$jobs/studies/003_sweep_${2%-224}.textproto ;;
  esac
  shift 2
  for field in train_images:train-images-idx3 train_labels:train-labels-idx1 test_images:t10k-images-idx3 \
    test_labels:t10k-labels-idx1; do
    grep -q '^  idx' "$job" || break
    files+=("--set=data.idx.${field%%:*}=$data/${field#*:}-ubyte.gz")
  done
  limited "$tethys" train "$job" --plain --run_dir="$work/$name" "${files[@]}" "$@" \
    </dev/null >"$work/$name.log" 2>&1 && return
  tail -n 5 "$work/$name.log" >&2
  failed "$name" "$(tail -n 1 "$work/$name.log")"
  return 1
}

# over_steps RUN PROGRAM: runs an awk program on the run's steps.csv; $at["loss_sum"] is the current line's value in the
# column loss_sum.
over_steps() {
  awk -F, -v warm="$warm_steps" "NR == 1 { for (i = 1; i <= NF; ++i) at[\$i] = i; next } $2" "$work/$1/steps.csv"
}

# losses RUN: prints the mean loss of each step over all ranks.
losses() {
  over_steps "$1" '{ loss[$at["step"]] += $at["loss_sum"]; samples[$at["step"]] += $at["samples"] }
                   END { for (s = 0; s in loss; ++s) print loss[s] / samples[s] }'
}

# block_times RUN: prints microseconds per step of a run with one worker, after the warm-up: means over 25 consecutive
# steps of one epoch.
block_times() {
  over_steps "$1" 'BEGIN { epoch = -1 }
                   $at["step"] < warm || $at["epoch"] != epoch {
                     epoch = $at["epoch"]; begin = $at["begin_ns"]; count = 0; next }
                   ++count == 25 {
                     printf "%.1f\n", ($at["begin_ns"] - begin) / 25 / 1000
                     begin = $at["begin_ns"]; count = 0 }'
}

# hold_curve CHECK REFERENCE RUN: checks that the losses of both runs differ in every step by at most 1e-3 of
# their value.
hold_curve() {
  local worst
  worst=$(paste <(losses "$2") <(losses "$3") |
    awk 'NF != 2 { short = 1 } { d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d }
         END { print NR == 0 || short ? "steps are missing" : worst + 0 }')
  hold "$1" "$worst" '<=' 1e-3 "of $(losses "$3" | wc -l) losses"
}

test_accuracy() { tr -d '\n' <"$work/$1/summary.json" | sed -nE 's/.*"test": *\{([^}]*[ ,])?"accuracy": *([0-9.]+).*/\2/p'; }

test_loss() { tr -d '\n' <"$work/$1/summary.json" | sed -nE 's/.*"test": *\{([^}]*[ ,])?"loss": *([0-9.e-]+).*/\2/p'; }

# gpu_use RUN: prints the largest values that the driver reported for the GPU during the run, if it reported any.
gpu_use() {
  awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
           $at["gpu_memory_bytes"] == "" { next }
           { told = 1; memory = max(memory, $at["gpu_memory_bytes"]); percent = max(percent, $at["gpu_percent"])
             watts = max(watts, $at["gpu_power_watts"]) }
           END { if (told) printf "%d MiB, %d %%, %d W", memory / 1048576, percent, watts }
           function max(a, b) { return a > b + 0 ? a : b + 0 }' "$work/$1/resources.csv"
}
