"""Follows the events of a run (progress.jsonl) while it goes on."""
import json
import os

from tethys.run import with_numbers


class Follower:
    """Passes each new event of a run to `take`, as a dict of proto/telemetry.proto's ProgressEvent."""

    def __init__(self, run_dir, take):
        self.path, self.take = os.path.join(run_dir, "progress.jsonl"), take
        self.inode, self.rest, self.last = None, b"", None
        self.file = None
        if os.path.exists(self.path):  # The events of earlier attempts are not new.
            self.open()
            self.file.seek(0, os.SEEK_END)

    def open(self):
        self.file = open(self.path, "rb")  # pylint: disable=consider-using-with
        self.inode = os.fstat(self.file.fileno()).st_ino
        self.rest = b""

    def look(self):
        """Passes on the events that were added since the last call."""
        try:
            replaced = os.stat(self.path).st_ino != self.inode
        except FileNotFoundError:
            return
        skip = False
        if replaced:  # The command has written a new file, or thinned a long one, whose newest events stay.
            self.close()
            self.open()
            skip = self.last is not None
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        if skip and self.last in lines:
            lines = lines[lines.index(self.last) + 1:]
        for line in lines:
            self.last = line
            self.take(with_numbers(json.loads(line)))

    def close(self):
        if self.file:
            self.file.close()
