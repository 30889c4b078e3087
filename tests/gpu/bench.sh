# shellcheck shell=bash
# Benchmarks on a GPU, each compared with PyTorch or with copies on the device in the same run. Sourced by
# gpu.sh.
#
#   update        the optimizer's bandwidth on 100 M parameters, compared with copies on the device
#   convolutions  the time of lenet's, ResNet50's, VGG16's and MobileNet's convolutions, in every precision
#   steps         a training step of 784-128-10 and of lenet, compared with PyTorch's, both eager and as a CUDA graph
#                 (described in bench/peers/torch_gpu_step.py). Rounds of both alternate, and the median of the rounds'
#                 ratios is reported; it has limits in float32 only
#   large         the same for ResNet50, VGG16 and MobileNet on pictures of 224 x 224, in one round and without limits
#   sweep         step time over the batch, 1 to 70, of the networks of study 3
#                 (examples/studies/003_sweep_*.textproto): for SWEEP_SECONDS per network, by default 60
#   company       the share of a sweep's visits that count as disturbed: with no other process, beside one
#                 that only has a context on the GPU (PyTorch's), and beside one that trains there. The
#                 visits must count as disturbed only in the last case. Also the memory of a batch, measured before and
#                 after a larger batch

sections() { echo update convolutions steps large sweep company; }

# Each entry has a network, a batch and, for some networks, two limits on (Tethys's time / PyTorch's time) in
# float32: against PyTorch's eager mode, and against PyTorch with a CUDA graph.
if [ "$device" = cuda ]; then
  small_networks=('mlp 128 0.15 0.8' 'lenet 128 0.5 0.9' 'lenet 1024 0.5 0.9')
  large_networks=('resnet50-224 64' 'vgg16-224 32' 'mobilenet-224 64')
  convolved_networks=('lenet 128' 'lenet 1024' 'resnet50 64' 'vgg16 32' 'mobilenet 64') precisions=(fp32 tf32 bf16)
  sweeps=(lenet vgg16 mobilenet resnet50) sweep_flags=(--batches=1-70 --seconds="${SWEEP_SECONDS:-60}")
  company_seconds=8 company_memory=4096 noticed_share=0.5
else
  small_networks=('lenet 16 0.5 0.9')
  large_networks=('mobilenet-224 1')
  convolved_networks=('lenet 16') precisions=(fp32)
  sweeps=(lenet) sweep_flags=(--batches=1-3 --seconds=2 --memory=64)
  company_seconds=1 company_memory=200 noticed_share=0
fi

mapfile -t on_device < <(on_device)
# The variants of Tethys with their flags: the precisions, and float32 without a graph (each operation
# launched separately).
contestants=(fp32 tf32 bf16 launches)
declare -A flag_of=([fp32]='' [tf32]=$(in_tf32) [bf16]=$(in_bf16) [launches]=--set=tuning.graph=false)

run_update() {
  local arguments=(cuda) name rate ratio limit_of_it
  if [ "$device" = cpu ]; then arguments=(cpu 2 3); fi
  if [ -z "$(binary update_bench)" ]; then
    lacking update_bench "it was not built: TETHYS_BUILD_BENCHMARKS"
    return
  fi
  program update_bench "${arguments[@]}" >"$work/update.log" 2>&1 || { tail -n 2 "$work/update.log"; return 1; }
  cat "$work/update.log"
  while IFS=$'\t' read -r name rate ratio limit_of_it; do
    if [ -n "$limit_of_it" ]; then
      hold "$name" "$ratio" '>=' "$limit_of_it" "of the copy's; $rate GB/s"
    else
      note "$name" "$rate GB/s"
    fi
  done < <(grep $'\t' "$work/update.log")
}

run_convolutions() {
  local network batch precision sums
  if [ -z "$(binary convolution_bench)" ]; then
    lacking convolution_bench "it was not built: TETHYS_BUILD_BENCHMARKS"
    return
  fi
  for precision in "${precisions[@]}"; do
    while read -r network batch; do
      if ! program convolution_bench "$device" "$precision" "$network" "$batch" >"$work/convolutions.log" 2>&1; then
        failed "$network-$batch $precision" "$(tail -n 1 "$work/convolutions.log")"
        continue
      fi
      cat "$work/convolutions.log"
      sums=$(tail -n 1 "$work/convolutions.log")
      note "$network-$batch $precision" \
        "$(awk -F'\t' '{ printf "forward %s us, data %s us, filters %s us", $2, $4, $6 }' <<<"$sums")"
    done < <(printf '%s\n' "${convolved_networks[@]}")
  done
}

