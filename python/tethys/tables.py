"""Reads the tables and the weights in a run directory."""
import csv
import json
import struct

import numpy


def column_of(texts):
    """A column as integers, as floats (nan for empty fields), or as strings."""
    for kind in (numpy.int64, numpy.float64):
        try:
            return numpy.array([text if text or kind is numpy.int64 else "nan" for text in texts]).astype(kind)
        except (ValueError, OverflowError):
            continue
    return numpy.array(texts)


def columns_of(table):
    """The names of the columns of a table that read_csv returned."""
    return list(table.columns if hasattr(table, "columns") else table.dtype.names)


def read_csv(path):
    """The table as a pandas DataFrame or, without pandas, a structured numpy array. table["column"] works on both."""
    try:
        import pandas  # pylint: disable=import-outside-toplevel
        return pandas.read_csv(path)
    except ImportError:
        pass
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    columns = [column_of(column) for column in zip(*rows)] if rows else [numpy.array([])] * len(names)
    table = numpy.empty(len(rows), [(name, column.dtype) for name, column in zip(names, columns)])
    for name, column in zip(names, columns):
        table[name] = column
    return table


def read_safetensors(path):
    """{name: array} of a .safetensors file of float32 tensors."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        values = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(values[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"]).copy()
            for name, entry in header.items()}
