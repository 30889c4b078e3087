#!/usr/bin/env python3
"""Reads checkpoints by the rules of the safetensors format, in pure Python, with no code of Tethys.

    read_safetensors.py PATH...      a .safetensors file, or a checkpoint's directory

Prints a line per tensor. The tensors of a directory are also compared with the checksums in its manifest. If the
`safetensors` package is installed, each file is read by the package, too, and both results are compared. If a rule of
the format is broken, prints the rule and exits with status 1.
"""

import json
import os
import re
import struct
import sys
import zlib

from format_rules import FormatError, require

DTYPE_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
               "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}
MAX_HEADER_BYTES = 100_000_000


def unique_keys(pairs):
    require(len({key for key, _ in pairs}) == len(pairs), "a key occurs twice in the header")
    return dict(pairs)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_header(data):
    """The header's object, and the position where the tensors' bytes begin."""
    require(len(data) >= 8, "a file holds at least the 8 bytes of its header's length")
    (length,) = struct.unpack("<Q", data[:8])
    require(length <= MAX_HEADER_BYTES and 8 + length <= len(data), f"a header of {length} bytes does not fit")
    text = data[8:8 + length]
    require(text[:1] == b"{", "a header begins with {")
    try:
        header = json.loads(text.decode("utf-8").rstrip(" "), object_pairs_hook=unique_keys)
    except ValueError as error:
        raise FormatError(f"the header is not JSON: {error}") from error
    metadata = header.pop("__metadata__", {})
    require(all(isinstance(value, str) for value in metadata.values()), "__metadata__ maps strings to strings")
    return header, 8 + length


def read_tensors(data):
    """{name: (dtype, shape, bytes)}, in the order of the data."""
    header, begin = read_header(data)
    tensors = {}
    position = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        require(set(entry) == {"dtype", "shape", "data_offsets"}, f"{name}: dtype, shape and data_offsets, no more")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        require(dtype in DTYPE_BYTES, f"{name}: unknown dtype {dtype}")
        require(all(map(is_count, shape)), f"{name}: shape {shape}")
        require(len(offsets) == 2 and all(map(is_count, offsets)), f"{name}: data_offsets {offsets}")
        size = DTYPE_BYTES[dtype]
        for axis in shape:
            size *= axis
        require(offsets[0] == position, f"{name}: begins at {offsets[0]}, the tensor before ends at {position}")
        require(offsets[1] - offsets[0] == size, f"{name}: {offsets} do not span the {size} bytes of {dtype} {shape}")
        position = offsets[1]
        require(begin + position <= len(data), f"{name}: ends beyond the file")
        tensors[name] = (dtype, shape, data[begin + offsets[0]:begin + offsets[1]])
    require(begin + position == len(data), "bytes beyond the last tensor")
    return tensors


def compare_with_package(data, tensors):
    try:
        import safetensors
    except ImportError:
        return "the safetensors package is not installed: not compared with it"
    theirs = {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in safetensors.deserialize(data)}
    require(theirs == tensors, "the safetensors package reads other tensors")
    return f"the same in safetensors {safetensors.__version__}"


def read_file(path):
    with open(path, "rb") as file:
        data = file.read()
    tensors = read_tensors(data)
    for name, (dtype, shape, content) in tensors.items():
        print(f"{path}: {name} {dtype} {shape} crc32 {zlib.crc32(content):08x}")
    print(f"{path}: {len(tensors)} tensors; {compare_with_package(data, tensors)}")
    return tensors


def manifest_checksums(text):
    """{(file, tensor): CRC-32}, from the manifest's text format."""
    checksums = {}
    for block in re.findall(r"^tensor \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^  (\w+): (.*)$", block, re.MULTILINE))
        name, file = json.loads(fields["name"]), json.loads(fields["file"])
        checksums[file, name] = int(fields.get("crc32", 0))
    return checksums


def read_checkpoint(directory):
    with open(os.path.join(directory, "manifest.textproto"), "rb") as file:
        manifest = file.read()
    body, _, line = manifest[:-1].rpartition(b"\n")
    require(line == b"# crc32: %08x" % zlib.crc32(body + b"\n"), "the manifest's last line is not its checksum")
    found = {}
    for file in sorted(os.listdir(directory)):
        if file.endswith(".safetensors"):
            for name, (_, _, content) in read_file(os.path.join(directory, file)).items():
                found[file, name] = zlib.crc32(content)
    require(found == manifest_checksums(manifest.decode()), "tensors and checksums are not those of the manifest")


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    for path in paths:
        try:
            read_checkpoint(path) if os.path.isdir(path) else read_file(path)
        except (FormatError, OSError, KeyError, TypeError, AttributeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