# gather NAME NUMBER: keeps a number of this round, and shows it. NAME is the name of a variant's times, or of
# the ratios of two variants.
# gathered NAME: prints the numbers of all rounds, one per line.
gather() {
  echo "$1: $2" >&2
  echo "$2" >>"$work/gathered.$1"
}
gathered() { cat "$work/gathered.$1" 2>/dev/null; }

# loader_threads NETWORK: prints the number of loader threads. For pictures of 224 x 224 the number is so
# large that the loader delivers samples faster than a GPU trains; for small pictures it is 1.
loader_threads() { case $1 in *-224) echo 4 ;; *) echo 1 ;; esac; }

# ours NETWORK BATCH CONTESTANT: prints microseconds per step of a Tethys variant in this round.
ours() {
  local run=$1-$2.$3.$round flag=${flag_of[$3]}
  train "$run" "$1" "${on_device[@]}" --set=batch_size_per_worker="$2" --set=max_steps="$bench_steps" \
    --set=epochs=100 --set=drop_remainder=true --set=evaluate_each_epoch=false --set=tuning.prefetch_batches=8 \
    --set=data.loader_threads="$(loader_threads "$1")" --set=optimizer.weight_decay=0 ${flag:+"$flag"} || return
  block_times "$run" | median
}

# theirs NETWORK BATCH: runs PyTorch's step; prints its lines of PRECISION MODE MICROSECONDS.
theirs() {
  local log=$work/torch.$1-$2.$round
  limited "$python" "$peers/torch_gpu_step.py" "${1%-224}" "$2" --device="$device" \
    --steps="$torch_steps" </dev/null >"$log" 2>"$log.err" || failed "$1-$2: PyTorch" "$(tail -n 1 "$log.err")"
  grep -v '^#' "$log"
}

# bench_round NETWORK BATCH: measures all variants of Tethys, then PyTorch; gathers times and ratios.
bench_round() {
  local name=$1-$2 contestant precision mode microseconds
  declare -A mine=()
  for contestant in "${contestants[@]}"; do
    mine[$contestant]=$(ours "$1" "$2" "$contestant") && gather "$name.$contestant" "${mine[$contestant]}"
  done
  [ -n "$python" ] || return 0
  while read -r precision mode microseconds; do
    gather "$name.$precision.$mode" "$microseconds"
    [ -z "${mine[$precision]}" ] || gather "$name.$precision.$mode.ratio" \
      "$(awk -v a="${mine[$precision]}" -v b="$microseconds" 'BEGIN { printf "%.3f", a / b }')"
  done < <(theirs "$1" "$2")
}

# beside NAME MODE [LIMIT]: compares Tethys's step with PyTorch's in this MODE, in every precision. LIMIT applies to
# float32 only.
beside() {
  local precision peer check ratio remark lacked="PyTorch: PYTHON=FILE"
  [ -z "$python" ] || lacked="a GPU"
  for precision in fp32 tf32 bf16; do
    peer=$1.$precision.$2
    check="$1 $precision / PyTorch $2"
    if [ -z "$(gathered "$peer")" ]; then
      lacking "$check" "$lacked"
      continue
    fi
    ratio=$(gathered "$peer.ratio" | median)
    remark="$(gathered "$peer.ratio" | extremes); its step $(gathered "$peer" | median) us"
    if [ $precision = fp32 ] && [ -n "${3:-}" ]; then
      hold "$check" "$ratio" '<=' "$3" "$remark"
    else
      note "$check" "$ratio ($remark)"
    fi
  done
}

# compare_steps CONFIGURATION...: makes $rounds rounds of these configurations.
compare_steps() {
  local configurations=("$@") round network batch eager graph contestant python
  python=$(python_with torch)
  for round in $(seq "$rounds"); do
    while read -r network batch _; do bench_round "$network" "$batch"; done < <(printf '%s\n' "${configurations[@]}")
  done
  [ -z "$python" ] || note PyTorch "$(sed -n 's/^# //p' "$work"/torch.*.1 | head -n 1)"
  while read -r network batch eager graph; do
    for contestant in "${contestants[@]}"; do
      note "$network-$batch $contestant" \
        "$(gathered "$network-$batch.$contestant" | median) us ($(gathered "$network-$batch.$contestant" | extremes))"
    done
    beside "$network-$batch" eager "$eager"
    beside "$network-$batch" graph "$graph"
  done < <(printf '%s\n' "${configurations[@]}")
}

