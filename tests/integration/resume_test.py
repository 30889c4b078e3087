#!/usr/bin/env python3
"""Tests that a job that is stopped and resumed ends with the same parameters, bit for bit, as an undisturbed one, and
that checkpoints can be resumed under any strategy."""
import contextlib
import csv
import os
import random
import re
import shutil
import signal
import struct
import unittest

import read_events
import read_safetensors
from tethys_run import JOB, NORMALISED_JOB, FolderTest, Run, STRATEGIES, TethysTest, command

# Overrides for jobs that a test always interrupts. The length of the decay is fixed, so that a limit on steps
# that is set when the job is resumed does not change the decay.
LONG = ["epochs=1000", "optimizer.schedule.linear_decay.samples=30010"]
SAVING = ["checkpoint.every_steps=7"]
# Adam keeps two slots, and its corrections depend on the number of updates. Each worker has its own moving
# statistics; dropout and augmentation depend on the samples' positions in the job.
ADAM = JOB.replace("sgd { momentum: 0.9 }", "adam {}").replace("0.05", "0.002").replace("units: 128 activation: RELU } }", """units: 128 } }
  layer { batch_normalisation { activation: RELU } }
  layer { dropout { rate: 0.2 } }""").replace(
    "classes: 10", "classes: 10 augment { random_crop { pad: 2 } flip_horizontal: true }")
SYNCHRONISED = [*STRATEGIES["mirrored"], "strategy.mirrored.synchronised_batch_normalisation=true"]
STOPS = {"launcher": signal.SIGINT, "chief": signal.SIGKILL, "worker": signal.SIGKILL}


