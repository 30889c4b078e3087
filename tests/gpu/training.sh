# shellcheck shell=bash
# Whole jobs on a GPU compared with the same jobs on the CPU. Sourced by gpu.sh.
#
#   curves    784-128-10 and lenet in float32 have the CPU's losses for 100 steps, to 1e-3
#   networks  every example on Fashion-MNIST (all optimizers, residual and depthwise networks, batch normalisation) has
#             the CPU's losses for eight steps, to 1e-3
#
# Training amplifies differences of rounding: at the learning rates of the examples, the losses on a CPU with
# AVX-512 and on a CPU with AVX2 differ by 2 % within 100 steps of lenet, and by 6 % within 8 steps of
# mobilenet. So for comparisons of losses these networks have lower learning rates, at which the losses on the
# two kinds of CPU differ by less than 1e-4.
#   accuracy  the same jobs run to their ends. The test accuracy in float32 is at most half a point below the CPU's;
#             with bfloat16 for products, or for NCCL's sums, it is at most half a point below float32's
#   variants  a small ResNet has the CPU's losses, to 1e-3, with micro-batches, values computed again in backward, and
#             frozen layers; `tethys predict` on the GPU gives the CPU's probabilities, to 1e-3
#   exchange  lenet has the CPU's losses when gradients are exchanged: by NCCL, with parameter servers, and between a
#             worker on the GPU and one on the CPU
#   losses    a worker is killed and replaced while lenet trains: the only one, with servers; the one on the GPU and
#             the one on the CPU, which exchange through the host; one of two on two GPUs, by NCCL, with graphs and
#             without. Training waits for the replacement, so the loss on the test data is the undisturbed run's, to
#             1e-3

sections() { echo curves networks accuracy variants exchange losses; }

half_a_point=0.005
mapfile -t on_device < <(on_device)
mapfile -t in_bf16 < <(in_bf16)
mapfile -t sums_in_bf16 < <(sums_in_bf16)

declare -A calm_rate=([lenet]=0.001 [vgg]=1e-4 [resnet]=1e-4 [mobilenet]=1e-6)
# train_calmly NAME NETWORK FLAG...: like train, but at the low learning rate in calm_rate, if calm_rate has one for the
# network.
train_calmly() { train "$@" ${calm_rate[$2]:+"--set=optimizer.learning_rate=${calm_rate[$2]}"}; }

run_curves() {
  local network
  for network in "${networks[@]}"; do
    train_calmly $network.reference $network --set=max_steps="$curve_steps" &&
      train_calmly $network.curve $network --set=max_steps="$curve_steps" "${on_device[@]}" &&
      hold_curve "$network: losses differ by" $network.reference $network.curve
  done
}

run_networks() {
  local network eight_steps=(--set=max_steps=8 --set=evaluate_each_epoch=false)
  for network in "${small_examples[@]}"; do
    train_calmly "first.$network.reference" "$network" "${eight_steps[@]}" &&
      train_calmly "first.$network" "$network" "${eight_steps[@]}" "${on_device[@]}" &&
      hold_curve "$network: losses differ by" "first.$network.reference" "first.$network"
  done
}

# hold_accuracy CHECK RUN REFERENCE: checks that RUN's test accuracy is at most half a point below REFERENCE's.
hold_accuracy() {
  local own reference
  own=$(test_accuracy "$2") reference=$(test_accuracy "$3")
  hold "$1" "${own:+$(awk -v a="$own" -v b="${reference:-1}" 'BEGIN { printf "%.4f", b - a }')}" '<=' $half_a_point \
    "$own of $reference"
}

# note_use NETWORK RUN: adds the use of the GPU, as the driver reported it, to the table.
note_use() {
  local use
  use=$(gpu_use "$2")
  if [ -n "$use" ]; then note "$1: at most" "$use"
  else lacking "$1: its use" "a driver that reports it: see log/worker-0.log"; fi
}

