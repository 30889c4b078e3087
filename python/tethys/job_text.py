"""Writes a dict as the text of a job file.

In the text an enum's word has no quotes and a string has quotes, so the types of the fields are needed. They are read
from proto/job.proto, of which the wheel contains a copy.
"""
import numbers
import os
import re
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCOPE = re.compile(r"\s*(message|enum|oneof) (\w+) \{(\s*\})?")
FIELD = re.compile(r"\s*(?:optional |repeated )?(\w+) (\w+) = \d+")


@lru_cache(maxsize=1)
def schema():
    """({message: {field: type}}, the enums). Messages and enums have their full names, such as "Data.Cache"."""
    path = HERE / "job.proto"
    text = (path if path.exists() else HERE.parent.parent / "proto/job.proto").read_text(encoding="utf-8")
    messages, enums, scopes = {}, set(), []
    for line in text.split("\n"):
        line = line.partition("//")[0]
        scope, field = SCOPE.match(line), FIELD.match(line)
        if scope:
            kind, name, ended = scope.groups()
            # The fields of a oneof belong to the message around it.
            full = scopes[-1] if kind == "oneof" else ".".join(scopes[-1:] + [name])
            enums.add(full) if kind == "enum" else messages.setdefault(full, {})
            if not ended:
                scopes.append(full)
        elif field and scopes[-1] not in enums:
            messages[scopes[-1]][field[2]] = field[1]
        elif "}" in line and scopes:
            scopes.pop()
    return messages, enums


def full_type(message, field):
    """The full name of the type of a field; None if the message has no such field."""
    messages, enums = schema()
    name = messages.get(message, {}).get(field)
    outer = message
    while name and outer:
        if f"{outer}.{name}" in messages or f"{outer}.{name}" in enums:
            return f"{outer}.{name}"
        outer = outer.rpartition(".")[0]
    return name


def quoted(value):
    text = os.fsencode(value)
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:03o}" for c in text) + '"'


def scalar_text(value, is_enum):
    if hasattr(value, "item"):  # A number of numpy.
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Real):
        return repr(value)
    if is_enum and isinstance(value, str) and re.fullmatch(r"\w+", value):
        return value
    if isinstance(value, (str, bytes, os.PathLike)):
        return quoted(value)
    raise TypeError(f"{value!r} is no value of a job: use numbers, strings, True and False, lists and dicts")


def text_of(values, message="Job", indent=""):
    """The text format of a dict. A list gives the field once for each element; a string for a message, such as
    {"strategy": "mirrored"}, chooses the member of that name. Unknown fields are written, too: the command refuses them
    and says which fields exist."""
    messages, enums = schema()
    lines = []
    for name, value in values.items():
        kind = full_type(message, name)
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if kind in messages and isinstance(one, str):
                one = {one: {}}
            if isinstance(one, dict):
                inner = text_of(one, kind, indent + "  ")
                lines.append(f"{indent}{name} {{\n{inner}{indent}}}\n")
            else:
                lines.append(f"{indent}{name}: {scalar_text(one, kind in enums)}\n")
    return "".join(lines)
