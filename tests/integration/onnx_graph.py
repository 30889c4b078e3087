"""Reads ONNX files by the field numbers of onnx.proto (https://github.com/onnx/onnx), and computes what their graphs
give, in pure Python and with no code of Tethys. Knows only the operators and fields that the tests need.

    graph = read_graph(content)
    graph.run(pixels)     # The logits of one sample.
"""
import math
import struct

from format_rules import FormatError, require

FLOAT, INT, INTS = 1, 2, 7  # AttributeProto.AttributeType
FLOAT_TENSOR = 1            # TensorProto.DataType
VARINT, BYTES, FIXED32 = 0, 2, 5


def read_varint(data, at):
    value = shift = 0
    while True:
        require(at < len(data) and shift < 70, "a number ends within its message")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{field number: [values]} of a message in Protobuf's wire format."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
        else:
            require(kind in (BYTES, FIXED32), f"wire type {kind}")
            size, at = read_varint(data, at) if kind == BYTES else (4, at)
            value, at = data[at:at + size], at + size
            require(at <= len(data), "a field ends within its message")
        found.setdefault(key >> 3, []).append(value)
    return found


def text(message, number):
    return message.get(number, [b""])[0].decode()


def integers(message, number):
    """A repeated field of integers, packed or not."""
    values = []
    for value in message.get(number, []):
        if isinstance(value, int):
            values.append(value)
            continue
        at = 0
        while at < len(value):
            element, at = read_varint(value, at)
            values.append(element)
    return values


def read_tensor(data):
    message = fields(data)
    require(message[2] == [FLOAT_TENSOR], "tensors are float32")
    shape, raw = integers(message, 1), message[9][0]
    require(len(raw) == 4 * math.prod(shape), "raw_data has the size of the tensor")
    return text(message, 8), (shape, struct.unpack(f"<{math.prod(shape)}f", raw))


def read_attribute(data):
    message = fields(data)
    kind = message[20][0]
    require(kind in (FLOAT, INT, INTS), f"attribute type {kind}")
    if kind == FLOAT:
        return text(message, 1), struct.unpack("<f", message[2][0])[0]
    return text(message, 1), message.get(3, [0])[0] if kind == INT else integers(message, 8)


def read_value(data):
    """(name, axes) of a graph's input or output; an axis is a number or a name."""
    message = fields(data)
    tensor = fields(fields(message[2][0])[1][0])
    require(tensor[1] == [FLOAT_TENSOR], "values are float32")
    axes = [fields(axis) for axis in fields(tensor[2][0])[1]]
    return text(message, 1), [axis[1][0] if 1 in axis else text(axis, 2) for axis in axes]


def read_graph(content):
    model = fields(content)
    require(model[1] == [7], "IR version 7")
    require([(text(fields(opset), 1), fields(opset)[2][0]) for opset in model[8]] == [("", 13)], "opset 13")
    return Graph(fields(model[7][0]))


def convolution(x, filters, bias=None, *, kernel_shape, strides, pads, group, dilations=(1, 1)):
    (_, channels, height, width), pixels = x
    (outputs, depth, rows, columns), weights = filters
    require([rows, columns] == kernel_shape and channels == depth * group, "filters fit their input")
    out_height = (height + pads[0] + pads[2] - dilations[0] * (rows - 1) - 1) // strides[0] + 1
    out_width = (width + pads[1] + pads[3] - dilations[1] * (columns - 1) - 1) // strides[1] + 1
    values = []
    for out in range(outputs):
        first = out // (outputs // group) * depth
        for i in range(out_height):
            for j in range(out_width):
                total = bias[1][out] if bias else 0.0
                for c in range(depth):
                    for a in range(rows):
                        row = i * strides[0] - pads[0] + a * dilations[0]
                        if not 0 <= row < height:
                            continue
                        for b in range(columns):
                            column = j * strides[1] - pads[1] + b * dilations[1]
                            if 0 <= column < width:
                                total += (weights[((out * depth + c) * rows + a) * columns + b] *
                                          pixels[((first + c) * height + row) * width + column])
                values.append(total)
    return [1, outputs, out_height, out_width], values


def batch_normalisation(x, scale, offset, mean, variance, *, epsilon):
    shape, values = x
    positions = math.prod(shape[2:])
    factors = [a / math.sqrt(v + epsilon) for a, v in zip(scale[1], variance[1])]
    return shape, [(value - mean[1][i // positions]) * factors[i // positions] + offset[1][i // positions]
                   for i, value in enumerate(values)]


def transposition(x, *, perm):
    shape, values = x
    strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    positions = [0]
    for axis in perm:
        positions = [position + i * strides[axis] for position in positions for i in range(shape[axis])]
    return [shape[axis] for axis in perm], [values[position] for position in positions]


def product(x, weights, bias):
    (_, inputs), values = x
    (rows, outputs), matrix = weights
    require(rows == inputs, "weights fit their input")
    return [1, outputs], [bias[1][out] + sum(values[i] * matrix[i * outputs + out] for i in range(inputs))
                          for out in range(outputs)]


def by_element(function):
    return lambda x: (x[0], [function(value) for value in x[1]])


OPERATORS = {
    "Mul": lambda x, y: (x[0], [value * y[1][0] for value in x[1]]),
    "Add": lambda x, y: (x[0], [value + y[1][0] for value in x[1]]),
    "Conv": convolution,
    "BatchNormalization": batch_normalisation,
    "Tanh": by_element(math.tanh),
    "Transpose": transposition,
    "Flatten": lambda x, *, axis: ([1, math.prod(x[0][axis:])], x[1]),
    "Gemm": product,
}


class Graph:
    def __init__(self, message):
        self.inputs = [read_value(value) for value in message[11]]
        self.outputs = [read_value(value) for value in message[12]]
        self.tensors = dict(read_tensor(tensor) for tensor in message[5])
        self.nodes = []  # (operator, inputs, output, attributes)
        for node in map(fields, message[1]):
            self.nodes.append((text(node, 4), [name.decode() for name in node[1]], text(node, 2),
                               dict(read_attribute(attribute) for attribute in node.get(5, []))))

    def run(self, pixels):
        """The values of the only output, for one sample: the values of the only input, as a list."""
        ((name, axes),), ((output, _),) = self.inputs, self.outputs
        values = {**self.tensors, name: ([1, *axes[1:]], pixels)}
        for operator, inputs, result, attributes in self.nodes:
            if operator not in OPERATORS:
                raise FormatError(f"the operator {operator} is not known here")
            values[result] = OPERATORS[operator](*(values[value] for value in inputs), **attributes)
        return list(values[output][1])
