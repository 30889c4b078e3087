#!/usr/bin/env python3
"""Tests the Python package tethys (python/tethys) with the built command.

    python_test.py TETHYS
"""
import contextlib
import glob
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

if importlib.util.find_spec("numpy") is None and sys.executable != "/usr/bin/python3":
    # python3-numpy, a package of the distribution, is for the distribution's Python.
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

import numpy

from tethys_run import PATIENCE, TETHYS, checkpoints_of, heed_signals, processes_of

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["TETHYS_PROGRAM"] = os.path.abspath(TETHYS)
os.environ["PYTHONPATH"] = f"{SOURCE}/python"
sys.path.insert(0, f"{SOURCE}/python")

import tethys  # pylint: disable=wrong-import-position
from tethys import job_text, run as run_module, tables  # pylint: disable=wrong-import-position

JOB = {
    "model": {"layer": [{"dense": {"units": 16, "activation": "RELU"}}, {"dense": {"units": 2}}]},
    "data": {"classes": 2, "compute_standardisation": True},
    "optimizer": {"adam": {}, "learning_rate": 0.01},
    "global_batch_size": 64,
    "epochs": 3,
    "seed": 3,
}
ENDLESS = {"epochs": 1000000, "evaluate_each_epoch": False}
RANDOM = numpy.random.default_rng(1)
X = RANDOM.normal(2, 3, (1280, 10)).astype(numpy.float32)
Y = (X[:, 0] > X[:, 1]).astype(numpy.int64)
# Trains until it is interrupted, and then prints how the run goes on.
ENDLESS_SCRIPT = f"""
import numpy, tethys
try:
    tethys.train({JOB}, data=(numpy.random.normal(size=(640, 4)), numpy.zeros(640, int)), set={ENDLESS}, run_dir="run")
except tethys.Interrupted as interrupted:
    print(interrupted)
"""


class PythonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tethys-python-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.folder = os.path.realpath(folder.name)

    def assert_bad_job(self, text, job=None, place=None, **arguments):
        """Training is refused with a message that contains `text`, and leaves no file."""
        arguments.setdefault("data", (X, Y))
        with self.assertRaises(tethys.BadJob) as caught:
            tethys.train(JOB if job is None else job, **arguments)
        self.assertIn(text, caught.exception.message)
        self.assertEqual(glob.glob("runs/*"), [])
        if place is not None:
            self.assertEqual(caught.exception.place, place)


