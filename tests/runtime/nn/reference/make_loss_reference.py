#!/usr/bin/env python3
"""Makes losses.txt and losses.safetensors: losses and their gradients by PyTorch, which loss_reference_test.cc compares
with. Run by hand, with PyTorch and safetensors installed:

    python3 make_loss_reference.py

A line of losses.txt is NAME|kind|rows|positions|outputs|smoothing|ignored (-1: none): NAME's tensor holds the loss, summed
over the rows, and the gradients of all outputs. Outputs and labels follow from their index, as in the test."""
import os
import random

import torch
from safetensors.torch import save_file

FOLDER = os.path.dirname(os.path.abspath(__file__))
SHAPES = 30  # Of each kind.


def outputs(count, stride):
    return torch.tensor([((i * stride) % 2003 - 1001) / 200 for i in range(count)], dtype=torch.float64)


def labels(count, classes, ignored):
    return torch.tensor([ignored if ignored >= 0 and i % 4 == 2 else (i * 31) % classes for i in range(count)])


def softmax(rows, positions, classes, smoothing, ignored):
    x = outputs(rows * positions * classes, 7919).reshape(-1, classes).requires_grad_()
    y = labels(rows * positions, classes, ignored)
    loss = torch.nn.functional.cross_entropy(x, y, reduction="sum", label_smoothing=smoothing,
                                             ignore_index=ignored) / positions
    return x, loss


def squared(rows, positions, each):
    del positions
    x = outputs(rows * each, 7919).reshape(rows, each).requires_grad_()
    loss = torch.nn.functional.mse_loss(x, outputs(rows * each, 104729).reshape(rows, each), reduction="sum") / each
    return x, loss


def main():
    random.seed(3)
    tensors, lines = {}, []
    for kind in ("softmax", "maps", "squared"):
        for i in range(SHAPES):
            rows, each = random.randint(1, 5), random.randint(2, 12)
            positions = random.randint(2, 9) if kind == "maps" else 1
            smoothing = random.choice([0, 0.1, 0.25]) if kind != "squared" else 0
            ignored = random.choice([-1, 255, each - 1]) if kind == "maps" else -1
            if kind == "squared":
                x, loss = squared(rows, positions, each)
            else:
                x, loss = softmax(rows, positions, each, smoothing, ignored)
            loss.backward()
            name = f"{kind}_{i}"
            tensors[name] = torch.cat([loss.detach().reshape(1), x.grad.reshape(-1)]).float()
            lines.append(f"{name}|{kind}|{rows}|{positions}|{each}|{smoothing}|{ignored}\n")
    save_file(tensors, os.path.join(FOLDER, "losses.safetensors"), {"pytorch": torch.__version__, "seed": "3"})
    with open(os.path.join(FOLDER, "losses.txt"), "w", encoding="utf-8") as file:
        file.writelines(lines)


if __name__ == "__main__":
    main()
