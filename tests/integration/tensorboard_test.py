"""Tests of the event files for TensorBoard, and of log lines shown on the terminal."""
import csv
import glob
import os
import signal
import socket
import struct
import unittest

import read_events
from tethys_run import Run, TethysTest, command

PHASES = ["data", "forward", "backward", "exchange", "update", "total"]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def epochs_of(run):
    """{epoch: its last line in epochs.csv}"""
    return {row["epoch"]: row for row in csv.DictReader(run.read("epochs.csv").splitlines())}


class EventFileTest(TethysTest):
    def assert_epochs(self, run, scalars):
        """Checks that the event files agree with epochs.csv."""
        rows = epochs_of(run).values()
        self.assertTrue(rows)
        for tag, column in [("loss/train", "train_loss"), ("accuracy/train", "train_accuracy"),
                            ("loss/validation", "validation_loss"), ("accuracy/validation", "validation_accuracy"),
                            ("epoch/train_seconds", "train_seconds")]:
            expected = [(int(row["step"]), float32(row[column])) for row in rows]
            self.assertEqual([step for step, _ in scalars[tag]], [step for step, _ in expected], tag)
            for (_, value), (_, other) in zip(scalars[tag], expected):
                self.assertAlmostEqual(value, other, delta=1e-5 * max(1, abs(other)), msg=tag)

    def test_event_file_agrees_with_csv_files_and_summary(self):
        with Run(["strategy=mirrored", "workers=2", "epochs=3"]) as run:
            scalars = read_events.read_run(run.run().directory)
            self.assert_epochs(run, scalars)
            summary = run.summary()
            steps = int(summary["steps"])
            self.assertEqual(scalars["accuracy/test"], [(steps, float32(summary["test"]["accuracy"]))])
            self.assertEqual(scalars["loss/test"], [(steps, float32(summary["test"]["loss"]))])
            rows = list(csv.DictReader(run.read("steps.csv").splitlines()))
            for phase in PHASES:
                for number, (_, value) in enumerate(scalars[f"step_us/{phase}"], start=1):
                    spent = [int(row[f"{phase}_ns"]) / 1e3 for row in rows if int(row["epoch"]) == number]
                    mean = sum(spent) / len(spent)
                    self.assertAlmostEqual(value, mean, delta=1e-6 * max(1, mean), msg=phase)

    def test_learning_rate_follows_the_schedule(self):
        with Run(["strategy=local", "epochs=4"]) as run:
            rates = read_events.read_run(run.run().directory)["epoch/learning_rate"]
            self.assertEqual(len(rates), 4)
            for (_, rate), expected in zip(rates, [0.05, 0.0375, 0.025, 0.0125]):
                self.assertAlmostEqual(rate, expected, places=7)

    def test_resumed_run_continues_its_curves(self):
        with Run(["strategy=mirrored", "workers=2", "epochs=100000", "checkpoint.every_steps=20"]) as run:
            run.start().wait_for(lambda: run.checkpoints() and run.saved_step() >= 60, "third checkpoint")
            run.launcher.send_signal(signal.SIGKILL)
            run.launcher.wait()
            self.assert_nothing_runs(run)
            run.run(resume=True, overrides=[f"max_steps={run.saved_step() + 40}", "checkpoint.every_steps=0"])
            scalars = read_events.read_run(run.directory)
            self.assert_epochs(run, scalars)
            for tag, points in scalars.items():
                self.assertEqual([at for at, _ in points], sorted({at for at, _ in points}), tag)

    def test_every_run_of_a_comparison_has_an_event_file(self):
        with Run() as run:
            status, output = command(["compare", run.job, f"--run_dir={run.directory}", "--vary=global_batch_size=64,128",
                                      "--plain", "--set=epochs=1", "--max_others_cpu=100"])
            self.assertEqual(status, 0, output)
            files = glob.glob(run.path("*", "events.out.tfevents.*"))
            self.assertEqual(sorted(os.path.basename(os.path.dirname(file)) for file in files),
                             ["job-global_batch_size=128-r0", "job-global_batch_size=64-r0"])


class LogToTerminalTest(TethysTest):
    OVERRIDES = ["strategy=parameter_server", "workers=2", "epochs=1"]

    def test_every_log_line_is_shown_with_its_process(self):
        with Run(self.OVERRIDES, flags=["--log_to_terminal"]) as run:
            lines = run.run().output.splitlines()
            host = socket.gethostname()
            shown = 0
            for file, name in [("chief-0", "chief"), ("worker-0", "worker 0"), ("worker-1", "worker 1"),
                               ("ps-0", "ps 0")]:
                prefix = f"[{name} on {host}] "
                logged = run.read("log", f"{file}.log").splitlines()
                self.assertEqual([line[len(prefix):] for line in lines if line.startswith(prefix)], logged)
                shown += len(logged)
            self.assertGreater(shown, 0)

    def test_logs_are_not_shown_by_default(self):
        with Run(self.OVERRIDES) as run:
            self.assertNotRegex(run.run().output, r"(?m)^\[")


if __name__ == "__main__":
    unittest.main()
