#!/usr/bin/env python3
"""Tests that another process takes over from a lost chief, so that a job with max_restarts trains on without a redone
step.

    chief_loss_test.py TETHYS                 runs the tests
    chief_loss_test.py TETHYS --soak 50       kills the chief of 50 jobs of each strategy at a random instant; prints the
                                              quantiles of the time until the new chief reports
    chief_loss_test.py TETHYS --throughput 5  kills the chief of 5 jobs within a long epoch; prints the number of steps
                                              in the second after the kill, as a share of those in the second before
    chief_loss_test.py TETHYS --long 6        kills the chief of a job of brief steps after 6 minutes; prints the number
                                              of steps, the length of the log and the time until the new chief reports
"""
import collections
import csv
import os
import random
import signal
import statistics
import sys
import time
import unittest

from tethys_run import FULL_JOB, JOB, NORMALISED_JOB, PATIENT, STRATEGIES, Run, TethysTest, quantiles

SAMPLES = 6000
SAVING = ["checkpoint.every_steps=20", "checkpoint.min_seconds=0"]
GOES_ON = "the new chief goes on where the lost chief was"


def long_run(strategy, *overrides, epochs=20, job=JOB):
    return Run([*STRATEGIES[strategy], f"epochs={epochs}", "global_batch_size=96", f"data.limit_samples={SAMPLES}",
                PATIENT, *overrides], job=job)


def rows(run, table):
    return list(csv.DictReader(run.read(table).splitlines()))


