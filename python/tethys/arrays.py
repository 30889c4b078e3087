"""Writes arrays as .npy files, which the command reads in place."""
import os
from pathlib import Path

import numpy

from tethys.errors import BadJob

HEADER_BYTES = 256


def array_of(value, name):
    """A numpy array of anything with __array__ or __dlpack__, or of nested lists."""
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        return numpy.from_dlpack(value)
    try:
        return numpy.asarray(value)
    except ValueError as error:  # Lists of unlike lengths.
        raise BadJob(f"{name} is no array: {error}", "data") from error


def usual_type(array, name, is_label):
    """The array in a type that jobs take. float64 and float16 become float32."""
    if array.dtype.kind == "f":
        return numpy.ascontiguousarray(array, numpy.float32)
    if is_label and array.dtype.kind in "iu":
        return numpy.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if is_label and array.dtype == bool:
        return numpy.ascontiguousarray(array, numpy.uint8)
    if array.dtype == numpy.uint8:
        return numpy.ascontiguousarray(array)
    wanted = ("integers, or float32 for targets" if is_label else
              "uint8 (pixels, which training divides by 255) or float32")
    raise BadJob(f"{name} is an array of {array.dtype}: give {wanted}", "data")


class NpyWriter:
    """Writes batches one after another as one array. The first batch sets the type and the shape of a sample."""

    def __init__(self, path, name, is_label):
        self.path, self.name, self.is_label = path, name, is_label
        self.type = self.shape = None
        self.count = 0
        self.file = open(path, "wb")  # pylint: disable=consider-using-with
        self.file.write(bytes(HEADER_BYTES))

    def add(self, value):
        array = usual_type(array_of(value, self.name), self.name, self.is_label)
        if array.ndim == 0:
            raise BadJob(f"{self.name} is a single value: give an array with one row for each sample", "data")
        if self.type is None:
            self.type, self.shape = array.dtype, array.shape[1:]
        if (array.dtype, array.shape[1:]) != (self.type, self.shape):
            raise BadJob(f"{self.name} has a batch of {array.dtype} {list(array.shape[1:])} after batches of "
                         f"{self.type} {list(self.shape)}", "data")
        array.tofile(self.file)
        self.count += len(array)
        return len(array)

    def close(self):
        """Writes the header, of constant size: numpy.lib.format describes it."""
        facts = {"descr": self.type.str, "fortran_order": False, "shape": (self.count, *self.shape)}
        text = repr(facts).encode()
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") +
                        text.ljust(HEADER_BYTES - 11) + b"\n")
        self.file.close()


def write_split(paths, split, data):
    """Writes `data`, (values, labels) or an iterable of such batches, to the two paths. `split`: its name in errors."""
    writers = [NpyWriter(path, f"the {what} of {split}", what == "labels")
               for path, what in zip(paths, ("values", "labels"))]
    try:
        for batch in [data] if isinstance(data, tuple) else data:
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise BadJob(f"{split} is no pair (values, labels), nor an iterable of such pairs", "data")
            counts = [writer.add(value) for writer, value in zip(writers, batch)]
            if counts[0] != counts[1]:
                raise BadJob(f"{split} has {counts[0]} values, but {counts[1]} labels", "data")
        if writers[0].count == 0:
            raise BadJob(f"{split} has no samples", "data")
        for writer in writers:
            writer.close()
    finally:
        for writer in writers:
            writer.file.close()


def write_data(folder, data, test, from_chief):
    """Writes the splits into `folder` and returns the changes of a job that reads them. `from_chief`: other machines
    fetch the files from this one, which must run the chief."""
    if data is None:
        if test is not None:
            raise BadJob("test is given without data: give both, or name both in the job", "test")
        return {}
    folder = Path(folder).absolute()
    folder.mkdir(parents=True)
    changes = {"data": "npy"}
    for split, prefix, given in (("data", "train", data), ("test", "test", test)):
        if given is None:
            continue
        paths = {what: folder / f"{prefix}_{what}.npy" for what in ("images", "labels")}
        write_split(paths.values(), split, given)
        for what, path in paths.items():
            changes[f"data.npy.{prefix}_{what}"] = ("chief://" if from_chief else "") + os.fspath(path)
    return changes
