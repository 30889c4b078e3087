#!/usr/bin/env python3
"""Trains a small network of each family in Tethys and in PyTorch, from the same weights, and compares the losses.

    family_steps.py build/release/deploy/tethys [NETWORK...]

Needs what model_files.py needs. A batch is the whole data set, 32 images, so that both see the same samples in each of
20 steps of SGD with momentum. PyTorch trains in double precision, and again in float32. Prints the largest difference
of a step's loss from that in double precision, divided by it, for both. Limit for Tethys: 1e-4.

Relus behind batch normalisation make training chaotic: a step multiplies a difference, the more the deeper the network.
At rates at which they learn fast, PyTorch's float32 losses differ from its own in double precision by several percent
within 20 steps. So the rates are small, and smaller for deep networks; all losses still fall by more than 1 %.
"""
import copy
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file
from torch import nn

from model_files import DEVIATION, MEAN, as_torch_input, images_of, maps_of, read_idx, write_idx
from torch_step import lenet, normalised, resnet, vgg

LIMIT = 1e-4
SAMPLES, STEPS, CLASSES = 32, 20, 10
MOMENTUM = 0.9


def mobilenet(width):
    """As in keras.applications: strided convolutions pad at the end only, and epsilon is 0.001."""
    def convolution(channels, filters, size, stride=1, groups=1):
        padding = (0, 1, 0, 1) if stride == 2 else (size // 2,) * 4
        return [nn.ZeroPad2d(padding), nn.Conv2d(channels, filters, size, stride, groups=groups, bias=False),
                nn.BatchNorm2d(filters, eps=0.001), nn.ReLU6()]

    layers, channels = convolution(3, width, 3, 2), width
    for times, stride in [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)]:
        layers += convolution(channels, channels, 3, stride, channels) + convolution(channels, times * width, 1)
        channels = times * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Fcn8(nn.Module):
    """FCN-8s on a VGG of five blocks with one normalised convolution each; `dense` filters in fc6 and fc7."""

    def __init__(self, width, dense):
        super().__init__()
        channels, blocks = 3, []
        for block in range(5):
            filters = width << min(block, 3)
            blocks.append(nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU(),
                                        nn.MaxPool2d(2)))
            channels = filters
        self.blocks = nn.ModuleList(blocks)
        self.dense = nn.Sequential(nn.Conv2d(channels, dense, 7, padding=3), nn.ReLU(), nn.Conv2d(dense, dense, 1),
                                   nn.ReLU(), nn.Conv2d(dense, CLASSES, 1))
        enlarge = lambda times: nn.ConvTranspose2d(CLASSES, CLASSES, 2 * times, times, times // 2, bias=False)
        self.twice4 = enlarge(2)
        self.score4 = nn.Conv2d(8 * width, CLASSES, 1)
        self.twice3 = enlarge(2)
        self.score3 = nn.Conv2d(4 * width, CLASSES, 1)
        self.last = enlarge(8)

    def forward(self, x):
        pools = []
        for block in self.blocks:
            x = block(x)
            pools.append(x)
        x = self.twice4(self.dense(x)) + self.score4(pools[3])
        return self.last(self.twice3(x) + self.score3(pools[2]))


def resnet18(width):
    stem = [*normalised(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return resnet(stem, width, width, [2, 2, 2, 2], False, CLASSES)


def resnet50(width):
    stem = [*normalised(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return resnet(stem, width, width, [3, 4, 6, 3], True, CLASSES)


# For each name: the model, the shape of a sample, the learning rate, and PyTorch's model.
NETWORKS = {
    "lenet": ("lenet {}", [28, 28], 1e-2, lenet),
    "vgg": ("vgg { convolutions: 1 convolutions: 1 dense_units: 32 dropout: 0 }", [32, 32, 3], 3e-3,
            lambda: vgg([1, 1], [32], 32, CLASSES)),
    "resnet, CIFAR": ("resnet { stem: CIFAR depth: 8 }", [32, 32, 3], 1e-3,
                      lambda: resnet([*normalised(3, 16, 3), nn.ReLU()], 16, 16, [1, 1, 1], False, CLASSES)),
    "resnet-18": ("resnet { depth: 18 width: 16 }", [64, 64, 3], 1e-5, lambda: resnet18(16)),
    "resnet-50": ("resnet { depth: 50 width: 16 }", [64, 64, 3], 2e-8, lambda: resnet50(16)),
    "mobilenet": ("mobilenet { multiplier: 0.5 dropout: 0 }", [64, 64, 3], 2e-8, lambda: mobilenet(16)),
    "fcn": ("fcn { stride: 8 backbone { convolutions: [1, 1, 1, 1, 1] width: 8 dense_units: [16, 16] dropout: 0 "
            "batch_normalisation: true } }", [64, 64, 3], 1e-3, lambda: Fcn8(8, 16)),
}


def job_of(model, folder, rate, more):
    return f"""
model {{ {model} }}
data {{
  idx {{ train_images: "{folder}/images" train_labels: "{folder}/labels" }}
  classes: {CLASSES}
  mean: {MEAN}
  deviation: {DEVIATION}
}}
optimizer {{ sgd {{ momentum: {MOMENTUM} }} learning_rate: {rate} }}
global_batch_size: {SAMPLES}
evaluate_each_epoch: false
{more}
"""


def in_model_order(path):
    """The tensors of a safetensors file, in the order of their bytes in the file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    values = load_file(path)
    return [(name, values[name]) for name in sorted(header, key=lambda name: header[name]["data_offsets"])]


def load_in_order(model, tensors):
    """Copies `tensors` into the parameters of `model` and into its moving statistics, each in the model's
    order."""
    is_statistic = lambda name: "running_" in name
    for wanted in (False, True):
        ours = [values for name, values in tensors if is_statistic(name) == wanted]
        theirs = [values for name, values in model.state_dict().items()
                  if is_statistic(name) == wanted and not name.endswith("num_batches_tracked")]
        assert [values.shape for values in ours] == [values.shape for values in theirs], "the networks differ"
        for to, values in zip(theirs, ours):
            to.copy_(values)


def losses_of(model, rate, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_difference(losses, exact):
    return max(abs(a - b) / b for a, b in zip(losses, exact))


def compare(tethys, folder, config, shape, rate, make):
    """The losses of Tethys, and of PyTorch in double precision and in float32."""
    images = images_of("train-images-idx3-ubyte", SAMPLES, shape)
    labels = read_idx("train-labels-idx1-ubyte", SAMPLES, [])
    if config.startswith("fcn"):
        labels = maps_of(images, labels)
    write_idx(f"{folder}/images", images)
    write_idx(f"{folder}/labels", labels)

    def run(*arguments):
        subprocess.run([tethys, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    def train(run_dir, rate, more):
        with open(f"{folder}/job.textproto", "w", encoding="utf-8") as file:
            file.write(job_of(config, folder, rate, more))
        run("train", "job.textproto", f"--run_dir={run_dir}")

    train("start", 1e-9, "max_steps: 1")  # Writes the initial weights of both programs.
    run("export", "--checkpoint=start", "--out=start.safetensors")
    train("run", rate, f'epochs: {STEPS} initial {{ checkpoint: "start" }}')
    with open(f"{folder}/run/epochs.csv", encoding="utf-8") as file:
        ours = [float(line["train_loss"]) for line in csv.DictReader(file)]
    assert len(ours) == STEPS, ours
    model = make()
    load_in_order(model, in_model_order(f"{folder}/start.safetensors"))
    inputs = as_torch_input(images.reshape(*images.shape[:3], -1))
    classes = torch.from_numpy(labels.astype(numpy.int64))
    exact = losses_of(copy.deepcopy(model).double(), rate, inputs.double(), classes)
    return ours, exact, losses_of(model, rate, inputs, classes)


def main():
    tethys = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    failed = False
    print(f"torch {torch.__version__}\n{'network':<14}  rate  {'losses':<16}   Tethys  PyTorch in float32")
    for name, (config, shape, rate, make) in NETWORKS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            ours, exact, theirs = compare(tethys, folder, config, shape, rate, make)
        difference = largest_difference(ours, exact)
        print(f"{name:<14} {rate:>5.0e}  {exact[0]:.4f} -> {exact[-1]:.4f}  {difference:.1e}  "
              f"{largest_difference(theirs, exact):.1e}", flush=True)
        failed |= not difference <= LIMIT or exact[-1] > 0.99 * exact[0]
    sys.exit(failed)


if __name__ == "__main__":
    main()