class ChiefLossTest(TethysTest):
    def kill(self, run, role="chief", index=0):
        os.kill(run.process(role, index), signal.SIGKILL)

    def lose_chief(self, run, number=1):
        self.kill(run)
        run.wait_for(lambda: run.so_far().count(GOES_ON) == number, f"new chief {number}")

    def assert_ends_well(self, run, epochs):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), epochs * SAMPLES)
        summary = run.summary()
        self.assertEqual(summary["journal_check"], "passed")
        self.assertEqual(len(summary["attempt"]), 1)
        self.assertEqual(len(summary["chief_loss"]), run.output.count(GOES_ON))
        self.assertNotIn("start again", run.output)
        self.assertFalse(os.path.exists(run.path("chief.log")))
        self.assert_nothing_runs(run)

    def assert_each_row_once(self, run, table, *columns):
        counts = collections.Counter(tuple(row[column] for column in columns) for row in rows(run, table))
        self.assertEqual({key: count for key, count in counts.items() if count > 1}, {}, table)
        self.assertGreater(len(counts), 0, table)

    def test_run_that_lost_its_chief_twice_has_the_files_of_an_undisturbed_run(self):
        for strategy, epochs in (("mirrored", 30), ("ps_sync", 15), ("ps_async", 15)):
            with self.subTest(strategy=strategy), long_run(strategy, epochs=epochs) as whole, \
                    long_run(strategy, "max_restarts=2", epochs=epochs) as run:
                run.start().wait_for_training()
                self.lose_chief(run, 1)
                self.lose_chief(run, 2)
                self.assert_ends_well(run, epochs=epochs)
                self.assert_each_row_once(run, "steps.csv", "rank", "step")
                self.assert_each_row_once(run, "epochs.csv", "epoch")
                self.assert_each_row_once(run, "resources.csv", "host", "process", "seconds")
                self.assertEqual(run.output.count("\nepoch "), epochs)
                whole.run()
                self.assertEqual(run.summary()["steps_recorded"], whole.summary()["steps_recorded"])
                if strategy != "ps_async":
                    self.assert_same_bits(run, whole)

    def wait_for_snapshot(self, run):
        """Returns once a new log, which begins with a snapshot, has replaced the chief's log."""
        path = run.path("chief.log")
        log = os.stat(path).st_ino
        run.wait_for(lambda: os.path.exists(path) and os.stat(path).st_ino != log, "snapshot of the chief")

    def test_chief_that_is_lost_after_snapshots_leaves_the_files_of_an_undisturbed_run(self):
        # Without the reports of servers, half a mebibyte has the records of three workers of some 6500 steps.
        for strategy, epochs in (("mirrored", 45), ("ps_async", 15)):
            small = "global_batch_size=12"
            with self.subTest(strategy=strategy), long_run(strategy, small, epochs=epochs) as whole, \
                    long_run(strategy, small, "max_restarts=2", epochs=epochs) as run:
                run.start().wait_for_training()
                for number in range(1, 3):
                    self.wait_for_snapshot(run)
                    time.sleep(random.uniform(0, 0.3) if number > 1 else 0)
                    self.lose_chief(run, number)
                self.assert_ends_well(run, epochs=epochs)
                whole.run()
                for table, *columns in (("steps.csv", "rank", "step"), ("epochs.csv", "epoch"),
                                        ("resources.csv", "host", "process", "seconds")):
                    self.assert_each_row_once(run, table, *columns)
                self.assertEqual(len(rows(run, "epochs.csv")), epochs)
                self.assertEqual(run.output.count("\nepoch "), epochs)
                self.assertEqual(len(rows(run, "steps.csv")), len(rows(whole, "steps.csv")))
                for value in ("steps_recorded", "samples_recorded", "epochs"):
                    self.assertEqual(run.summary()[value], whole.summary()[value], value)
                self.assert_same_use_of_resources(run)
                if strategy != "ps_async":
                    self.assert_same_bits(run, whole)

    def assert_same_use_of_resources(self, run):
        """The summary counts each sample of a process once, as the table does."""
        counts = collections.Counter((row["host"], row["process"]) for row in rows(run, "resources.csv"))
        for use in run.summary()["resources"]:
            if use.get("host"):
                self.assertEqual(int(use["samples"]), counts[use["host"], use.get("process", "")], use)

    def test_chief_may_be_lost_at_any_moment_of_a_job_that_saves_and_validates(self):
        with long_run("ps_sync", *SAVING, "max_restarts=12", epochs=30, job=NORMALISED_JOB) as run:
            run.start().wait_for_training()
            descriptors = f"/proc/{run.launcher.pid}/fd"
            before = len(os.listdir(descriptors))
            for number in range(1, 9):
                self.lose_chief(run, number)
                time.sleep(random.uniform(0, 0.2))
            self.assertLessEqual(len(os.listdir(descriptors)), before)
            self.assert_ends_well(run, epochs=30)

    def test_chief_of_a_resumed_run_is_replaced_after_many_saves(self):
        with long_run("mirrored", *SAVING, "checkpoint.keep=1", epochs=2) as run:
            run.run()
            run.start(resume=True, overrides=["epochs=40", "max_restarts=1"])
            run.wait_for(lambda: run.so_far().count("\nsaved ") > 4, "saves")
            self.lose_chief(run)
            self.assertEqual(run.finish(), 0, run.output)
            self.assertNotIn("start again", run.output)
            self.assertEqual(run.samples_used(), 40 * SAMPLES)
            self.assertEqual(run.summary()["journal_check"], "passed")

    def test_chief_and_a_worker_that_are_lost_at_once_are_both_replaced(self):
        for strategy in ("mirrored", "ps_async"):
            with self.subTest(strategy=strategy), long_run(strategy, "max_restarts=3", epochs=40) as run:
                run.start().wait_for_training()
                self.kill(run, "worker", 1)
                self.lose_chief(run)
                run.wait_for_output("takes part again")
                self.assert_ends_well(run, epochs=40)

    def test_stopped_chief_is_killed_and_replaced(self):
        with long_run("mirrored", "max_restarts=1", "timeouts.silence=6", epochs=30) as run:
            run.start().wait_for_training()
            os.kill(run.process("chief"), signal.SIGSTOP)
            run.wait_for_output("the launcher kills it")
            self.assert_ends_well(run, epochs=30)

    def test_job_starts_again_from_its_checkpoint_if_the_log_is_unusable(self):
        for damage in ("missing", "damaged"):
            with self.subTest(damage=damage), long_run("ps_sync", *SAVING, "max_restarts=1", epochs=15) as run:
                run.start().wait_for(run.checkpoints, "checkpoint")
                chief = run.process("chief")
                os.kill(chief, signal.SIGSTOP)
                if damage == "missing":
                    os.unlink(run.path("chief.log"))
                else:
                    with open(run.path("chief.log"), "r+b") as log:
                        log.seek(20)
                        log.write(b"?")
                os.kill(chief, signal.SIGKILL)
                self.assertEqual(run.finish(), 0, run.output)
                self.assertIn("all processes start again from the checkpoint of step", run.output)
                self.assertEqual(run.samples_used(), 15 * SAMPLES)
                self.assertEqual(run.summary()["journal_check"], "passed")
                self.assert_nothing_runs(run)

    def test_job_without_max_restarts_ends_with_its_chief(self):
        with long_run("mirrored", *SAVING, epochs=1000) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            self.assertFalse(os.path.exists(run.path("chief.log")))
            self.kill(run)
            self.assertEqual(run.finish(), 1)
            self.assertIn("go on from step", run.output)
            self.assert_nothing_runs(run)

    def test_interrupt_after_a_takeover_saves_and_ends_the_job(self):
        with long_run("ps_async", "max_restarts=1", epochs=1000) as run:
            run.start().wait_for_training()
            self.lose_chief(run)
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(), 1, run.output)
            self.assertEqual(run.summary()["status"], "interrupted")
            self.assertTrue(run.checkpoints())
            self.assert_nothing_runs(run)