class ResumeTest(TethysTest):
    def stop_somewhere(self, run, victim):
        """Starts the run and stops it at a random step after its first checkpoint."""
        run.start()
        run.wait_for(run.checkpoints, "checkpoint")
        step = random.randint(8, 80)
        run.wait_for(lambda: run.read("journal").count("\nused ") > step, f"step {step}")
        os.kill(run.launcher.pid if victim == "launcher" else run.process(victim), STOPS[victim])
        status = run.finish()
        self.assertEqual(status, 1, run.output)
        self.assertIn("--resume", run.output)
        self.assert_nothing_runs(run)
        return run

    def test_stopped_and_resumed_runs_end_bit_equal(self):
        lamb = ADAM.replace("adam {}", "lamb {}")
        clipped = ADAM.replace("adam {}", "sgd { momentum: 0.9 } clip { global_norm: 0.5 }")
        kinds = {ADAM: "adam", clipped: "clipped", lamb: "lamb"}
        strategies = {**STRATEGIES, "synchronised": SYNCHRONISED}
        for name, job in (("synchronised", ADAM), ("ps_sync", ADAM), ("ps_sync", clipped), ("mirrored", lamb),
                          ("ps_sync", lamb)):
            with contextlib.ExitStack() as runs:
                # Without elastic.on_loss=END, the job would go on with fewer workers.
                needs = [*LONG, *SAVING, "elastic.on_loss=END"]
                stopped = {victim: runs.enter_context(Run([*strategies[name], *needs], job=job)) for victim in STOPS}
                for victim, run in stopped.items():
                    self.stop_somewhere(run, victim)
                end = [f"max_steps={max(run.saved_step() for run in stopped.values()) + 30}"]
                straight = runs.enter_context(Run([*strategies[name], *LONG, *end], job=job)).run()
                for victim, run in stopped.items():
                    with self.subTest(strategy=name, kind=kinds[job], victim=victim):
                        run.run(resume=True, overrides=end)
                        self.assert_same_bits(run, straight)
                        self.assertEqual(run.samples_used(), straight.samples_used())
                        self.assertEqual(run.summary()["test"], straight.summary()["test"])

    def test_interrupted_job_saves_checkpoint_and_resumes(self):
        for name, number in (("mirrored", signal.SIGINT), ("ps_sync", signal.SIGTERM), ("ps_async", signal.SIGHUP)):
            with self.subTest(strategy=name), Run([*STRATEGIES[name], *LONG, "checkpoint.every_epochs=0"]) as run:
                run.start().wait_for_training()
                run.launcher.send_signal(number)
                self.assertEqual(run.finish(), 1, run.output)
                self.assertIn(f"go on from step {run.saved_step()} with: tethys train --resume", run.output)
                self.assertEqual(run.summary()["status"], "interrupted")
                self.assert_nothing_runs(run)
                epochs = run.saved_epoch() + 2
                run.run(resume=True, overrides=[f"epochs={epochs}"])
                self.assertEqual(run.samples_used(), epochs * 3001)
                attempts = run.summary()["attempt"]
                self.assertEqual(len(attempts), 2)
                self.assertEqual(attempts[0]["end_step"], attempts[1]["first_step"])
                self.assertAlmostEqual(sum(attempt["total_seconds"] for attempt in attempts),
                                       run.summary()["timing"]["total_seconds"])
                self.assertIn("over 2 attempts", run.output)

    def test_second_interrupt_ends_the_job_at_once(self):
        with Run([*STRATEGIES["mirrored"], *LONG, "checkpoint.every_epochs=0"]) as run:
            run.start().wait_for_training()
            with run.held("worker", 1):  # While the worker is held, no checkpoint can be saved.
                run.launcher.send_signal(signal.SIGINT)
                run.wait_for_output("another interrupt ends the job at once")
                run.launcher.send_signal(signal.SIGINT)
                self.assertEqual(run.finish(), 1, run.output)
            self.assertEqual(run.checkpoints(), [])
            self.assert_nothing_runs(run)

    def test_resuming_under_another_strategy_keeps_the_accuracy(self):
        with Run([*STRATEGIES["local"], "epochs=4"]).run() as straight:
            accuracy = straight.summary()["test"]["accuracy"]
        for first, then in (("ps_async", ["strategy=mirrored", "workers=2"]),
                            ("mirrored", ["strategy=parameter_server", "strategy.parameter_server.servers=3",
                                          "workers=4"]),
                            ("ps_sync", ["strategy=parameter_server", "strategy.parameter_server.servers=1",
                                         "strategy.parameter_server.consistency=asynchronous", "workers=2",
                                         "optimizer.sgd.momentum=0.5"]),
                            ("ps_sync", ["strategy=local", "workers=1"])):
            with self.subTest(first=first, then=then), Run([*STRATEGIES[first], *LONG, *SAVING]) as run:
                epochs = self.stop_somewhere(run, "launcher").saved_epoch() + 4
                run.run(resume=True, overrides=[*then, f"epochs={epochs}"])
                self.assertEqual(run.samples_used(), epochs * 3001)
                self.assertGreater(run.summary()["test"]["accuracy"], accuracy - 0.1)

    def test_finished_run_can_be_resumed_with_more_epochs(self):
        with Run([*STRATEGIES["mirrored"], "epochs=1"]).run() as run:
            run.run(resume=True, overrides=["epochs=2"])
            self.assertEqual(run.samples_used(), 2 * 3001)
            self.assertIn("decaying to 0 over 6,002 samples", run.output)

    def test_refused_resume_changes_no_file(self):
        with Run([*STRATEGIES["local"], "epochs=2"]).run() as run:
            before = run.contents()
            for overrides, reason in ((["data.limit_samples=1000", "epochs=3"], "was trained on 3001 samples"),
                                      (["seed=8", "epochs=3"], "resume with --set=seed=7"),
                                      (["optimizer=adam", "epochs=3"], "has no slot 'first_moment' of the job's optimizer"),
                                      (["epochs=2"], "nothing is left to train: 2 epochs"),
                                      (["epochs=1"], "the job has only epochs: 1")):
                with self.subTest(overrides=overrides):
                    self.assertEqual(run.start(resume=True, overrides=overrides).finish(), 2, run.output)
                    self.assertIn(reason, run.output)
                    self.assertEqual(run.contents(), before)
            run.run(resume=True, overrides=["epochs=3"])

    def test_evaluate_gives_the_accuracy_of_the_run(self):
        with Run([*STRATEGIES["ps_sync"], "epochs=1", "data.compute_standardisation=true"]).run() as run:
            accuracy = f"{run.summary()['test']['accuracy']:.4f}"
            for checkpoint in (run.directory, run.checkpoints()[-1]):
                status, output = command(["evaluate", f"--checkpoint={checkpoint}"])
                self.assertEqual(status, 0, output)
                self.assertIn(accuracy, output)
            # The mean and deviation in the checkpoint are used, not those of the 50 samples to which --set
            # limits the data.
            os.rename(run.path("job.textproto"), run.path("moved.textproto"))
            status, output = command(["evaluate", f"--checkpoint={run.directory}"])
            self.assertEqual(status, 2, output)
            self.assertIn("JOB is missing", output)
            status, output = command(["evaluate", run.path("moved.textproto"), f"--checkpoint={run.directory}",
                                      "--set=data.limit_samples=50"])
            self.assertEqual(status, 0, output)
            self.assertIn(accuracy, output)
            with open(os.path.join(run.checkpoints()[-1], "manifest.textproto"), encoding="utf-8") as file:
                self.assertRegex(file.read(), r"(?s)description .*sample_shape: 28.*classes: 10.*scaling .*mean: 0\.\d+")

    def test_early_stopping_keeps_checkpoint_of_best_epoch(self):
        with Run([*STRATEGIES["local"], "epochs=200", "early_stopping.patience=2", "checkpoint.keep_best=true",
                  "checkpoint.every_epochs=0", "checkpoint.keep=1"]).run() as run:
            summary = run.summary()
            self.assertTrue(summary["stopped_early"])
            self.assertEqual(int(summary["epochs"]), int(summary["best"]["epoch"]) + 1 + 2)
            status, output = command(["evaluate", "--split=validation", f"--checkpoint={run.path('checkpoints', 'best')}"])
            self.assertEqual(status, 0, output)
            self.assertIn(f"accuracy {summary['best']['validation_accuracy']:.4f}", output)
            self.assertEqual([path.rpartition("-")[2] for path in run.checkpoints()],
                             [summary["best"]["step"], summary["steps"]])
            self.assertEqual(run.start(resume=True, overrides=[]).finish(), 2, run.output)
            self.assertIn("--set=early_stopping.patience=3", run.output)

    def test_only_the_newest_checkpoints_are_kept(self):
        with Run([*STRATEGIES["mirrored"], "checkpoint.every_steps=5", "checkpoint.keep=3", "max_steps=30"]).run() as run:
            self.assertEqual([path.rpartition("-")[2] for path in run.checkpoints()], ["20", "25", "30"])


