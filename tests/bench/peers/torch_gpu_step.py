#!/usr/bin/env python3
"""Measures a training step in PyTorch, with which `tests/gpu.sh bench` compares Tethys's: 784-128-10 or a network of
torch_step.py, in float32 without TF32, with it, and in bfloat16.

    torch_gpu_step.py NETWORK BATCH [--steps=1000] [--device=cuda|cpu]

A step does what a step of Tethys does: it copies a batch of bytes and labels from pinned memory to the device,
standardises the batch there, and runs forward, loss, backward and SGD with momentum. With bf16 (autocast) parameters
and their update stay in float32. Two things favour PyTorch: its batches are ready in memory, and its loss is never
read.

Prints a line per contestant: PRECISION MODE US. US is the time of a step in microseconds, the median over blocks of 25
steps between events of the device, after a warm-up of a tenth of --steps. MODE is eager or graph; a graph is the whole
step, captured, and each batch is copied into its input buffers. Networks with convolutions run in two memory layouts,
and the faster one counts. With --device=cpu, which only tries this script, there is no graph.
"""
import argparse
import contextlib
import itertools
import statistics
import time

import torch
from torch import nn

import torch_step

BLOCK = 25  # Steps between two readings of the clock, or fewer where --steps are fewer.
BATCHES = 16  # Different batches in memory, or fewer where they are large: making them takes longer than the steps.
MOST_BYTES = 1 << 24  # Limit on the values of all batches together, a byte each; at least two batches are made.
# Contexts for forward and loss. Autocast must not cache casts, because replays of a CUDA graph would not repeat a cast
# that was cached at capture.
PRECISIONS = {"fp32": lambda device: contextlib.nullcontext(),
              "tf32": lambda device: contextlib.nullcontext(),
              "bf16": lambda device: torch.autocast(device, torch.bfloat16, cache_enabled=False)}


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


# For each name: the network, its input channels, the pixels of a side, and the number of classes.
NETWORKS = {
    "mlp": (mlp, 1, 28, 10),
    **{name: (network, *shape) for name, (network, _, *shape) in torch_step.NETWORKS.items()},
}


class Gpu:
    def __init__(self):
        self.device = torch.device("cuda")
        self.events = []

    def on_host(self, tensor):
        return tensor.pin_memory()

    def wait(self):
        torch.cuda.synchronize()

    def mark(self):
        self.events.append(torch.cuda.Event(enable_timing=True))
        self.events[-1].record()

    def block_times(self):
        """Microseconds between marks."""
        self.wait()
        return [1e3 * begin.elapsed_time(end) for begin, end in zip(self.events, self.events[1:])]

    def captured(self, step):
        """Captures `step`, which has run before, as one graph; returns a function that replays it."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(11):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay


class Cpu:
    def __init__(self):
        self.device = torch.device("cpu")
        self.times = []

    def on_host(self, tensor):
        return tensor

    def wait(self):
        pass

    def mark(self):
        self.times.append(time.perf_counter())

    def block_times(self):
        return [1e6 * (end - begin) for begin, end in zip(self.times, self.times[1:])]

    def captured(self, step):
        return None


class Step:
    """One contestant, its batches and its buffers on the device."""

    def __init__(self, backend, workload, layout, batch, precision):
        network, channels, side, classes = workload
        self.backend = backend
        self.precision = precision
        self.model = network().to(backend.device, memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        batches = max(2, min(BATCHES, MOST_BYTES // (batch * channels * side * side)))
        self.batches = itertools.cycle([
            (backend.on_host(torch.randint(0, 256, (batch, channels, side, side), dtype=torch.uint8)),
             backend.on_host(torch.randint(0, classes, (batch,)))) for _ in range(batches)])
        self.images = torch.empty((batch, channels, side, side), dtype=torch.uint8, device=backend.device)
        self.labels = torch.empty((batch,), dtype=torch.int64, device=backend.device)

    def upload(self):
        images, labels = next(self.batches)
        self.images.copy_(images, non_blocking=True)
        self.labels.copy_(labels, non_blocking=True)

    def compute(self):
        self.optimizer.zero_grad(set_to_none=True)
        inputs = self.images.float().mul_(1 / (255 * 0.3530)).sub_(0.2860 / 0.3530)
        with PRECISIONS[self.precision](self.backend.device.type):
            loss = nn.functional.cross_entropy(self.model(inputs), self.labels)
        loss.backward()
        self.optimizer.step()

    def microseconds(self, compute, steps):
        for _ in range(max(min(3, steps), steps // 10)):
            self.upload()
            compute()
        self.backend.wait()
        block = min(BLOCK, steps)
        for step in range(steps + 1):
            if step % block == 0:
                self.backend.mark()
            self.upload()
            compute()
        return statistics.median(self.backend.block_times()) / block


def measure(backend_type, name, precision, batch, steps):
    """{mode: microseconds}, each with the faster layout."""
    best = {}
    for layout in [torch.contiguous_format] + [torch.channels_last] * (name != "mlp"):
        for mode in ("eager", "graph"):
            contestant = Step(backend_type(), NETWORKS[name], layout, batch, precision)
            compute = contestant.compute
            if mode == "graph":
                contestant.upload()
                compute = contestant.backend.captured(compute)
                if compute is None:
                    continue
            best[mode] = min(best.get(mode, float("inf")), contestant.microseconds(compute, steps))
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    print(f"# PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    backend_type = Gpu if arguments.device == "cuda" else Cpu
    for precision in PRECISIONS:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for mode, microseconds in measure(backend_type, arguments.network, precision, arguments.batch,
                                          arguments.steps).items():
            print(f"{precision} {mode} {microseconds:.1f}")


if __name__ == "__main__":
    main()
