#!/usr/bin/env python3
"""Tests that a job with max_restarts starts again by itself, from its newest checkpoint, after the loss of a process
whose loss it does not survive otherwise.

    restart_test.py TETHYS              runs the tests
    restart_test.py TETHYS --soak 50    runs 50 jobs of each row of SOAKED and kills one process of each at a random
                                        instant; prints the quantiles of the time until the next step after the kill
"""
import csv
import os
import random
import signal
import sys
import time
import unittest

from tethys_run import JOB, NORMALISED_JOB, PATIENT, STRATEGIES, Run, TethysTest, soak

SAMPLES = 6000
SAVING = ["checkpoint.every_steps=20", "checkpoint.min_seconds=0"]
# What --soak measures: the strategy, and the process that is killed.
SOAKED = [("local", "worker"), ("ps_sync", "ps"), ("ps_async", "ps")]


def long_run(strategy, *overrides, epochs=20, job=NORMALISED_JOB):
    return Run([*STRATEGIES[strategy], f"epochs={epochs}", "global_batch_size=96", f"data.limit_samples={SAMPLES}",
                PATIENT, *overrides], job=job)


class RestartTest(TethysTest):
    def kill(self, run, role, index=0):
        os.kill(run.process(role, index), signal.SIGKILL)

    def wait_for_restart(self, run, number):
        run.wait_for(lambda: run.so_far().count("\nstarted in ") > number, f"restart {number}")

    def assert_ends_well(self, run, epochs=20):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), epochs * SAMPLES)
        self.assertEqual(run.summary()["journal_check"], "passed")
        self.assert_nothing_runs(run)

    def test_lost_servers_and_a_lost_only_worker_start_the_job_again(self):
        for strategy, roles in (("local", ["worker"]), ("ps_async", ["ps", "ps"])):
            with self.subTest(strategy=strategy), long_run(strategy, *SAVING, "max_restarts=2") as run:
                run.start()
                for number, role in enumerate(roles, start=1):
                    run.wait_for(run.checkpoints, "checkpoint")
                    self.kill(run, role)
                    self.wait_for_restart(run, number)
                self.assert_ends_well(run)
                self.assertRegex(run.output, r"all processes start again from the checkpoint of step [0-9,]+ \(restart 1 of 2")
                attempts = run.summary()["attempt"]
                self.assertEqual(len(attempts), len(roles) + 1)
                self.assertIn("was killed by signal 9", attempts[0]["ending"])
                self.assertEqual(attempts[-1].get("ending", ""), "")
                self.assertEqual(attempts[0]["end_step"], attempts[1]["first_step"])
                self.assertRegex(run.output, f"in all over {len(attempts)} attempts")

    def test_job_that_starts_again_has_the_bits_of_an_undisturbed_run(self):
        for strategy, role in (("local", "worker"), ("ps_sync", "ps")):
            with self.subTest(strategy=strategy), long_run(strategy, *SAVING, epochs=12, job=JOB) as whole, \
                    long_run(strategy, *SAVING, "max_restarts=1", epochs=12, job=JOB) as run:
                whole.run()
                run.start().wait_for(run.checkpoints, "checkpoint")
                self.kill(run, role)
                self.assert_ends_well(run, epochs=12)
                self.assert_same_bits(run, whole)

    def test_job_without_a_checkpoint_starts_again_from_the_beginning(self):
        with long_run("ps_sync", "checkpoint.every_epochs=0", "max_restarts=1") as run:
            run.start().wait_for_training()
            self.kill(run, "ps", 1)
            self.assert_ends_well(run)
            self.assertIn("all processes start again from the beginning, because no checkpoint was saved yet", run.output)

    def test_replaced_workers_and_restarts_of_the_job_share_a_limit(self):
        with long_run("ps_async", *SAVING, "max_restarts=2", epochs=1000) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            self.kill(run, "worker", 1)
            run.wait_for_output("takes part again")
            self.kill(run, "ps", 1)
            run.wait_for_output("(restart 2 of 2)")
            self.wait_for_restart(run, 1)
            run.wait_for(lambda: run.read("journal").rpartition("\nattempt ")[2].count("\nused ") > 10, "step")
            self.kill(run, "ps", 0)
            self.assertEqual(run.finish(), 1, run.output)
            self.assertIn("go on from step", run.output)
            # The worker was lost in the first of the two attempts, which outlived the loss.
            self.assertEqual([attempt.get("lost_workers", 0) for attempt in run.summary()["attempt"]], [1, 0])
            self.assert_nothing_runs(run)

    def test_loss_of_all_workers_starts_a_mirrored_job_again(self):
        with long_run("mirrored", *SAVING, "max_restarts=8") as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            for worker in (0, 1, 2):
                self.kill(run, "worker", worker)
            self.assert_ends_well(run)

    def test_job_that_fails_by_itself_does_not_start_again(self):
        with long_run("local", *SAVING, "max_restarts=5", "optimizer.learning_rate=1e6") as run:
            self.assertEqual(run.start().finish(), 1)
            self.assertIn("the loss became", run.output)
            self.assertNotIn("start again", run.output)

    def test_interrupt_after_a_restart_saves_and_ends_the_job(self):
        with long_run("ps_sync", *SAVING, "max_restarts=3", epochs=1000) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            self.kill(run, "ps")
            run.wait_for_output("(restart 1 of 3)")
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(), 1, run.output)
            self.assertEqual(run.summary()["status"], "interrupted")
            self.assert_nothing_runs(run)
            run.run(resume=True, overrides=[f"epochs={run.saved_epoch() + 1}"])
            self.assertEqual(run.samples_used() % SAMPLES, 0)


def stall(strategy, role):
    """Kills a process at a random moment of a run; returns the seconds until the first step after the kill began."""
    test = RestartTest()
    with long_run(strategy, *SAVING, "max_restarts=1") as run:
        run.start().wait_for(run.checkpoints, "checkpoint")
        time.sleep(random.uniform(0, 1))
        killed = time.monotonic_ns()
        test.kill(run, role)
        test.assert_ends_well(run)
        restarted = len(run.summary()["attempt"]) == 2
        begun = [int(row["begin_ns"]) for row in csv.DictReader(run.read("steps.csv").splitlines())]
        return (min(begin for begin in begun if begin > killed + 50_000_000) - killed) / 1e9 if restarted else None


def soak_all(repetitions):
    for strategy, role in SOAKED:
        soak(f"{strategy}, {role} killed", repetitions, lambda: stall(strategy, role))


if __name__ == "__main__":
    if "--soak" in sys.argv:
        sys.exit(soak_all(int(sys.argv[sys.argv.index("--soak") + 1])))
    unittest.main()