run_accuracy() {
  local network
  for network in "${networks[@]}"; do
    train $network.whole $network "${whole_job[@]}" &&
      train $network.fp32 $network "${whole_job[@]}" "${on_device[@]}" &&
      hold_accuracy "$network: fp32 is below the CPU by" $network.fp32 $network.whole &&
      note_use "$network" $network.fp32 &&
      train $network.bf16 $network "${whole_job[@]}" "${on_device[@]}" "${in_bf16[@]}" &&
      hold_accuracy "$network: bf16 is below fp32 by" $network.bf16 $network.fp32 &&
      train $network.sums $network "${whole_job[@]}" "${on_device[@]}" "${sums_in_bf16[@]}" &&
      hold_accuracy "$network: bf16 sums below fp32 by" $network.sums $network.fp32
  done
}

# variant NAME FLAG...: trains $variant_network for twelve steps with these flags, on the CPU and on the GPU.
variant() {
  local name=$1
  shift
  local flags=(--set=max_steps=12 --set=evaluate_each_epoch=false "$@")
  train_calmly "variant.$name.reference" $variant_network "${flags[@]}" &&
    train_calmly "variant.$name" $variant_network "${flags[@]}" "${on_device[@]}" &&
    hold_curve "$name: losses differ by" "variant.$name.reference" "variant.$name"
}

# predicted FILE FLAG...: writes the predictions of the first variant's checkpoint for the test samples.
predicted() {
  local file=$1
  shift
  limited "$tethys" predict --checkpoint="$work/variant.micro-batches" --out="$file" "$@" </dev/null \
    >"$file.log" 2>&1 || failed "predict" "$(tail -n 1 "$file.log")"
}

# largest_difference FILE FILE: prints the largest difference of probabilities between two files of
# predictions of the same samples. (If two classes are equally probable, rounding chooses the predicted
# class.)
largest_difference() {
  awk -F, 'FNR == 1 { for (i = 1; i <= NF && $i !~ /^probability/; ++i) {} first = i; columns = NF; next }
           first > columns || NF != columns { broken = 1 }
           FNR == NR { for (i = first; i <= NF; ++i) value[NR, i] = $i; lines = NR; next }
           { for (i = first; i <= NF; ++i) {
               if ($i value[FNR, i] ~ /nan|inf/) broken = 1
               d = value[FNR, i] - $i; if (d < 0) d = -d; if (d > worst) worst = d } }
           END { print broken || lines < 2 || lines != FNR ? "numbers are missing" : worst + 0 }' "$1" "$2"
}

run_variants() {
  local place cuda=()
  variant micro-batches --set=micro_batches=4
  variant recompute --set=device.recompute=true
  variant frozen --set=model.frozen=$frozen
  if [ "$device" = cuda ]; then
    cuda=(--device=cuda)
    for place in "${cuda_libraries[@]}"; do cuda+=(--cuda_library_path="$place"); done
  fi
  predicted "$work/on-cpu.csv" && predicted "$work/on-device.csv" "${cuda[@]}" &&
    hold "predict: probabilities differ by" "$(largest_difference "$work/on-cpu.csv" "$work/on-device.csv")" '<=' 1e-3 \
      "of $(wc -l <"$work/on-device.csv") lines"
}

# exchange NAME HOW FLAG...: trains lenet with the strategy of the flags and compares its losses with those of one
# worker on the CPU. On a GPU, the line in the worker's log about the exchange of gradients must contain HOW.
exchange() {
  local name=$1 how=$2 said
  shift 2
  train_calmly "exchange.$name" lenet --set=max_steps="$curve_steps" "${on_device[@]}" "$@" || return 0
  hold_curve "$name: losses differ by" exchange.reference "exchange.$name"
  said=$(sed -nE 's/.*gradients are exchanged by //p' "$work/exchange.$name/log/worker-0.log")
  if [ "$device" = cuda ] && [[ $said != *$how* ]]; then
    failed "$name: exchanged by" "$said, not $how"
  else
    note "$name: exchanged by" "${said:-servers}"
  fi
}

