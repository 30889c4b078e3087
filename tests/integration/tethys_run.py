"""Runs the tethys command with real processes, for the tests beside this file.

    with Run(["strategy=mirrored", "workers=3"]) as run:
        run.finish()
        run.parameters()

A job that a test interrupts must be endless, or one of its tasks must be held (`Run.held`): a fast machine may
otherwise finish the job first.

The first argument of a test script is the command's path.
"""
import array
import contextlib
import glob
import gzip
import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import check_journal
import read_safetensors

# A shell's background job ignores SIGINT, and all processes started here would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)

TETHYS = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "build/release/deploy/tethys"
SANITIZED = "/asan/" in TETHYS
# Seconds after which a test fails because something hangs. Long, because sanitizers and a busy machine are slow.
PATIENCE = 300

# For jobs that replace workers: no worker is taken for lost because a slow machine delays its heartbeats.
PATIENT = "timeouts.worker_silence=10"

def quantiles(seconds):
    """The median, the 95th percentile and the largest of some stalls, in words."""
    ordered = sorted(seconds)
    return (f"stall {statistics.median(ordered):.3f} s median, {ordered[len(ordered) * 95 // 100]:.3f} s at the 95th "
            f"percentile, {ordered[-1]:.3f} s at most")


def soak(name, repetitions, stall):
    """Calls `stall` so often, and prints how many jobs survived and the quantiles of their stalls in seconds. `stall`
    returns None if its job was disturbed too late."""
    found = [stall() for _ in range(repetitions)]
    stalls = [seconds for seconds in found if seconds is not None]
    print(f"{name}: {repetitions} jobs survived, {found.count(None)} were disturbed too late; {quantiles(stalls)}", flush=True)


FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
FULL_JOB = """
model {
  layer { flatten {} }
  layer { dense { units: 128 activation: RELU } }
  layer { dense { units: 10 } }
}
data {
  idx {
    train_images: "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
    train_labels: "/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"
    test_images: "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"
    test_labels: "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz"
  }
  validation_samples: 1000
  limit_samples: 3001
  classes: 10
}
optimizer {
  sgd { momentum: 0.9 }
  learning_rate: 0.05
  weight_decay: 0.001
  schedule { linear_decay {} }
}
global_batch_size: 128
epochs: 3
seed: 7
"""


def first_samples(folder):
    """Unpacks the first samples of the data into `folder`, because reading all samples would take longer than most of
    the tests' jobs; returns FULL_JOB on these files."""
    job = FULL_JOB
    for name, header, size, count in (("train-images-idx3-ubyte", 16, 28 * 28, 13000),
                                      ("train-labels-idx1-ubyte", 8, 1, 13000),
                                      ("t10k-images-idx3-ubyte", 16, 28 * 28, 2000),
                                      ("t10k-labels-idx1-ubyte", 8, 1, 2000)):
        with gzip.open(f"{FASHION_MNIST}/{name}.gz") as packed, open(f"{folder}/{name}", "wb") as file:
            first = packed.read(header + size * count)
            file.write(first[:4] + struct.pack(">I", count) + first[8:])
        job = job.replace(f"{FASHION_MNIST}/{name}.gz", f"{folder}/{name}")
    return job


DATA = tempfile.TemporaryDirectory(prefix="tethys-data-")
JOB = first_samples(DATA.name)
# JOB with moving statistics, which must survive every loss of a process.
NORMALISED_JOB = JOB.replace("activation: RELU } }", "} } layer { batch_normalisation { activation: RELU } }")

STRATEGIES = {
    "local": ["strategy=local", "workers=1"],
    "mirrored": ["strategy=mirrored", "workers=3"],
    "ps_sync": ["strategy=parameter_server", "strategy.parameter_server.servers=2", "workers=3"],
    "ps_async": ["strategy=parameter_server", "strategy.parameter_server.servers=2", "workers=3",
                 "strategy.parameter_server.consistency=asynchronous",
                 "optimizer.sgd.momentum=0.5"],  # Staleness acts like additional momentum.
}


