# shellcheck shell=bash
# Times on a GPU, each beside its peer in the same run. Sourced by gpu.sh.
#
#   update  the optimizer's bandwidth on 100 M parameters beside copies on the device
#   steps   a step of 784-128-10 and of lenet beside PyTorch's, eager and as a CUDA graph in turns
#           (bench/peers/torch_gpu_step.py says what that does). Ratios are of each round, their median counts; only
#           float32 has limits

sections() { echo update steps; }

# Network, batch, and the limits of ours / PyTorch's: eager, as a graph.
if [ "$device" = cuda ]; then
  configurations=('mlp 128 0.15 0.8' 'lenet 128 0.5 0.9' 'lenet 1024 0.5 0.9')
else
  configurations=('mlp 16 0.15 0.8' 'lenet 16 0.5 0.9')
fi

mapfile -t on_device < <(on_device)
mapfile -t in_bf16 < <(in_bf16)

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

# Numbers are gathered in files: of a contestant's rounds, of the ratios of two in the same round.
gather() { echo "$2" >>"$work/gathered.$1"; }
gathered() { cat "$work/gathered.$1" 2>/dev/null; }

# ours NETWORK BATCH PRECISION FLAG...: microseconds a step, in this round.
ours() {
  local network=$1 batch=$2 run=$1-$2.$3.$round
  shift 3
  train "$run" "$network" "${on_device[@]}" --set=batch_size_per_worker="$batch" --set=max_steps="$bench_steps" \
    --set=epochs=100 --set=drop_remainder=true --set=evaluate_each_epoch=false --set=data.prefetch_batches=8 \
    --set=optimizer.weight_decay=0 "$@" || return
  block_times "$run" | median
}

# bench_round NETWORK BATCH: both precisions of ours, then PyTorch's.
bench_round() {
  local network=$1 batch=$2 name=$1-$2 precision mode microseconds
  declare -A mine
  mine[fp32]=$(ours "$network" "$batch" fp32) || return
  mine[bf16]=$(ours "$network" "$batch" bf16 "${in_bf16[@]}") || return
  for precision in fp32 bf16; do gather "$name.$precision" "${mine[$precision]}"; done
  [ -n "$python" ] || return 0
  timeout "$limit" "$python" "$peers/torch_gpu_step.py" "$network" "$batch" \
    --device="$device" --steps="$torch_steps" </dev/null >"$work/torch.$name.$round" 2>"$work/torch.$name.$round.err" || {
    failed "$name: PyTorch" "$(tail -n 1 "$work/torch.$name.$round.err")"
    return
  }
  while read -r precision mode microseconds; do
    gather "$name.$precision.$mode" "$microseconds"
    gather "$name.$precision.$mode.ratio" "$(awk -v a="${mine[$precision]}" -v b="$microseconds" 'BEGIN { printf "%.3f", a / b }')"
  done < <(grep -v '^#' "$work/torch.$name.$round")
}

# beside NAME MODE LIMIT: how both precisions of ours did beside PyTorch's.
beside() {
  local precision peer check ratio remark lacked="PyTorch: PYTHON=FILE"
  [ -z "$python" ] || lacked="a GPU"
  for precision in fp32 bf16; do
    peer=$1.$precision.$2
    check="$1 $precision / PyTorch $2"
    if [ -z "$(gathered "$peer")" ]; then
      lacking "$check" "$lacked"
      continue
    fi
    ratio=$(gathered "$peer.ratio" | median)
    remark="$(gathered "$peer.ratio" | extremes); its step $(gathered "$peer" | median) us"
    if [ $precision = fp32 ]; then hold "$check" "$ratio" '<=' "$3" "$remark"; else note "$check" "$ratio ($remark)"; fi
  done
}

run_steps() {
  local round network batch eager graph precision python
  python=$(python_with torch)
  for round in $(seq "$rounds"); do
    while read -r network batch _; do bench_round "$network" "$batch"; done < <(printf '%s\n' "${configurations[@]}")
  done
  [ -z "$python" ] || note PyTorch "$(sed -n 's/^# //p' "$work"/torch.*.1 | head -n 1)"
  while read -r network batch eager graph; do
    for precision in fp32 bf16; do
      note "$network-$batch $precision" \
        "$(gathered "$network-$batch.$precision" | median) us ($(gathered "$network-$batch.$precision" | extremes))"
    done
    beside "$network-$batch" eager "$eager"
    beside "$network-$batch" graph "$graph"
  done < <(printf '%s\n' "${configurations[@]}")
}