def soak(repetitions):
    test = ChiefLossTest()
    for strategy in ("local", "mirrored", "ps_sync", "ps_async"):
        waits = []
        for _ in range(repetitions):
            with long_run(strategy, *SAVING, "max_restarts=1", epochs=60) as run:
                run.start().wait_for_training()
                time.sleep(random.uniform(0, 1))
                begun = time.monotonic()
                test.lose_chief(run)
                waits.append(time.monotonic() - begun)
                test.assert_ends_well(run, epochs=60)
        print(f"{strategy}: {repetitions} jobs lost their chief and ended well; new chief after {quantiles(waits)}",
              flush=True)
    return 0


def throughput(repetitions):
    test = ChiefLossTest()
    for strategy in ("mirrored", "ps_sync", "ps_async"):
        shares = []
        for _ in range(repetitions):
            run = Run([*STRATEGIES[strategy], "epochs=2", "global_batch_size=12", "data.limit_samples=50000", PATIENT,
                       "max_restarts=1"], job=FULL_JOB.replace("units: 128", "units: 512"))
            with run:
                run.start().wait_for_training()
                time.sleep(1.5)
                killed = time.monotonic_ns()
                test.lose_chief(run)
                run.finish()
                begun = [int(row["begin_ns"]) for row in rows(run, "steps.csv")]
                before = sum(killed - 1e9 <= begin < killed for begin in begun)
                after = sum(killed <= begin < killed + 1e9 for begin in begun)
                shares.append(after / before)
        print(f"{strategy}: steps in the second after the kill / before: "
              f"{', '.join(f'{share:.2f}' for share in sorted(shares))}; median {statistics.median(shares):.2f}",
              flush=True)
    return 0


def long(minutes):
    test = ChiefLossTest()
    with Run([*STRATEGIES["local"], "epochs=1000000", "global_batch_size=12", "max_restarts=1", PATIENT], job=JOB) as run:
        run.start().wait_for_training()
        time.sleep(60 * minutes)
        length = os.path.getsize(run.path("chief.log"))
        begun = time.monotonic()
        test.lose_chief(run)
        seconds = time.monotonic() - begun
        run.launcher.send_signal(signal.SIGINT)
        test.assertEqual(run.finish(), 1, run.output)
        test.assertEqual(run.summary()["status"], "interrupted")
        print(f"after {minutes} minutes and {run.summary()['steps_recorded']} steps, a log of {length} bytes: new chief "
              f"after {seconds:.3f} s", flush=True)
    return 0


if __name__ == "__main__":
    for option, function in (("--soak", soak), ("--throughput", throughput), ("--long", long)):
        if option in sys.argv:
            sys.exit(function(int(sys.argv[sys.argv.index(option) + 1])))
    unittest.main()
