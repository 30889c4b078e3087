#!/usr/bin/env python3
"""Compares a network's training step in Tethys and in PyTorch, alternately: float32, one thread, one processor.

    torch_step.py build/release/tests/bench/step_bench [NETWORK [ROUNDS [PROCESSOR [THREADS]]]]

With THREADS both compute on as many processors, from PROCESSOR on.

NETWORK is lenet (the default), resnet20, vgg_small, resnet50, mobilenet or vgg16, with the images and batch of
step_bench.cc. Both convert bytes, run forward, loss, backward and SGD with momentum, and flush denormals. With the
distribution's python3-torch, which computes convolutions with the same oneDNN, install libopenblas0-serial, too: it
computes matrix products with the library installed as libblas.so.3. PyTorch runs in both of its memory layouts, and
the faster one is compared with Tethys.

Limit: Tethys's time / PyTorch's <= 0.85, the median over rounds.
"""
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

ROUND_SECONDS = 1.0  # The approximate length of a contestant's part of a round.


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def normalised(channels, filters, size, stride=1, groups=1):
    return [nn.Conv2d(channels, filters, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(filters)]


class Block(nn.Module):
    """A residual block: basic, or a bottleneck whose stride is on the 3 x 3 convolution."""

    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        if bottleneck:
            layers = [*normalised(channels, width, 1), nn.ReLU(), *normalised(width, width, 3, stride), nn.ReLU(),
                      *normalised(width, out, 1)]
        else:
            layers = [*normalised(channels, width, 3, stride), nn.ReLU(), *normalised(width, out, 3)]
        self.branch = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(*([] if channels == out else normalised(channels, out, 1, stride)))

    def forward(self, x):
        return nn.functional.relu(self.branch(x) + self.shortcut(x))


def resnet(stem, channels, width, blocks, bottleneck, classes):
    layers = [*stem]
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Block(channels, width << stage, 2 if stage > 0 and block == 0 else 1, bottleneck))
            channels = (width << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet20():
    return resnet([*normalised(3, 16, 3), nn.ReLU()], 16, 16, [3, 3, 3], False, 10)


def resnet50():
    return resnet([*normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64, 64, [3, 4, 6, 3], True, 1000)


def vgg(convolutions, dense, pixels, classes):
    layers, channels = [], 3
    for block, count in enumerate(convolutions):
        for _ in range(count):
            filters = 64 << min(block, 3)
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    inputs = channels * (pixels >> len(convolutions)) ** 2
    layers.append(nn.Flatten())
    for units in dense:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


def mobilenet():
    layers, channels = [*normalised(3, 32, 3, 2), nn.ReLU6()], 32
    for filters, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                            (1024, 1)]:
        layers += [*normalised(channels, channels, 3, stride, channels), nn.ReLU6(), *normalised(channels, filters, 1),
                   nn.ReLU6()]
        channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


# For each name: the network, the rows of a batch, the input channels, the pixels of a side, and the number of classes.
NETWORKS = {
    "lenet": (lenet, 128, 1, 28, 10),
    "resnet20": (resnet20, 128, 3, 32, 10),
    "vgg_small": (lambda: vgg([2, 2, 2], [512], 32, 10), 32, 3, 32, 10),
    "resnet50": (resnet50, 4, 3, 224, 1000),
    "mobilenet": (mobilenet, 4, 3, 224, 1000),
    "vgg16": (lambda: vgg([2, 2, 3, 3, 3], [4096, 4096], 224, 1000), 2, 3, 224, 1000),
}


class Peer:
    def __init__(self, workload, layout):
        network, rows, channels, side, classes = workload
        self.model = network().to(memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.images = torch.randint(0, 256, (rows, channels, side, side),
                                    dtype=torch.uint8).contiguous(memory_format=layout)
        self.labels = torch.randint(0, classes, (rows,))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(self.images.float().mul_(1 / 255)), self.labels)
        loss.backward()
        self.optimizer.step()

    def microseconds(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - start) / steps * 1e6


class Ours:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def microseconds(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    name = sys.argv[2] if len(sys.argv) > 2 else "lenet"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 11
    processor = int(sys.argv[4]) if len(sys.argv) > 4 else os.cpu_count() - 1
    threads = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    os.sched_setaffinity(0, set(range(processor, processor + threads)))
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    contestants = {"ours": Ours([sys.argv[1], name, str(processor), str(threads)]),
                   "PyTorch": Peer(NETWORKS[name], torch.contiguous_format),
                   "PyTorch, channels last": Peer(NETWORKS[name], torch.channels_last)}
    times = {each: [] for each in contestants}
    first = [contestant.microseconds(1) for contestant in contestants.values()]
    steps = max(1, round(ROUND_SECONDS * 1e6 / max(first)))
    for _ in range(rounds):
        for each, contestant in contestants.items():
            times[each].append(contestant.microseconds(steps))
    contestants["ours"].close()
    config = torch.__config__.show()
    onednn = next((line.strip(" -") for line in config.splitlines() if "MKL-DNN" in line), "no oneDNN")
    print(f"{name}; PyTorch {torch.__version__}, {onednn}; processor {processor}, {threads} threads, {rounds} rounds of {steps} steps")
    for each, values in times.items():
        print(f"  {each}: median {statistics.median(values):.0f} us, least {min(values):.0f} us")
    ratios = [ours / min(peers) for ours, *peers in zip(*times.values())]
    print(f"  ours / PyTorch: {statistics.median(ratios):.3f}; limit 0.85")


if __name__ == "__main__":
    main()