class TrainedTest(PythonTest):
    """Tests of the results of one run, which two mirrored workers have made."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tethys-python-")
        cls.addClassCleanup(folder.cleanup)
        cls.events = []
        cls.run_made = tethys.train(JOB, data=(X, Y), test=(X[:100], Y[:100]), workers=2, strategy="mirrored",
                                    run_dir=f"{folder.name}/run", on_event=cls.events.append, quiet=True)

    def test_summary_has_numbers(self):
        summary = self.run_made.summary
        self.assertEqual(summary["status"], "succeeded")
        self.assertEqual(summary["steps"], 60)
        self.assertEqual(summary["strategy"], "mirrored")
        self.assertGreater(summary["test"]["accuracy"], 0.8)

    def test_fields_of_text_are_those_of_the_protos(self):
        named = set()
        for file in ("summary", "telemetry", "prediction", "checkpoint"):
            with open(f"{SOURCE}/proto/{file}.proto", encoding="utf-8") as proto:
                named |= set(re.findall(r"^\s*(?:optional |repeated )?string (\w+) =", proto.read(), re.MULTILINE))
        self.assertEqual(run_module.TEXTS, named)

    def test_tables_have_named_columns(self):
        epochs, steps = self.run_made.epochs(), self.run_made.steps()
        self.assertEqual(list(epochs["epoch"]), [1, 2, 3])
        self.assertLess(epochs["train_loss"][2], epochs["train_loss"][0])
        self.assertEqual(len(steps["total_ns"]), 120)

    def test_table_without_pandas_equals_that_of_pandas(self):
        path = self.run_made.path / "epochs.csv"
        with mock.patch.dict(sys.modules, {"pandas": None}):
            plain = tables.read_csv(path)
        fake = mock.Mock()
        with mock.patch.dict(sys.modules, {"pandas": fake}):
            self.assertIs(tables.read_csv(path), fake.read_csv.return_value)
        self.assertEqual(plain.dtype["epoch"], numpy.int64)
        self.assertEqual(plain.dtype["train_loss"], numpy.float64)

    def test_predictions_equal_those_of_weights_in_numpy(self):
        weights = self.run_made.weights()
        self.assertEqual(sorted(weights), ["dense_0.bias", "dense_0.weight", "dense_1.bias", "dense_1.weight"])
        x = (X[:50] - X.mean()) / X.std()
        hidden = numpy.maximum(x @ weights["dense_0.weight"].T + weights["dense_0.bias"], 0)
        logits = hidden @ weights["dense_1.weight"].T + weights["dense_1.bias"]
        numpy.testing.assert_allclose(self.run_made.predict(X[:50].astype(numpy.float64)), logits, atol=1e-4)

    def test_events_are_dicts_in_order(self):
        kinds = [next(iter(event)) for event in self.events]
        self.assertIn("started", kinds)
        self.assertEqual([event["epoch"].get("epoch", 0) for event in self.events if "epoch" in event], [0, 1, 2])

    def test_results_can_be_written_and_shown(self):
        onnx = self.run_made.export(f"{self.folder}/model.onnx")
        self.assertGreater(os.path.getsize(onnx), 100)
        self.assertTrue(self.run_made.report().exists())
        self.assertIn("<td>mirrored</td>", self.run_made._repr_html_())
        self.assertEqual([path for path in os.listdir(self.run_made.path) if path.startswith(".python")], [])

    def test_finished_run_cannot_be_resumed_but_with_more_epochs(self):
        copy = shutil.copytree(self.run_made.path, "copy")
        with self.assertRaises(tethys.BadJob):
            tethys.Run(copy).resume()
        resumed = tethys.Run(copy).resume(epochs=4, workers=1, strategy="local")
        self.assertEqual(resumed.summary["epochs"], 4)
        self.assertEqual(len(resumed.summary["attempt"]), 2)


class JobsTest(PythonTest):
    def test_servers_train_from_batches_into_a_new_directory(self):
        batches = ([X[i:i + 100], list(Y[i:i + 100])] for i in range(0, 1280, 100))
        run = tethys.train(JOB, data=batches, workers=2, servers=1, strategy="ps_async", epochs=1)
        self.assertEqual(run.summary["strategy"], "ps_async")
        self.assertEqual(run.summary["samples_recorded"], 1280)
        self.assertEqual([one.path for one in tethys.runs()], [run.path])
        self.assertTrue(str(run.path).startswith("runs/job-"))

    def test_torch_like_tensors_are_taken_by_dlpack(self):
        class Tensor:
            """A tensor without __array__."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        run = tethys.train(JOB, data=(Tensor(X), Tensor(Y)), epochs=1)
        self.assertEqual(run.summary["samples_recorded"], 1280)

    def test_job_file_and_changes_are_used(self):
        with open("small.textproto", "w", encoding="utf-8") as file:
            file.write(job_text.text_of(JOB))
        job = tethys.Job("small.textproto")
        job["optimizer.learning_rate"] = 0.5
        run = tethys.train(job, data=(X, Y), set={"max_steps": 5})
        self.assertIn("learning_rate: 0.5", run.job.text())
        self.assertEqual(run.summary["steps"], 5)

    def test_comparison_has_runs_table_and_verdict(self):
        comparison = tethys.compare(JOB, data=(X, Y), vary={"batch_size_per_worker": [32, 64]}, set={"epochs": 1})
        self.assertEqual(len(comparison.runs()), 2)
        self.assertGreaterEqual(len(comparison.table()), 2)
        self.assertTrue(comparison.verdict)
        self.assertTrue(comparison.report().exists())

    def test_plan_tells_processes_without_a_run(self):
        plan = tethys.plan(JOB, data=(X, Y), workers=2, strategy="mirrored", brief=True)
        self.assertIn("worker 1", str(plan))
        self.assertEqual(os.listdir(), [])

    def test_dict_becomes_text_by_the_types_of_fields(self):
        text = job_text.text_of({"data": {"cache": "NONE", "cache_dir": "NONE", "class_name": ["é", 'a"b']},
                                 "strategy": "mirrored", "drop_remainder": True, "seed": numpy.int64(3)})
        self.assertEqual(text, 'data {\n  cache: NONE\n  cache_dir: "NONE"\n  class_name: "\\303\\251"\n'
                               '  class_name: "a\\042b"\n}\nstrategy {\n  mirrored {\n  }\n}\n'
                               'drop_remainder: true\nseed: 3\n')

    def test_first_job_of_readme_and_guide_runs(self):
        for page in ("README.md", "docs/guide/python.md"):
            with open(f"{SOURCE}/{page}", encoding="utf-8") as text:
                blocks = re.findall(r"^```python\n(.*?)^```", text.read(), re.MULTILINE | re.DOTALL)
            self.assertTrue(blocks, page)
            done = subprocess.run([sys.executable, "-c", "".join(blocks)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, f"{page}:\n{done.stdout}")


class BadInputTest(PythonTest):
    def test_arrays_of_unlike_lengths_are_refused(self):
        self.assert_bad_job("data has 1280 values, but 1279 labels", data=(X, Y[:-1]), place="data")

    def test_object_arrays_are_refused(self):
        self.assert_bad_job("is an array of object", data=(numpy.array([{}] * 1280), Y))
        self.assert_bad_job("is no array", data=([[1, 2], [3]], Y))

    def test_integers_that_are_no_bytes_are_refused(self):
        self.assert_bad_job("is an array of int64: give uint8", data=(Y[:, None], Y))

    def test_batches_of_unlike_shapes_are_refused(self):
        self.assert_bad_job("after batches of float32 [10]", data=iter([(X, Y), (X[:, 1:], Y)]))

    def test_test_without_data_is_refused(self):
        self.assert_bad_job("test is given without data", data=None, test=(X, Y))

    def test_yaml_and_json_are_refused_with_a_place(self):
        self.assert_bad_job("", job="model:\n  layer:\n  - dense:\n      units: 3\n", place="job:2:3")
        self.assert_bad_job("", job='{\n  "model": {}\n}\n', place="job:1:1")

    def test_unknown_field_is_refused_with_place_and_remedy(self):
        self.assert_bad_job("units", job={**JOB, "model": {"layer": [{"dense": {"unit": 2}}]}}, place="job:4:11")
        self.assert_bad_job("learning_rate", set={"optimizer.learn_rate": 1}, place="--set=optimizer.learn_rate=1")

    def test_resuming_with_other_data_is_refused(self):
        self.assert_bad_job("leave data out", job="", resume=True, run_dir="run")
        self.assert_bad_job("needs run_dir", job="", data=None, resume=True)

    def test_used_run_directory_is_refused_and_stays(self):
        tethys.train(JOB, data=(X, Y), set={"max_steps": 1}, run_dir="run")
        self.assert_bad_job("name another directory", run_dir="run")
        with self.assertRaises(tethys.BadJob):
            tethys.train(job_text.text_of({**JOB, "data": {"synthetic": {"noise": {"shape": [4]}, "train_samples": 64},
                                                           "classes": 2}}), run_dir="run")
        self.assertEqual(tethys.Run("run").summary["steps"], 1)

    def test_missing_program_is_named(self):
        with mock.patch.dict(os.environ, {"TETHYS_PROGRAM": "/no/tethys"}):
            with self.assertRaises(FileNotFoundError) as caught:
                tethys.train(JOB, data=(X, Y))
        self.assertIn("/no/tethys", str(caught.exception))


def launchers_in(folder):
    """The other processes whose working directory is `folder`."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # The process has ended.
            if os.readlink(path) == os.path.realpath(folder) and path != f"/proc/{os.getpid()}/cwd":
                found.append(path)
    return found


class EndingTest(PythonTest):
    def endless(self):
        """Starts Python with an endless run in `run`, and waits for its first steps."""
        python = subprocess.Popen([sys.executable, "-c", ENDLESS_SCRIPT], stdout=subprocess.PIPE, text=True,
                                  preexec_fn=heed_signals)
        self.addCleanup(python.stdout.close)
        self.addCleanup(python.wait)
        self.addCleanup(python.kill)
        self.wait_for(lambda: python.poll() is not None or os.path.exists("run/journal"))
        self.assertIsNone(python.poll())
        self.wait_for_steps()
        return python

    @staticmethod
    def start_thread(target):
        threading.Thread(target=target, daemon=True).start()

    def wait_for_steps(self):
        def has_steps():
            if not os.path.exists("run/journal"):
                return False
            with open("run/journal", encoding="utf-8") as journal:
                return "\nused " in journal.read()

        self.wait_for(has_steps)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def assert_nothing_runs(self):
        self.wait_for(lambda: not processes_of(f"{self.folder}/run") and not launchers_in(self.folder))

    def test_interrupted_python_has_saved_and_the_run_resumes(self):
        python = self.endless()
        python.send_signal(signal.SIGINT)
        self.assertIn("Run('run').resume()", python.communicate(timeout=PATIENCE)[0])
        self.assert_nothing_runs()
        saved = int(checkpoints_of("run")[-1].rpartition("-")[2])
        run = tethys.Run("run").resume(set={"max_steps": saved + 3})
        self.assertEqual(run.summary["steps"], saved + 3)

    def test_killed_python_leaves_a_checkpoint_and_no_process(self):
        python = self.endless()
        python.kill()
        self.assert_nothing_runs()
        self.wait_for(lambda: os.path.exists("run/summary.json"))
        self.assertEqual(tethys.Run("run").summary["status"], "interrupted")
        self.assertEqual(len(checkpoints_of("run")), 1)

    def test_killed_worker_is_the_culprit(self):
        def kill_worker():
            self.wait_for_steps()
            for pid, line in processes_of(f"{self.folder}/run").items():
                if " worker " in line and "--index=1" in line:
                    os.kill(pid, signal.SIGKILL)

        self.start_thread(kill_worker)
        with self.assertRaises(tethys.RunFailed) as caught:
            tethys.train(JOB, data=(X, Y), workers=2, strategy="mirrored", run_dir="run",
                         set={**ENDLESS, "elastic.on_loss": "END"})
        self.assertEqual(caught.exception.culprit, "worker 1")
        self.assertIn("signal 9", str(caught.exception))
        self.assertEqual(caught.exception.run.summary["status"], "failed")
        self.assert_nothing_runs()

    def test_failing_listener_ends_the_run_with_a_checkpoint(self):
        def fail(event):
            if "epoch" in event:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            tethys.train(JOB, data=(X, Y), run_dir="run", on_event=fail, set=ENDLESS)
        self.assertEqual(tethys.Run("run").summary["status"], "interrupted")
        self.assertEqual(len(checkpoints_of("run")), 1)

    def test_stop_ends_a_run_from_another_thread(self):
        def stop():
            self.wait_for_steps()
            tethys.Run("run").stop()

        self.start_thread(stop)
        with self.assertRaises(tethys.RunFailed) as caught:
            tethys.train(JOB, data=(X, Y), run_dir="run", set=ENDLESS)
        self.assertEqual(caught.exception.run.summary["status"], "interrupted")
        self.assertEqual(caught.exception.culprit, "")


if __name__ == "__main__":
    unittest.main()
