#!/usr/bin/env python3
"""Makes the files that layer_reference_test.cc compares with: losses and gradients of small networks in PyTorch.

    make_reference.py FOLDER

FOLDER/layers.txt gets a line per network, "NAME|HEIGHT WIDTH CHANNELS|LAYERS OF A JOB FILE", and
FOLDER/layers.safetensors the loss of each network, summed over its rows, followed by the gradients of all variables but
the last dense layer's weights, in their order in the arena. Networks with batch normalisation follow these by the moving
statistics after the step and the loss of an evaluation with them. Everything is computed in float64. Parameters and inputs
are a fixed function of their position (parameter, input_byte), so the file holds results only. Every network is

    convolution with tanh, the layer in question, flatten, dense

so that the gradient of the layer's input, and gradients that differ from pixel to pixel, are compared too. Seeds and
PyTorch's version are in the file's metadata.
"""
import json
import random
import struct
import sys

import numpy
import torch
import torch.nn.functional as F

ROWS = 2
CLASSES = 4
SEED = 7
ACTIVATIONS = {"RELU": torch.relu, "RELU6": lambda x: torch.clamp(x, 0, 6), "SIGMOID": torch.sigmoid,
               "TANH": torch.tanh}


def parameter(variable, i):
    return ((i * 7919 + variable * 104729) % 2003 - 1001) / 2002.0


def input_byte(i):
    return (i * 2654435761 >> 16) % 256


