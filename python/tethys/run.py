"""A run of the command: its results, and what can be done with it."""
import html
import json
import os
import tempfile
from pathlib import Path

import numpy

from tethys.arrays import array_of, usual_type
from tethys.job import Job
from tethys.program import output_of, run_command
from tethys.tables import columns_of, read_csv, read_safetensors

# The fields of summary.json and progress.jsonl that hold text. In all others a string is a number of 64 bits.
TEXTS = {"address", "boot_id", "build_id", "cause", "class_name", "culprit", "doing", "dtype", "ending", "error",
         "exchange", "file", "go_on", "gradient_scale", "host", "iterations", "job", "job_name", "journal_check",
         "last_checkpoint", "layout", "message", "name", "note", "order", "process", "reason", "remark", "resource",
         "role", "slot", "status", "strategy", "variable"}


def with_numbers(value, name=""):
    """A value of JSON, as protobuf writes it, with numbers of 64 bits in place of their strings."""
    if isinstance(value, dict):
        return {key: with_numbers(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [with_numbers(one, name) for one in value]
    if isinstance(value, str) and name not in TEXTS and value.lstrip("-").isdecimal():
        return int(value)
    return value


class Run:
    """A run directory. Its files may grow while the run goes on, so everything is read when it is asked for."""

    def __init__(self, path):
        self.path = Path(path)
        if not (self.path / "job.textproto").exists():
            raise FileNotFoundError(f"{path} is no run: it has no job.textproto")

    def __repr__(self):
        return f"Run({str(self.path)!r})"

    @property
    def job(self):
        """The job with every default written out."""
        return Job(self.path / "job.textproto")

    @property
    def summary(self):
        """summary.json as a dict (proto/summary.proto describes it); empty before the run has ended."""
        try:
            return with_numbers(json.loads((self.path / "summary.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}

    def epochs(self):
        """A row for each epoch: loss, accuracy, times."""
        return read_csv(self.path / "epochs.csv")

    def steps(self):
        """A row for each worker and step; times in nanoseconds."""
        return read_csv(self.path / "steps.csv")

    def resources(self):
        """A row for each second and process: CPU, memory, network, disk."""
        return read_csv(self.path / "resources.csv")

    def weights(self):
        """{name: float32 array} of the newest checkpoint, with PyTorch's names and layouts."""
        with self._scratch() as folder:
            return read_safetensors(self.export(f"{folder}/weights.safetensors"))

    def predict(self, x):
        """The outputs (for classes: logits) for samples like those of the training, as an array [samples, ...]."""
        with self._scratch() as folder:
            numpy.save(f"{folder}/x.npy", usual_type(array_of(x, "x"), "x", False))
            self._call("predict", f"--checkpoint={self.path}", f"--images={folder}/x.npy",
                       f"--out={folder}/outputs.npy")
            return numpy.load(f"{folder}/outputs.npy")

    def export(self, path):
        """Writes the weights as FILE.safetensors or the network as FILE.onnx; returns the path."""
        self._call("export", f"--checkpoint={self.path}", f"--out={os.fspath(path)}")
        return Path(path)

    def resume(self, **arguments):
        """Goes on from the newest checkpoint, with changes: the arguments are those of `train`."""
        from tethys.verbs import train  # pylint: disable=import-outside-toplevel,cyclic-import
        return train(None, run_dir=self.path, resume=True, **arguments)

    def report(self):
        """Writes report.html again; returns its path."""
        self._call("report", str(self.path))
        return self.path / "report.html"

    def stop(self):
        """Asks a run that goes on to save a checkpoint and end; returns when it has ended."""
        self._call("runs", "stop", str(self.path))

    def plot(self):
        """A figure of matplotlib: loss and accuracy by epoch."""
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
        epochs = self.epochs()
        figure, sides = pyplot.subplots(1, 2, figsize=(10, 4))
        for side, what in zip(sides, ("loss", "accuracy")):
            for split in ("train", "validation"):
                if f"{split}_{what}" in columns_of(epochs):
                    side.plot(epochs["epoch"], epochs[f"{split}_{what}"], marker=".", label=split)
            side.set(xlabel="epoch", ylabel=what)
            side.legend()
        pyplot.close(figure)  # A notebook would show the figure twice.
        return figure

    def _repr_html_(self):
        summary = self.summary
        rows = [("run", self.path), ("strategy", summary.get("strategy", "")),
                ("state", summary.get("status", "not ended"))]
        for split in ("train", "validation", "test"):
            quality = summary.get(split, {})
            rows += [(f"{split} {what}", f"{quality[what]:.4f}") for what in ("accuracy", "loss") if what in quality]
        if "training_seconds" in summary.get("timing", {}):
            rows.append(("training", f"{summary['timing']['training_seconds']:.1f} s"))
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
        return f"<table>{cells}</table>"

    def _scratch(self):
        """A temporary folder, in the run directory, because another place may not be writable."""
        writable = os.access(self.path, os.W_OK)
        return tempfile.TemporaryDirectory(prefix=".python-", dir=self.path.absolute() if writable else None)

    @staticmethod
    def _call(verb, *words):
        return output_of(run_command(verb, words))


def runs(folder="runs"):
    """The runs in a folder, the newest last, without those of a comparison that do not count (NAME.aside)."""
    found = [path.parent for path in Path(folder).glob("*/progress.jsonl") if path.parent.suffix != ".aside"]
    return [Run(path) for path in sorted(found, key=lambda path: (path / "job.textproto").stat().st_mtime)]
