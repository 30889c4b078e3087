#!/usr/bin/env python3
"""Reads TensorBoard's event files by the rules of their format, in pure Python, with no code of Tethys.

    read_events.py PATH...      an event file, or the directory of a run

Prints a line per scalar: file, step, tag, value. If a rule is broken, prints it and exits with status 1.

    TFRecord    length uint64, its masked CRC-32C uint32, event of that length, its masked CRC-32C uint32; little-endian
    Event       wall_time = 1 double, step = 2 int64, file_version = 3 string, summary = 5, session_log = 7
    Summary     value = 1, repeated: tag = 1 string, simple_value = 2 float
    SessionLog  status = 1, START = 1
"""

import glob
import os
import struct
import sys

from format_rules import FormatError, require

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EVENT = {1: ("wall_time", FIXED64), 2: ("step", VARINT), 3: ("file_version", BYTES), 5: ("summary", BYTES),
         7: ("session_log", BYTES)}
SUMMARY = {1: ("value", BYTES)}
VALUE = {1: ("tag", BYTES), 2: ("simple_value", FIXED32)}
SESSION_LOG = {1: ("status", VARINT)}
START = 1


def crc32c(data):
    """CRC-32C computed bit by bit: x^32 + x^28 + x^27 + ... (0x1edc6f41), reflected."""
    remainder = 0xffffffff
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82f63b78 if remainder & 1 else 0)
    return remainder ^ 0xffffffff


def masked(checksum):
    return ((checksum >> 15 | checksum << 17) + 0xa282ead8) & 0xffffffff


def read_records(data):
    at = 0
    while at < len(data):
        require(len(data) - at >= 12, f"a record at byte {at} is cut off")
        length, checksum = struct.unpack_from("<QI", data, at)
        require(masked(crc32c(data[at:at + 8])) == checksum, f"the length at byte {at} has another checksum")
        end = at + 12 + length
        require(len(data) >= end + 4, f"a record at byte {at} is cut off")
        record = data[at + 12:end]
        require(masked(crc32c(record)) == struct.unpack_from("<I", data, end)[0],
                f"the record at byte {at} has another checksum")
        yield record
        at = end + 4


def read_varint(data, at):
    value = shift = 0
    while True:
        require(at < len(data) and shift < 64, "a varint is cut off or too long")
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def read_message(data, fields):
    """[(field name, value)], in the order of the data."""
    found = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        require(key >> 3 in fields, f"field {key >> 3} is none of {fields}")
        name, kind = fields[key >> 3]
        require(key & 7 == kind, f"{name} has wire type {key & 7}")
        if kind == VARINT:
            value, at = read_varint(data, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind)
            if size is None:
                size, at = read_varint(data, at)
            require(at + size <= len(data), f"{name} is cut off")
            value = data[at:at + size]
            at += size
        found.append((name, value))
    return found


def read_event(record):
    event = dict(read_message(record, EVENT))
    event["wall_time"], = struct.unpack("<d", event["wall_time"])
    event.setdefault("step", 0)
    if "session_log" in event:
        event["session_log"] = dict(read_message(event["session_log"], SESSION_LOG))
    values = []
    for _, value in read_message(event.pop("summary", b""), SUMMARY):
        fields = dict(read_message(value, VALUE))
        values.append((fields["tag"].decode(), struct.unpack("<f", fields.get("simple_value", bytes(4)))[0]))
    event["scalars"] = values
    return event


def read_file(path):
    """The events of a file after the first one, which must be the version."""
    require(os.path.basename(path).startswith("events.out.tfevents."), f"TensorBoard does not look at {path}")
    with open(path, "rb") as file:
        events = [read_event(record) for record in read_records(file.read())]
    require(events and events[0].get("file_version") == b"brain.Event:2", "the first event is not the version")
    require(all("file_version" not in event for event in events[1:]), "the version occurs twice")
    return events[1:]


def read_run(directory):
    """{tag: [(step, value)]} of all files of a run. A START event voids all points read so far at or after its step."""
    scalars = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "events.out.tfevents.*"))):
        for event in read_file(path):
            if event.get("session_log", {}).get("status") == START:
                scalars = {tag: [point for point in points if point[0] < event["step"]]
                           for tag, points in scalars.items()}
            for tag, value in event["scalars"]:
                scalars.setdefault(tag, []).append((event["step"], value))
    return scalars


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    for path in paths:
        try:
            files = glob.glob(os.path.join(path, "events.out.tfevents.*")) if os.path.isdir(path) else [path]
            for file in sorted(files):
                for event in read_file(file):
                    for tag, value in event["scalars"]:
                        print(f"{file}: {event['step']} {tag} {value:g}")
        except (FormatError, OSError, KeyError, ValueError, struct.error) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
