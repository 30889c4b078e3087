#!/usr/bin/env python3
"""Packs the Python package and a bundle of the command as a wheel, with the standard library alone.

    make_wheel.py ROOT BUNDLE VERSION ARCHITECTURE FOLDER       called by deploy/release.sh

ROOT: the source tree. BUNDLE: the folder of an unpacked bundle. Writes the wheel into FOLDER and prints its name. The
same files give the same bytes. The format is that of the Binary distribution format specification
(packaging.python.org).
"""
import base64
import hashlib
import os
import sys
import zipfile

# The bundle contains its own C library, so it runs with any (tests/bare_roots.sh). The pip of Debian 11 knows these
# tags.
TAG = "py3-none-manylinux_2_17_{0}.musllinux_1_1_{0}"

METADATA = """\
Metadata-Version: 2.1
Name: tethys
Version: {version}
Summary: Trains neural networks with parameter servers or mirrored workers, and measures which does better
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: deploy/make_wheel.py
Root-Is-Purelib: false
{tags}"""

DESCRIPTION = """\
`tethys.train(job, data=(x, y))` trains from numpy arrays and returns a run with tables and weights. The command
`tethys` is in the wheel. `tethys/_bundle/share/doc` has the licences of all its parts.
"""


def files_below(folder, prefix):
    """{name in the wheel: path} of all files."""
    return {f"{prefix}/{os.path.relpath(os.path.join(place, file), folder)}": os.path.join(place, file)
            for place, folders, files in os.walk(folder) for file in files if "__pycache__" not in place}


def main(root, bundle, version, architecture, folder, level=9):
    """`level`: of the compression, 1 (fast) to 9."""
    tag = TAG.format(architecture)
    tags = tag.replace("py3-none-", "").split(".")
    information = f"tethys-{version}.dist-info"
    contents = {}  # {name: (bytes, whether the file is a program)}
    sources = {**files_below(f"{root}/python/tethys", "tethys"), **files_below(bundle, "tethys/_bundle"),
               "tethys/job.proto": f"{root}/proto/job.proto", f"{information}/LICENSE": f"{root}/LICENSE"}
    for name, path in sources.items():
        with open(path, "rb") as file:
            contents[name] = file.read(), os.access(path, os.X_OK)
    for name, text in (("METADATA", METADATA.format(version=version, description=DESCRIPTION)),
                       ("WHEEL", WHEEL.format(tags="".join(f"Tag: py3-none-{one}\n" for one in tags))),
                       ("entry_points.txt", "[console_scripts]\ntethys = tethys.program:main\n")):
        contents[f"{information}/{name}"] = text.encode(), False
    lines = []
    for name, (content, _) in sorted(contents.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    # RECORD comes last, as the specification recommends.
    record = {f"{information}/RECORD": ("".join(lines + [f"{information}/RECORD,,\n"]).encode(), False)}

    wheel = f"tethys-{version}-{tag}.whl"
    with zipfile.ZipFile(f"{folder}/{wheel}", "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, (content, is_program) in [*sorted(contents.items()), *record.items()]:
            entry = zipfile.ZipInfo(name)  # Its time is 1980-01-01.
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, so that pip heeds the mode.
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content)
    return wheel


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
