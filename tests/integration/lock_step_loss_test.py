#!/usr/bin/env python3
"""Tests that mirrored jobs survive the loss of workers, use every sample exactly once and, if they wait for a
replacement, end with the parameters of an undisturbed run.

    mirrored_loss_test.py TETHYS              runs the tests
    mirrored_loss_test.py TETHYS --soak 50    for 3 and 6 workers over TCP, TLS and memory, runs 50 jobs and kills one worker of
                                              each at a random instant; prints the quantiles of the time until
                                              the other workers have begun a step together
"""
import csv
import os
import random
import signal
import statistics
import sys
import time
import unittest

from tethys_run import JOB, NORMALISED_JOB, Run, TethysTest

SAMPLES = 12000
# Each medium's field, and the number of epochs that take some seconds on two cores, so that training goes on while
# workers are killed.
MEDIA = {"TCP": (["tuning.transport=TCP"], 12), "memory": (["tuning.transport=SHARED_MEMORY"], 40)}


def mirrored(workers, *overrides, epochs, job=NORMALISED_JOB, flags=()):
    return Run(["strategy=mirrored", f"workers={workers}", f"epochs={epochs}", "global_batch_size=96",
                f"data.limit_samples={SAMPLES}", *overrides], job=job, flags=flags)


class MirroredLossTest(TethysTest):
    def kill(self, run, worker):
        os.kill(run.process("worker", worker), signal.SIGKILL)

    def assert_ends_well(self, run, epochs):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), epochs * SAMPLES)
        self.assertEqual(run.summary()["journal_check"], "passed")

    def test_the_other_workers_go_on(self):
        for name, (medium, epochs) in MEDIA.items():
            with self.subTest(medium=name), mirrored(3, *medium, epochs=epochs) as run:
                run.start().wait_for_training()
                self.kill(run, random.randrange(3))
                self.assert_ends_well(run, epochs)
                changes = run.summary()["group_change"]
                self.assertEqual(len(changes[0]["worker"]), 2, changes)
                self.assertGreater(changes[0]["stall_seconds"], 0)
                self.assertRegex(run.output, "2 of 3 workers go on from step [0-9]+ after ")
                self.assertRegex(run.output, "s in all; 1 worker was lost; training stood still for ")

    def test_replacement_joins(self):
        with mirrored(3, "max_restarts=1", epochs=8) as run:
            run.start().wait_for_training()
            self.kill(run, 1)
            run.wait_for_output("takes part again")
            self.assert_ends_well(run, epochs=8)
            self.assertEqual(len(run.summary()["group_change"][-1]["worker"]), 3)

    def test_job_that_waits_has_the_bits_of_the_undisturbed_run(self):
        for name, (medium, epochs) in MEDIA.items():
            waiting = ["max_restarts=2", "elastic.on_loss=WAIT", *medium]
            # Moving statistics of a replacement begin with the mean, so a job without them is compared.
            with self.subTest(medium=name), mirrored(3, *waiting, epochs=epochs, job=JOB) as whole, \
                    mirrored(3, *waiting, epochs=epochs, job=JOB) as run:
                whole.run()
                run.start().wait_for_training()
                for times, worker in enumerate((2, 0), start=1):
                    self.kill(run, worker)
                    run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")
                self.assert_ends_well(run, epochs)
                self.assert_same_bits(run, whole)

    def test_job_survives_losses_near_barriers_and_checkpoints(self):
        with mirrored(4, "checkpoint.every_steps=10", epochs=4) as run:
            run.start().wait_for_training()
            for worker in (3, 0):
                self.kill(run, worker)
                run.wait_for_output(f"lost worker {worker} on")
            self.assert_ends_well(run, epochs=4)

    def test_stopped_worker_is_given_up(self):
        with mirrored(3, "timeouts.silence=2", epochs=4) as run:
            run.start().wait_for_training()
            os.kill(run.process("worker", 2), signal.SIGSTOP)
            run.wait_for_output("lost worker 2 on")
            self.assert_ends_well(run, epochs=4)

    def test_loss_of_all_workers_ends_the_job(self):
        with mirrored(2, epochs=1000) as run:
            run.start().wait_for_training()
            for worker in (0, 1):
                self.kill(run, worker)
            self.assertEqual(run.finish(), 1)
            self.assertRegex(run.output, "no other worker has the parameters of step")
            self.assert_nothing_runs(run)


def stall(workers, medium, epochs, flags):
    """Kills a random worker at a random moment of a run; returns the seconds until all workers of the next group had
    begun a step, or None if the kill came too late."""
    test = MirroredLossTest()
    with mirrored(workers, *medium, epochs=epochs, flags=flags) as run:
        run.start().wait_for_training()
        time.sleep(random.uniform(0, 1))
        killed = time.monotonic_ns()
        test.kill(run, random.randrange(workers))
        test.assert_ends_well(run, epochs)
        changes = run.summary().get("group_change", [])
        if not changes:
            return None
        step = str(changes[0].get("step", 0))
        begun = [int(row["begin_ns"]) for row in csv.DictReader(run.read("steps.csv").splitlines()) if row["step"] == step]
        return (max(begun) - killed) / 1e9


def soak(repetitions):
    for workers in (3, 6):
        for name, medium, flags in [(name, medium, []) for name, medium in MEDIA.items()] + [
                ("TLS", MEDIA["TCP"], ["--tls=on"])]:
            found = [stall(workers, *medium, flags) for _ in range(repetitions)]
            stalls = sorted(seconds for seconds in found if seconds is not None)
            print(f"{workers} workers, {name}: {repetitions} losses survived, {found.count(None)} too late for it; stall "
                  f"{statistics.median(stalls):.3f} s median, {stalls[len(stalls) * 95 // 100]:.3f} s at the 95th "
                  f"percentile, {stalls[-1]:.3f} s at most", flush=True)
    return 0


if __name__ == "__main__":
    if "--soak" in sys.argv:
        sys.exit(soak(int(sys.argv[sys.argv.index("--soak") + 1])))
    unittest.main()
