#!/usr/bin/env python3
"""Makes the files that optimizer_reference_test.cc compares with: parameters after 50 updates by other libraries.

    make_reference.py torch|keras|layerwise OUT.safetensors

The gradients are a fixed function of element and update, so the files hold results only. They were computed in float64:
in float32 Keras's corrections of Adam are off by 1e-5, and factors such as 1 - rate * decay round alike in each update. torch.safetensors was made
with PyTorch (PyPI), keras.safetensors with Keras on TensorFlow, layerwise.safetensors with timm and with Keras on
PyTorch; the versions are in the files' metadata.
"""
import json
import struct
import sys

import numpy

ELEMENTS = 1000
UPDATES = 50
PARTS = (600, 950)  # layerwise: where two matrices and a bias lie, each with a trust ratio of its own.


def parameters():
    return numpy.array([((i * 31) % 101 - 50) / 50.0 for i in range(ELEMENTS)], dtype=numpy.float32)


def gradient(update):
    sizes = (1.0, 0.1, 0.001, 10.0)
    return numpy.array([((i * 7919 + update * 104729) % 2003 - 1001) / 1001.0 * sizes[i % 4] for i in range(ELEMENTS)],
                       dtype=numpy.float32)


def torch_results():
    import torch
    cases = {
        "sgd": lambda w: torch.optim.SGD(w, lr=0.05, weight_decay=0.01),
        "momentum": lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.9, weight_decay=0.01),
        "nesterov": lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda w: torch.optim.Adam(w, lr=0.01),
        "adam_decay": lambda w: torch.optim.Adam(w, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.01),
        "adamw": lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1),
        "rmsprop": lambda w: torch.optim.RMSprop(w, lr=0.01),
        "rmsprop_momentum": lambda w: torch.optim.RMSprop(w, lr=0.01, alpha=0.9, momentum=0.9, weight_decay=0.01),
        "rmsprop_centered": lambda w: torch.optim.RMSprop(w, lr=0.01, centered=True),
        "rmsprop_centered_momentum": lambda w: torch.optim.RMSprop(w, lr=0.01, centered=True, momentum=0.5),
        "adagrad": lambda w: torch.optim.Adagrad(w, lr=0.05),
        "adagrad_initial": lambda w: torch.optim.Adagrad(w, lr=0.05, initial_accumulator_value=0.5, weight_decay=0.01),
    }
    results = {}
    for name, make in cases.items():
        w = torch.nn.Parameter(torch.from_numpy(parameters()).double())
        optimizer = make([w])
        for update in range(UPDATES):
            w.grad = torch.from_numpy(gradient(update)).double()
            optimizer.step()
        results[name] = w.detach().numpy().astype("float32")
    return results, {"torch": torch.__version__}


def keras_results():
    import keras
    import tensorflow
    cases = {
        "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
        "nesterov": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        "adam": lambda: keras.optimizers.Adam(0.01),
        "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
        "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
        "rmsprop_momentum": lambda: keras.optimizers.RMSprop(0.01, momentum=0.9),
        "rmsprop_centered": lambda: keras.optimizers.RMSprop(0.01, centered=True, momentum=0.5),
        "adagrad": lambda: keras.optimizers.Adagrad(0.05),
    }
    results = {}
    for name, make in cases.items():
        w = keras.Variable(parameters().astype("float64"), dtype="float64")
        optimizer = make()
        optimizer.build([w])
        for update in range(UPDATES):
            optimizer.apply([tensorflow.constant(gradient(update).astype("float64"))])
        results[name] = w.numpy().astype("float32")
    return results, {"keras": keras.__version__, "tensorflow": tensorflow.__version__}


def layerwise_results():
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import timm
    import torch
    from timm.optim import Lamb, Lars
    cases = {
        "lars": lambda groups: Lars(groups(0, always_adapt=True), lr=2, momentum=0.9),
        "lars_decay": lambda groups: Lars(groups(0.01), lr=2, momentum=0.9, trust_coeff=0.01, eps=1e-6),
        "lars_nesterov": lambda groups: Lars(groups(0.001), lr=2, momentum=0.8, nesterov=True),
        "lamb": lambda groups: Lamb(groups(0, always_adapt=True), lr=0.01, max_grad_norm=None),
        "lamb_decay": lambda groups: Lamb(groups(0.1), lr=0.01, betas=(0.8, 0.99), eps=1e-3, max_grad_norm=None),
        "lamb_clipped": lambda groups: Lamb(groups(0.1), lr=0.01, max_grad_norm=1.0),
    }
    results = {}
    for name, make in cases.items():
        parts = [torch.nn.Parameter(torch.from_numpy(part).double()) for part in numpy.split(parameters(), PARTS)]

        def groups(decay, **adapted):  # timm adapts no parameters without decay, unless it is told to.
            return [{"params": parts[:2], "weight_decay": decay, **adapted}, {"params": parts[2:], "weight_decay": 0}]

        optimizer = make(groups)
        for update in range(UPDATES):
            for part, values in zip(parts, numpy.split(gradient(update), PARTS)):
                part.grad = torch.from_numpy(values).double()
            optimizer.step()
        results[name] = torch.cat(parts).detach().numpy().astype("float32")
    parts = [keras.Variable(part.astype("float64"), dtype="float64") for part in numpy.split(parameters(), PARTS)]
    optimizer = keras.optimizers.Lamb(0.01)
    optimizer.build(parts)
    for update in range(UPDATES):
        optimizer.apply([torch.from_numpy(part).double() for part in numpy.split(gradient(update), PARTS)])
    results["lamb_keras"] = numpy.concatenate([keras.ops.convert_to_numpy(part) for part in parts]).astype("float32")
    return results, {"timm": timm.__version__, "keras": keras.__version__, "torch": torch.__version__}


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    made, versions = {"torch": torch_results, "keras": keras_results, "layerwise": layerwise_results}[sys.argv[1]]()
    write(sys.argv[2], made, versions)