def rows(run, name):
    """The lines of a table in a run directory, all of which have a cell for each column."""
    with open(run.path(name), encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert all(None not in line and None not in line.values() for line in lines), lines
    return lines


def damage(checkpoint):
    with open(os.path.join(checkpoint, "model.safetensors"), "r+b") as file:
        file.truncate(100)


class UndoneWorkTest(TethysTest):
    """When a run is resumed from a checkpoint, its files lose all epochs and steps that an earlier attempt
    made after that checkpoint."""

    def test_files_contain_no_epochs_that_a_resume_discarded(self):
        with Run([*STRATEGIES["local"], "epochs=4", "checkpoint.every_epochs=1", "checkpoint.keep=4",
                  "checkpoint.keep_best=true"]).run() as run:
            for checkpoint in run.checkpoints()[2:]:
                damage(checkpoint)
            # With this learning rate the repeated epoch becomes the worst.
            run.run(resume=True, overrides=["epochs=3", "optimizer.learning_rate=2"])
            best = run.summary()["best"]
            self.assertEqual(best["epoch"], "1")
            self.assertEqual(os.readlink(run.path("checkpoints", "best")), f"step-{best['step']}")
            epochs = rows(run, "epochs.csv")
            self.assertEqual([line["epoch"] for line in epochs], ["1", "2", "3"])
            self.assertEqual(max(float(line["validation_accuracy"]) for line in epochs),
                             float(f"{best['validation_accuracy']:.6g}"))
            self.assertEqual(sorted({int(line["epoch"]) for line in rows(run, "steps.csv")}), [1, 2, 3])
            self.assertEqual(sum(int(line["samples"]) for line in rows(run, "steps.csv")), 3 * 3001)
            self.assertEqual(len(read_events.read_run(run.directory)["loss/train"]), 3)
            self.assertIn(f"reached {int(100 * best['validation_accuracy'])} % validation", " ".join(
                run.read("report.md").split()))

    def test_epoch_stopped_by_max_steps_and_resumed_counts_once(self):
        price = ["price_per_hour=3600", "max_steps=30"]  # An epoch has 24 steps, the last one of 57 samples.
        with Run([*STRATEGIES["local"], *price]).run() as run:
            self.assertIn(f"decaying to 0 over {3001 + 6 * 128:,} samples", run.output)
            timing, cost = run.summary()["timing"], run.summary()["cost"]
            self.assertAlmostEqual(cost["epoch"], (timing["training_seconds"] + timing["validation_seconds"]) /
                                   (1 + 6 * 128 / 3001))
            self.assertEqual([line["epoch"] for line in rows(run, "epochs.csv")], ["1", "2"])
            run.run(resume=True, overrides=["max_steps=0"])
            epochs = rows(run, "epochs.csv")
            self.assertEqual([line["epoch"] for line in epochs], ["1", "2", "3"])
            self.assertAlmostEqual(sum(float(line["train_seconds"]) for line in epochs),
                                   run.summary()["timing"]["training_seconds"], delta=1e-4)
            self.assertEqual(sum(int(line["samples"]) for line in rows(run, "steps.csv")), 3 * 3001)

    def test_early_stopping_after_a_resume_equals_that_of_one_run(self):
        job = [*STRATEGIES["local"], "early_stopping.patience=1", "optimizer.schedule=constant"]
        with Run([*job, "epochs=30"]).run() as straight:
            last = int(straight.summary()["epochs"])
            self.assertLess(last, 30)
            with Run([*job, f"epochs={last - 1}"]).run() as run:
                run.run(resume=True, overrides=["epochs=30"])
                self.assertTrue(run.summary()["stopped_early"])
                self.assert_same_bits(run, straight)


class ChecksOfAStartTest(FolderTest):
    """A resumed job is checked like a new job."""

    def npy(self, name, values, shape):
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
        header = header.encode().ljust(117) + b"\n"
        with open(f"{self.folder}/{name}", "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(values))
        return f"{self.folder}/{name}"

    def tables(self, run):
        texts = []
        for name in ("epochs.csv", "steps.csv"):
            with open(f"{run}/{name}", encoding="utf-8") as file:
                texts.append(file.read())
        return texts

    def test_data_with_another_standardisation_are_refused(self):
        labels = self.npy("y.npy", [i % 2 for i in range(100)], (100,))
        images = self.npy("x.npy", [i * 7 % 100 for i in range(1600)], (100, 4, 4))
        job = self.write("own.textproto", f"""
            model {{ layer {{ flatten {{}} }} layer {{ dense {{ units: 2 }} }} }}
            data {{ npy {{ train_images: "{images}" train_labels: "{labels}" }} classes: 2
                    compute_standardisation: true }}
            optimizer {{ sgd {{}} learning_rate: 0.1 }} global_batch_size: 20 epochs: 1""")
        run = f"{self.folder}/run"
        status, output = command(["train", job, f"--run_dir={run}", "--plain"])
        self.assertEqual(status, 0, output)
        before = self.tables(run)
        self.npy("x.npy", [100 + i * 7 % 100 for i in range(1600)], (100, 4, 4))
        status, output = command(["train", "--resume", f"--run_dir={run}", "--plain", "--set=epochs=2"])
        self.assertNotEqual(status, 0, output)
        self.assertIn("was trained on inputs standardised by mean 0.19", output)
        self.assertEqual(self.tables(run), before, "an attempt that does not train changes no table")

    def test_rest_of_an_epoch_with_a_batch_of_one_is_refused(self):
        with Run([*STRATEGIES["local"], "max_steps=5"], job=NORMALISED_JOB).run() as run:
            resumed = run.start(resume=True, overrides=["max_steps=0", "global_batch_size=590"])
            self.assertEqual(resumed.finish(), 2, run.output)
            self.assertIn("the rest of this epoch ends with a batch of 1: resume with another batch size", run.output)


class EarlierVersionTest(FolderTest):
    """earlier_version/ is a run as the build of 22 November 2026 wrote it: its chief was killed in epoch 8, after a
    checkpoint of epoch 5. Later versions read such a directory and can resume it."""

    def setUp(self):
        super().setUp()
        self.run_dir = f"{self.folder}/runs/earlier"
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "earlier_version"), self.run_dir)
        os.chmod(self.run_dir, 0o755)
        for name, first, count in (("train", 0, 240), ("t10k", 1000, 60)):
            numbers = range(first, first + count)
            with open(f"{self.folder}/{name}-images-idx3-ubyte", "wb") as file:
                file.write(struct.pack(">IIII", 0x803, count, 6, 6))
                file.write(bytes(40 + 70 * (row % 3 == i % 3) + (i * 37 + row * 11 + column * 23) % 80
                                 for i in numbers for row in range(6) for column in range(6)))
            with open(f"{self.folder}/{name}-labels-idx1-ubyte", "wb") as file:
                file.write(struct.pack(">II", 0x801, count) + bytes(i % 3 for i in numbers))

    def tethys(self, *arguments):
        status, output = command(arguments, cwd=self.folder)
        self.assertEqual(status, 0, output)
        return output

    def read(self, name):
        with open(f"{self.run_dir}/{name}", encoding="utf-8") as file:
            return file.read()

    def table(self, name):
        with open(f"{self.run_dir}/{name}", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertTrue(all(None not in line and None not in line.values() for line in lines), lines)
        return lines

    def test_run_of_earlier_version_is_listed_reported_evaluated_and_exported(self):
        self.assertRegex(self.tethys("runs", "list"), r"earlier .*failed")
        shown = self.tethys("runs", "show", "earlier")
        self.assertIn("killed by signal 9", shown)
        self.assertIn("of step 20", shown)
        self.tethys("report", "runs/earlier")
        self.assertIn("failed after 7 epochs and 28 updates", self.read("report.md"))
        # These values were measured after epoch 5 by the build that trained the run.
        self.assertIn("accuracy 0.2250, loss 1.6509",
                      self.tethys("evaluate", "--checkpoint=runs/earlier", "--split=validation"))
        self.tethys("export", "--checkpoint=runs/earlier", "--out=model.safetensors")
        with open(f"{self.folder}/model.safetensors", "rb") as file:
            shapes = sorted(tensor[1] for tensor in read_safetensors.read_tensors(file.read()).values())
        self.assertEqual([list(shape) for shape in shapes], [[3], [3, 36]])

    def test_job_file_of_earlier_version_is_refused_with_new_name_of_field(self):
        status, output = command(["train", "runs/earlier/job.textproto"], cwd=self.folder)
        self.assertEqual(status, 2, output)
        self.assertRegex(output, r"runs/earlier/job.textproto:30:[0-9]+: 'prefetch_batches' is now "
                                 r"'tuning.prefetch_batches'")

    def test_run_of_earlier_version_resumes_from_its_checkpoint(self):
        output = self.tethys("train", "--resume", "--run_dir=runs/earlier", "--plain", "--set=epochs=7")
        self.assertIn("resuming from runs/earlier/checkpoints/step-20", output)
        self.assertIn("each used exactly once", output)
        self.assertNotIn("warning", output)
        epochs = self.table("epochs.csv")
        self.assertEqual([line["epoch"] for line in epochs], [str(i) for i in range(1, 8)])
        # Training is deterministic: the epochs of the killed attempt are repeated with the same results.
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "earlier_version", "epochs.csv"),
                  encoding="utf-8") as file:
            before = list(csv.DictReader(file))
        for column in ("train_loss", "validation_loss", "validation_accuracy"):
            for old, new in zip(before, epochs):
                self.assertAlmostEqual(float(old[column]), float(new[column]), places=3)
        steps = self.table("steps.csv")
        self.assertEqual(sum(int(line["samples"]) for line in steps), 7 * 200)
        self.assertEqual({line["labels"] for line in steps if int(line["epoch"]) <= 5}, {""})
        self.assertEqual({line["labels"] for line in steps if int(line["epoch"]) > 5}, {"25"})
        self.table("resources.csv")
        self.assertRegex(self.tethys("runs", "list"), r"earlier .*finished")
        # Fields that were renamed since the earlier version have their present names.
        self.assertRegex(self.read("job.textproto"), r"(?s)\ntuning \{.* graph: true\n.*\n    interval_seconds: 1\n")


if __name__ == "__main__":
    unittest.main()
