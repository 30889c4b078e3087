#!/usr/bin/env python3
"""Compares lenet's training step in Tethys and in PyTorch, alternately: batch 128, float32, one thread, one processor.

    torch_step.py build/release/tests/bench/step_bench [ROUNDS] [PROCESSOR]

Both convert bytes, run forward, loss, backward and SGD with momentum, and flush denormals. The limit is for the
distribution's python3-torch, which computes convolutions with the same oneDNN. It computes matrix products with the
BLAS library installed as libblas.so.3, so install libopenblas0-serial, too. PyTorch runs in both of its memory
layouts, and the faster one is compared with Tethys.

Limit: Tethys's time / PyTorch's <= 1.0, the median over rounds.
"""
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

STEPS = 10  # Per contestant and round.


def network(layout):
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10)).to(memory_format=layout)


class Peer:
    def __init__(self, layout):
        self.layout = layout
        self.model = network(layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.images = torch.randint(0, 256, (128, 1, 28, 28), dtype=torch.uint8).contiguous(memory_format=layout)
        self.labels = torch.randint(0, 10, (128,))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(self.images.float().mul_(1 / 255)), self.labels)
        loss.backward()
        self.optimizer.step()

    def microseconds(self):
        start = time.perf_counter()
        for _ in range(STEPS):
            self.step()
        return (time.perf_counter() - start) / STEPS * 1e6


class Ours:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def microseconds(self):
        self.process.stdin.write(f"{STEPS}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 31
    processor = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() - 1
    os.sched_setaffinity(0, {processor})
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    contestants = {"ours": Ours([sys.argv[1], "lenet", str(processor)]), "PyTorch": Peer(torch.contiguous_format),
                   "PyTorch, channels last": Peer(torch.channels_last)}
    times = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant.microseconds()
    for _ in range(rounds):
        for name, contestant in contestants.items():
            times[name].append(contestant.microseconds())
    contestants["ours"].close()
    config = torch.__config__.show()
    onednn = next((line.strip(" -") for line in config.splitlines() if "MKL-DNN" in line), "no oneDNN")
    print(f"PyTorch {torch.__version__}, {onednn}; processor {processor}, {rounds} rounds of {STEPS} steps")
    for name, values in times.items():
        print(f"  {name}: median {statistics.median(values):.0f} us, least {min(values):.0f} us")
    ratios = [ours / min(peers) for ours, *peers in zip(*times.values())]
    print(f"  ours / PyTorch: {statistics.median(ratios):.3f}; limit 1.0")


if __name__ == "__main__":
    main()
