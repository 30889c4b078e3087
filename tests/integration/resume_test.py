#!/usr/bin/env python3
"""Tests that a job that is stopped and resumed ends with the same parameters, bit for bit, as an undisturbed one, and
that checkpoints can be resumed under any strategy."""
import contextlib
import os
import random
import signal
import unittest

from tethys_run import JOB, Run, STRATEGIES, TethysTest, command

# Overrides for jobs that a test always interrupts. The length of the decay is fixed, so that a limit on steps that is
# set when the job is resumed does not change it.
LONG = ["epochs=1000", "optimizer.schedule.linear_decay.samples=30010"]
SAVING = ["checkpoint.every_steps=7"]
# Adam keeps two slots, and its corrections depend on the number of updates. Each worker has moving statistics of its
# own; dropout and augmentation depend on the samples' positions in the job.
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
                stopped = {victim: runs.enter_context(Run([*strategies[name], *LONG, *SAVING], job=job))
                           for victim in STOPS}
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
            with run.held("worker", 1):  # While it is held, no checkpoint can be saved.
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
                                      (["optimizer=adam", "epochs=3"], "has no 'first_moment' of the job's optimizer"),
                                      (["epochs=2"], "nothing is left to train: 2 epochs"),
                                      (["epochs=1"], "the job has epochs: 1")):
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
            # The mean and deviation in the checkpoint are used, not those of the 50 samples left by --set.
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


if __name__ == "__main__":
    unittest.main()