# Prints a host file that gives this machine several names: one worker computes on its GPU, the other on the CPU. (Two
# workers of one machine never get the same GPU, even if the host file gives the machine several names.)
mixed_hosts() {
  local address
  address=$(hostname -I 2>/dev/null | awk '{ print $1 }')
  [ -n "$address" ] || return 1
  printf '%s address=%s slots=%s role=%s device=%s\n' first "$address" 1 chief,worker "$device" \
    second "$address" 1 worker cpu servers "$address" 2 ps cpu
}

run_exchange() {
  local servers=(--set=strategy=parameter_server --set=strategy.parameter_server.servers=2)
  train_calmly exchange.reference lenet --set=max_steps="$curve_steps" || return 0
  exchange mirrored-1 NCCL --set=strategy=mirrored
  exchange ps-1 '' "${servers[@]}"
  if mixed_hosts >"$work/mixed"; then
    exchange mirrored-2 'staged through the host: rank 1 on the CPU' --set=strategy=mirrored --set=workers=2 \
      --hostfile="$work/mixed"
    exchange ps-2 '' "${servers[@]}" --set=workers=2 --hostfile="$work/mixed"
  else
    lacking "a rank on the GPU and one on the CPU" "an address of this machine besides loopback"
  fi
}

# The number of the machine's GPUs. A trial on the CPU takes any number of workers for GPUs.
gpus() { if [ "$device" = cuda ]; then nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true; else echo 2; fi; }

# worker_process NAME INDEX: prints the process of this worker in the run $work/NAME: the one that writes to its log.
worker_process() {
  local process
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/fd/2" 2>/dev/null)" = "$work/$1/log/worker-$2.log" ]; then
      basename "$process"
      return
    fi
  done
}

# loss NAME WORKER FLAG...: trains lenet twice with the strategy of the flags, the second time with WORKER killed after
# some steps. Compares the losses on the test data.
loss() {
  local name=$1 worker=$2 training process
  shift 2
  local flags=(--set=max_steps="$loss_steps" --set=max_restarts=1 --set=elastic.on_loss=WAIT "${on_device[@]}" "$@")
  train_calmly "loss.$name.undisturbed" lenet "${flags[@]}" || return 0
  train_calmly "loss.$name" lenet "${flags[@]}" &
  training=$!
  while kill -0 $training 2>/dev/null && ! grep -qs '^used ' "$work/loss.$name/journal"; do sleep 0.02; done
  process=$(worker_process "loss.$name" "$worker")
  if [ -z "$process" ] || ! kill -KILL "$process"; then failed "$name: killed" "no process of worker $worker"; fi
  wait $training || return 0
  hold "$name: changes of the group" "$(grep -c '"stall_seconds"' "$work/loss.$name/summary.json")" '>=' 1 \
    "the last stalled for $(sed -nE 's/.*"stall_seconds": *([0-9.]+).*/\1/p' "$work/loss.$name/summary.json" | tail -n 1) s"
  hold "$name: test losses differ by" \
    "$(awk -v a="$(test_loss "loss.$name.undisturbed")" -v b="$(test_loss "loss.$name")" \
      'BEGIN { if (a > 0 && b > 0) { d = (a - b) / a; print d < 0 ? -d : d } }')" '<=' 1e-3
}

run_losses() {
  local servers=(--set=strategy=parameter_server --set=strategy.parameter_server.servers=2)
  loss ps-1 0 "${servers[@]}"
  if mixed_hosts >"$work/mixed"; then
    loss mixed-0 0 --set=strategy=mirrored --set=workers=2 --hostfile="$work/mixed"
    loss mixed-1 1 --set=strategy=mirrored --set=workers=2 --hostfile="$work/mixed"
  else
    lacking "a rank on the GPU and one on the CPU" "an address of this machine besides loopback"
  fi
  if [ "$(gpus)" -ge 2 ]; then
    loss nccl-0 0 --set=strategy=mirrored --set=workers=2
    loss nccl-1 1 --set=strategy=mirrored --set=workers=2 --set=tuning.graph=false
  else
    lacking "two ranks with NCCL" "a second GPU; ranks of a job never share one"
  fi
}