run_steps() { compare_steps "${small_networks[@]}"; }

run_large() {
  local rounds=1 bench_steps=$large_steps torch_steps=$large_torch_steps warm_steps=$large_warm_steps
  local contestants=(fp32 tf32 bf16)
  compare_steps "${large_networks[@]}"
}

run_sweep() {
  local network answer
  for network in "${sweeps[@]}"; do
    answer=$work/sweep-$network
    if ! limited "$tethys" sweep "$jobs/studies/003_sweep_$network.textproto" "${on_device[@]}" \
      "${sweep_flags[@]}" --run_dir="$answer" </dev/null >"$answer.log" 2>&1; then
      failed "$network" "$(tail -n 1 "$answer.log")"
      continue
    fi
    cat "$answer.log"
    note "$network" "$(grep -m1 -oE 'multiples of 16.*' "$answer.log")"
  done
}

# sweep_lenet NAME FLAG...: sweeps lenet on $device, into $work/NAME.
sweep_lenet() {
  local name=$1
  shift
  limited "$tethys" sweep "$jobs/studies/003_sweep_lenet.textproto" "${on_device[@]}" "$@" --run_dir="$work/$name" \
    </dev/null >"$work/$name.log" 2>&1 && return
  failed "$name" "$(tail -n 1 "$work/$name.log")"
  return 1
}

# over_batches NAME PROGRAM: runs an awk program on the sweep's table; value("visits") is the current line's value in
# the column visits. (Columns are counted from the last, since the name of a device contains commas.)
over_batches() {
  awk -F, "function value(name) { return \$(NF - behind[name]) }
           NR == 1 { for (i = 1; i <= NF; ++i) behind[\$i] = NF - i; next } $2" "$work/$1/sweep.csv"
}

# hold_disturbed CHECK RELATION LIMIT: runs a sweep for some seconds, and checks that the share of visits
# (measurements of one batch size) that counted as disturbed is in RELATION to LIMIT.
hold_disturbed() {
  local name=company.${1// /-}
  sweep_lenet "$name" --batches=16,64 --seconds="$company_seconds" --rounds=30 --memory="$company_memory" || return
  hold "disturbed $1" "$(over_batches "$name" '{ visits += value("visits"); disturbed += value("disturbed") }
    END { if (visits) printf "%.3f", disturbed / visits }')" "$2" "$3" \
    "$(grep -m1 -oE '[^.;]* disturbed by[^.]*|[^.;]*other program took[^.]*' "$work/$name.log")"
}

run_company() {
  local python companion
  hold_disturbed "alone" '<=' 0.1
  python=$(python_with torch)
  if [ -n "$python" ] && [ "$device" = cuda ]; then
    "$python" -c 'import torch, time; torch.zeros(1, device="cuda"); print("ready", flush=True); time.sleep(300)' \
      >"$work/context.log" 2>&1 &
    companion=$!
    timeout 60 sh -c "until grep -q ready '$work/context.log'; do sleep 0.2; done"
    hold_disturbed "beside a context" '<=' 0.1
    kill "$companion" && wait "$companion" 2>/dev/null
  else
    lacking "disturbed beside a context" "PyTorch on a GPU"
  fi
  # The companion is ended by an interrupt, which is not a failure here.
  (failed() { :; } && train companion lenet "${on_device[@]}" --set=epochs=1000 --set=evaluate_each_epoch=false \
    --set=batch_size_per_worker=512) 2>/dev/null &
  timeout 60 sh -c "until [ -s '$work/companion/steps.csv' ]; do sleep 0.2; done"
  hold_disturbed "beside training" '>=' "$noticed_share"
  for companion in "$work"/running/*; do [ -e "$companion" ] && kill -INT "$(basename "$companion")"; done
  wait

  sweep_lenet company.memory --batches=8,16,512 --seconds="$company_seconds" --rounds=7 --memory="$company_memory" || return 0
  note "MiB of batches 8, 16, 512" "$(over_batches company.memory '{ printf "%s%.0f (forecast %.0f)", comma,
    value("measured_bytes") / 1048576, value("forecast_bytes") / 1048576; comma = ", " }')"
}