def command(arguments, **options):
    """Calls tethys and waits for its end; returns exit status and output, standard error included."""
    done = subprocess.run([TETHYS, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False, **options)
    return done.returncode, done.stdout


def build_id():
    status, version = command(["--version"])
    assert status == 0, version
    return version.split()[-1]


# Samples are computed, so that the job needs no files.
SMALL_JOB = """
model {
  layer { flatten {} }
  layer { dense { units: 16 activation: RELU } }
  layer { dense { units: 10 } }
}
data { synthetic { noise { shape: [ 8, 8, 1 ] } train_samples: 4096 } classes: 10 }
optimizer { sgd { momentum: 0.9 } learning_rate: 0.1 }
global_batch_size: 64
epochs: 1
"""


class FolderTest(unittest.TestCase):
    """Tests in a folder of their own, with SMALL_JOB in `self.job`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tethys-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.job = self.write("job.textproto", SMALL_JOB)

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        return f"{self.folder}/{name}"


def processes_of(directory):
    """{pid: command line} of live processes whose standard error is a file in `directory`: all but the launcher."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            log = os.readlink(f"/proc/{pid}/fd/2")
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if log.startswith(directory + "/") and state != "Z":
            found[pid] = " ".join(words).strip()
    return found


def checkpoints_of(directory):
    """The folders of the complete checkpoints in a run directory, by step."""
    found = [os.path.dirname(path) for path in glob.glob(f"{directory}/checkpoints/step-*/manifest.textproto")]
    return sorted((path for path in found if path.rpartition("-")[2].isdigit()),
                  key=lambda path: int(path.rpartition("-")[2]))


def epoch_of(checkpoint):
    """The epoch in which, or at whose beginning, a checkpoint was made."""
    with open(os.path.join(checkpoint, "manifest.textproto"), encoding="utf-8") as file:
        epoch = re.search(r"^  epoch: (\d+)$", file.read(), re.MULTILINE)
    return int(epoch[1]) if epoch else 0


def heed_signals():
    """Resets signals to their defaults, because children of a shell's background job or of nohup ignore them."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Run:
    """A training run in a directory of its own; `overrides` are values for --set."""

    def __init__(self, overrides=(), job=JOB, flags=(), directory=None):
        self.root = tempfile.mkdtemp(prefix="tethys-run-")
        self.directory = directory or os.path.join(self.root, "run")
        self.job = os.path.join(self.root, "job.textproto")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(job)
        self.overrides = list(overrides)
        self.flags = list(flags)
        self.prefix = []  # Words that precede the command, for example strace and its flags.
        self.launcher = None
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.launcher and self.launcher.poll() is None:
            self.launcher.kill()
            self.launcher.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # The process may just have ended with its launcher.
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self, resume=False, overrides=None):
        arguments = [*self.prefix, TETHYS, "train", "--plain", f"--run_dir={self.directory}", *self.flags]
        arguments += ["--resume"] if resume else [self.job]
        arguments += [f"--set={value}" for value in (self.overrides if overrides is None else overrides)]
        self.log = os.path.join(self.root, "output")
        with open(self.log, "w", encoding="utf-8") as log:
            self.launcher = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                             preexec_fn=heed_signals)
        return self

    def finish(self):
        """Waits for the end; returns the exit status."""
        status = self.launcher.wait(timeout=PATIENCE)
        self.output = self.so_far()
        return status

    def so_far(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def run(self, **options):
        status = self.start(**options).finish()
        if status != 0:
            raise AssertionError(f"tethys train ended with {status}:\n{self.output}")
        return self

    def wait_for(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while True:
            ended = self.launcher.poll() is not None  # Read before the condition, which may come true as the run ends.
            if condition():
                return
            if ended:
                raise AssertionError(f"ended with {self.launcher.returncode} before {what}:\n{self.so_far()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {PATIENCE} s:\n{self.so_far()}")
            time.sleep(0.005)

    def wait_for_output(self, text):
        self.wait_for(lambda: text in self.so_far(), text.strip())

    def wait_for_training(self):
        """Waits until the first steps are recorded."""
        self.wait_for(lambda: os.path.exists(self.path("journal")) and "\nused " in self.read("journal"), "step")

    def processes(self):
        return processes_of(self.directory)

    def process(self, role, index=0):
        """Waits until a task runs; returns its pid."""
        pattern = r" chief " if role == "chief" else rf" {role} .*--index={index}( |$)"
        found = []

        def look():
            found[:] = [pid for pid, line in self.processes().items() if re.search(pattern, line + " ")]
            return found
        self.wait_for(look, f"{role} {index}")
        return found[0]

    @contextlib.contextmanager
    def held(self, role, index):
        """Stops a task during the `with` block. No epoch can end without the task, so the job cannot end."""
        pid = self.process(role, index)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # A task stopped for too long is killed.
                os.kill(pid, signal.SIGCONT)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def contents(self):
        """{path: bytes} of every file in the run directory."""
        found = {}
        for path in glob.glob(self.path("**", "*"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
        return found

    def summary(self):
        return json.loads(self.read("summary.json"))

    def samples_used(self):
        return check_journal.check(self.read("journal"))

    def checkpoints(self):
        return checkpoints_of(self.directory)

    def saved_step(self):
        """The step of the newest checkpoint."""
        return int(self.checkpoints()[-1].rpartition("-")[2])

    def saved_epoch(self):
        return epoch_of(self.checkpoints()[-1])

    def parameters(self):
        """{tensor: values} of the newest checkpoint's parameters, optimizer slots and moving statistics."""
        tensors = {}
        for path in glob.glob(os.path.join(self.checkpoints()[-1], "*.safetensors")):
            with open(path, "rb") as file:
                for name, (_, _, content) in read_safetensors.read_tensors(file.read()).items():
                    tensors[name] = array.array("f", content)
        return tensors


class TethysTest(unittest.TestCase):
    """Base of test classes, with assertions on runs."""

    def assert_same_bits(self, run, other):
        mine, theirs = run.parameters(), other.parameters()
        self.assertEqual(mine.keys(), theirs.keys())
        for name, values in mine.items():
            self.assertEqual(values.tobytes(), theirs[name].tobytes(), f"{name} differs")

    def distances(self, run, other):
        """{variable, slot or moving statistic: ||a - b|| / ||b||}"""
        mine, theirs = run.parameters(), other.parameters()
        for tensors in (mine, theirs):
            tensors.pop("workers", None)  # Each worker's own moving statistics.
        self.assertEqual(mine.keys(), theirs.keys())
        distances = {}
        for name, values in mine.items():
            difference = sum((a - b) ** 2 for a, b in zip(values, theirs[name])) ** 0.5
            norm = sum(b * b for b in theirs[name]) ** 0.5
            self.assertGreater(norm, 0, name)
            distances[name] = difference / norm
        return distances

    def assert_close(self, run, other, tolerance=1e-5):
        for name, distance in self.distances(run, other).items():
            self.assertLessEqual(distance, tolerance, name)

    def assert_nothing_runs(self, run):
        """Waits until all tasks have ended, which may be a moment after their launcher."""
        deadline = time.monotonic() + PATIENCE
        while run.processes() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(run.processes(), {})