class Network:
    """Computes a network layer by layer while writing its description. Images are [rows, channels, height, width]."""

    def __init__(self, shape):
        self.shape = shape
        height, width, channels = shape
        count = ROWS * height * width * channels
        values = numpy.array([input_byte(i) for i in range(count)], dtype=numpy.float64) / 255
        self.x = torch.from_numpy(values.reshape(ROWS, height, width, channels)).permute(0, 3, 1, 2)
        self.layers = []
        self.variables = []
        self.statistics = []  # Moving mean and variance of each batch normalisation.

    def variable(self, *shape):
        number = len(self.variables)
        count = int(numpy.prod(shape))
        values = numpy.array([parameter(number, i) for i in range(count)], dtype=numpy.float32).astype(numpy.float64)
        self.variables.append(torch.from_numpy(values.reshape(shape)).requires_grad_())
        return self.variables[-1]

    def add(self, kind, fields="", name="", inputs=()):
        head = "".join([f'name: "{name}" ' if name else "", *(f'input: "{each}" ' for each in inputs)])
        self.layers.append(f"layer {{ {head}{kind} {{ {fields} }} }}".replace("{  }", "{}"))

    def padded(self, x, size, stride, padding, pad, dilation=1, value=0.0):
        """Pads by TensorFlow's rule (SAME), or by `pad` on all sides."""
        sides = []
        for axis in (3, 2):
            reach = (size - 1) * dilation + 1
            if padding == "SAME":
                total = max(0, ((x.shape[axis] - 1) // stride) * stride + reach - x.shape[axis])
                sides += [total // 2, total - total // 2]
            else:
                sides += [pad, pad]
        return F.pad(x, sides, value=value)

    def convolution(self, x, filters, size, stride=1, padding="VALID", pad=0, dilation=1, groups=1, bias=True,
                    activation="", **names):
        weights = self.variable(filters, size, size, x.shape[1] // groups)
        b = self.variable(filters) if bias else None
        fields = [f"filters: {filters} kernel_size: {size} stride: {stride} dilation: {dilation} groups: {groups}",
                  f"padding: {padding}" if padding != "VALID" else f"pad: {pad}"]
        fields += [] if bias else ["bias: false"]
        fields += [f"activation: {activation}"] if activation else []
        self.add("convolution", " ".join(fields), **names)
        y = F.conv2d(self.padded(x, size, stride, padding, pad, dilation), weights.permute(0, 3, 1, 2), b,
                     stride=stride, dilation=dilation, groups=groups)
        return ACTIVATIONS[activation](y) if activation else y

    def transposed_convolution(self, x, filters, size, stride, padding, pad, bias):
        weights = self.variable(x.shape[1], size, size, filters)
        b = self.variable(filters) if bias else None
        self.add("transposed_convolution", f"filters: {filters} kernel_size: {size} stride: {stride} " +
                 (f"pad: {pad}" if padding == "VALID" else "padding: SAME") + ("" if bias else " bias: false"))
        y = F.conv_transpose2d(x, weights.permute(0, 3, 1, 2), stride=stride)
        sizes = [n * stride if padding == "SAME" else y.shape[2 + axis] - 2 * pad
                 for axis, n in enumerate(x.shape[2:])]
        before = max(0, size - stride) // 2 if padding == "SAME" else pad
        y = F.pad(y, (0, stride, 0, stride))  # A window smaller than its stride leaves pixels that get nothing.
        y = y[:, :, before:before + sizes[0], before:before + sizes[1]]
        return y + b.reshape(-1, 1, 1) if bias else y

    def max_pooling(self, x, size, stride, padding, pad):
        self.add("max_pooling", f"size: {size} stride: {stride} " + (f"pad: {pad}" if padding == "VALID" else
                                                                       "padding: SAME"))
        return F.max_pool2d(self.padded(x, size, stride, padding, pad, value=float("-inf")), size, stride)

    def average_pooling(self, x, size, stride, padding, pad, count_padding):
        self.add("average_pooling", f"size: {size} stride: {stride} count_padding: {str(count_padding).lower()} " +
                 (f"pad: {pad}" if padding == "VALID" else "padding: SAME"))
        sums = F.avg_pool2d(self.padded(x, size, stride, padding, pad), size, stride) * size * size
        ones = F.avg_pool2d(self.padded(torch.ones_like(x), size, stride, padding, pad), size, stride) * size * size
        return sums / (size * size) if count_padding else sums / ones

    def batch_normalisation(self, x, decay, epsilon, activation=""):
        """Returns the output of a training step and that of the evaluation after it."""
        channels = x.shape[1]
        scale, offset = self.variable(channels), self.variable(channels)
        mean, variance = torch.zeros(channels, dtype=x.dtype), torch.ones(channels, dtype=x.dtype)
        self.add("batch_normalisation", f"decay: {decay} epsilon: {epsilon}" +
                 (f" activation: {activation}" if activation else ""))
        trained = F.batch_norm(x, mean, variance, scale, offset, training=True, momentum=1 - decay, eps=epsilon)
        evaluated = F.batch_norm(x, mean, variance, scale, offset, training=False, eps=epsilon)
        self.statistics += [mean, variance]
        return tuple(ACTIVATIONS[activation](y) if activation else y for y in (trained, evaluated))

    def dense(self, x, units, activation="", **names):
        weights, b = self.variable(x.shape[1], units), self.variable(units)
        self.add("dense", f"units: {units}" + (f" activation: {activation}" if activation else ""), **names)
        y = x @ weights + b
        return ACTIVATIONS[activation](y) if activation else y

    def flatten(self, x):
        self.add("flatten")
        return x.permute(0, 2, 3, 1).reshape(ROWS, -1)

    def loss(self, logits):
        return F.cross_entropy(logits, torch.arange(ROWS) % CLASSES, reduction="sum")

    def results(self, logits, evaluated_logits=None):
        loss = self.loss(logits)
        loss.backward()
        gradients = [v.grad.reshape(-1).numpy() for v in [*self.variables[:-2], self.variables[-1]]]
        evaluated = [] if evaluated_logits is None else [[self.loss(evaluated_logits).item()]]
        return numpy.concatenate([[loss.item()], *gradients, *(each.numpy() for each in self.statistics),
                                  *evaluated]).astype(numpy.float32)


def window(rng, limit, dilation=1):
    """A random size, stride, padding and pad that fit an image of `limit` pixels."""
    while True:
        size, stride = rng.randint(1, 4), rng.randint(1, 3)
        reach = (size - 1) * dilation + 1
        padding = rng.choice(["VALID", "SAME"])
        pad = rng.randint(0, min(reach, size) - 1) if padding == "VALID" else 0
        if reach <= limit + 2 * pad or padding == "SAME":
            return size, stride, padding, pad


def networks():
    rng = random.Random(SEED)
    for kind in ("convolution", "max_pooling", "average_pooling", "global_average_pooling", "activate", "add",
                 "concatenation", "dense", "batch_normalisation", "transposed_convolution"):
        for number in range(30):
            net = Network((rng.randint(3, 9), rng.randint(3, 9), rng.randint(1, 3)))
            limit = min(net.shape[:2])
            channels = rng.choice([2, 4, 6])
            x = net.convolution(net.x, channels, 3, padding="SAME", activation="TANH", name="first")
            if kind == "convolution":
                dilation = rng.randint(1, 2)
                size, stride, padding, pad = window(rng, limit, dilation)
                groups = rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
                x = net.convolution(x, groups * rng.randint(1, 3), size, stride, padding, pad, dilation, groups,
                                    bias=rng.random() < 0.5, activation=rng.choice(["", "", *ACTIVATIONS]))
            elif kind == "max_pooling":
                x = net.max_pooling(x, *window(rng, limit))
            elif kind == "average_pooling":
                x = net.average_pooling(x, *window(rng, limit), count_padding=rng.random() < 0.5)
            elif kind == "activate":
                activation = list(ACTIVATIONS)[number % 4]
                net.add("activate", f"activation: {activation}")
                x = ACTIVATIONS[activation](x)
            elif kind in ("add", "concatenation"):
                other = net.convolution(x, channels, 1, activation="SIGMOID", name="second")
                inputs = rng.choice([("first", "second"), ("second", "first"), ("second", "first", "second")])
                net.add(kind, inputs=inputs)
                parts = [{"first": x, "second": other}[each] for each in inputs]
                x = sum(parts) if kind == "add" else torch.cat(parts, dim=1)
            if kind == "batch_normalisation":
                x, evaluated = net.batch_normalisation(x, rng.choice([0.9, 0.5, 0.99]), rng.choice([1e-5, 1e-3]),
                                                       rng.choice(["", "RELU", "TANH"]))
                logits = net.dense(net.flatten(x), CLASSES)
                evaluated = evaluated.permute(0, 2, 3, 1).reshape(ROWS, -1)
                yield f"{kind}_{number}", net, net.results(logits, evaluated @ net.variables[-2] + net.variables[-1])
                continue
            if kind == "transposed_convolution":
                size, stride = rng.randint(1, 5), rng.randint(1, 3)
                padding = rng.choice(["VALID", "SAME"])
                shortest = (limit - 1) * stride + size
                pad = rng.randint(0, min(size, (shortest + 1) // 2) - 1) if padding == "VALID" else 0
                x = net.transposed_convolution(x, rng.randint(1, 4), size, stride, padding, pad, rng.random() < 0.5)
            if kind == "global_average_pooling":
                net.add("global_average_pooling")
                x = x.mean(dim=(2, 3))
            else:
                x = net.flatten(x)
            if kind == "dense":
                x = net.dense(x, rng.randint(1, 9), activation=rng.choice(["", *ACTIVATIONS]))
            yield f"{kind}_{number}", net, net.results(net.dense(x, CLASSES))


def main():
    header = {"__metadata__": {"torch": torch.__version__, "seed": str(SEED)}}
    data, lines = b"", []
    for name, net, values in networks():
        end = len(data) + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), end]}
        data += values.tobytes()
        lines.append(f"{name}|{' '.join(map(str, net.shape))}|{' '.join(net.layers)}")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{sys.argv[1]}/layers.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(f"{sys.argv[1]}/layers.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
