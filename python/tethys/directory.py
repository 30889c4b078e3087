"""The directory of a run or a comparison, before the command uses it."""
import re
import shutil
import time
from pathlib import Path

from tethys.arrays import write_data
from tethys.errors import BadJob


def fresh_directory(name):
    """Makes runs/NAME-DATE-TIME, by local time; a number is appended if that path exists."""
    stem = f"runs/{re.sub(r'[^A-Za-z0-9._=+-]', '_', name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    Path("runs").mkdir(exist_ok=True)
    number = 1
    while True:
        path = Path(stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


class NewDirectory:
    """A directory for the results of a command: `run_dir` or, if it is None, a new one that is named after `name`.
    Leaving the `with` block removes what was made here, unless `keep` was called."""

    def __init__(self, name, run_dir):
        self.path = Path(run_dir) if run_dir else fresh_directory(name)
        self.made = [] if run_dir and self.path.exists() else [self.path]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in self.made:
            shutil.rmtree(path, ignore_errors=True)

    def write(self, data, test, hostfile):
        """Writes arrays into `data` of the directory; returns the changes of a job that reads them."""
        folder = self.path / "data"
        if data is not None:
            if folder.exists():
                raise BadJob(f"{folder} exists already: name another directory", "run_dir")
            self.made.append(folder)
        return write_data(folder, data, test, from_chief=hostfile is not None)

    def keep(self):
        self.made = []
