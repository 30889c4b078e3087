#!/usr/bin/env python3
"""Tests that mirrored and bulk-synchronous jobs survive the loss of workers, use every sample exactly once and, if they
wait for a replacement, end with the parameters of an undisturbed run.

    lock_step_loss_test.py TETHYS              runs the tests
    lock_step_loss_test.py TETHYS --soak 50    runs 50 jobs of each row of SOAKED and kills one worker of each at a random
                                               instant; prints the quantiles of the time until the other workers have
                                               begun a step together
"""
import csv
import os
import random
import signal
import sys
import time
import unittest

from tethys_run import JOB, NORMALISED_JOB, PATIENT, STRATEGIES, Run, TethysTest, soak

SAMPLES = 12000
# How the workers exchange gradients: the fields of the job, and the number of epochs that take some seconds on two
# cores, so that training goes on while workers are killed.
TCP = (["strategy=mirrored", "tuning.transport=TCP"], 12)
MEMORY = (["strategy=mirrored", "tuning.transport=SHARED_MEMORY"], 40)
SERVERS = (STRATEGIES["ps_sync"], 12)
EXCHANGES = {"TCP": TCP, "memory": MEMORY, "servers": SERVERS}

CLIPPED_JOB = NORMALISED_JOB.replace("learning_rate", "clip { global_norm: 1 } learning_rate")
LAMB_JOB = NORMALISED_JOB.replace("sgd { momentum: 0.9 }\n  learning_rate: 0.05", "lamb {}\n  learning_rate: 0.01")
# The cases that --soak measures: name, exchange, job and flags.
SOAKED = [("TCP", TCP, NORMALISED_JOB, []), ("TLS", TCP, NORMALISED_JOB, ["--tls=on"]),
          ("memory", MEMORY, NORMALISED_JOB, []), ("servers", SERVERS, NORMALISED_JOB, []),
          ("servers, TLS", SERVERS, NORMALISED_JOB, ["--tls=on"]), ("servers, clipped", SERVERS, CLIPPED_JOB, []),
          ("servers, LAMB", SERVERS, LAMB_JOB, [])]


def lock_step(exchange, workers, *overrides, epochs, job=NORMALISED_JOB, flags=()):
    fields, _ = exchange
    return Run([*fields, f"workers={workers}", f"epochs={epochs}", "global_batch_size=96",
                f"data.limit_samples={SAMPLES}", PATIENT, *overrides], job=job, flags=flags)


class LockStepLossTest(TethysTest):
    def kill(self, run, worker):
        os.kill(run.process("worker", worker), signal.SIGKILL)

    def assert_ends_well(self, run, epochs):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), epochs * SAMPLES)
        self.assertEqual(run.summary()["journal_check"], "passed")

    def test_other_workers_go_on_after_one_is_killed(self):
        for name, exchange in EXCHANGES.items():
            with self.subTest(exchange=name), lock_step(exchange, 3, epochs=exchange[1]) as run:
                run.start().wait_for_training()
                self.kill(run, random.randrange(3))
                self.assert_ends_well(run, exchange[1])
                changes = run.summary()["group_change"]
                self.assertEqual(len(changes[0]["worker"]), 2, changes)
                self.assertGreater(changes[0]["stall_seconds"], 0)
                self.assertRegex(run.output, "2 of 3 workers go on from step [0-9]+ after ")
                self.assertRegex(run.output, "s in all; 1 worker was lost; training stood still for ")

    def test_updates_that_depend_on_norms_survive_a_loss(self):
        for name, job in (("clipped", CLIPPED_JOB), ("LAMB", LAMB_JOB)):
            with self.subTest(job=name), lock_step(SERVERS, 3, epochs=8, job=job) as run:
                run.start().wait_for_training()
                self.kill(run, random.randrange(3))
                self.assert_ends_well(run, epochs=8)
                self.assertEqual(len(run.summary()["group_change"][0]["worker"]), 2)

    def test_replacement_joins(self):
        for name, exchange in (("TCP", TCP), ("servers", SERVERS)):
            with self.subTest(exchange=name), lock_step(exchange, 3, "max_restarts=1", epochs=8) as run:
                run.start().wait_for_training()
                self.kill(run, 1)
                run.wait_for_output("takes part again")
                self.assert_ends_well(run, epochs=8)
                self.assertEqual(len(run.summary()["group_change"][-1]["worker"]), 3)

    def test_worker_that_is_killed_again_and_again_is_replaced(self):
        for name, exchange in (("TCP", TCP), ("servers", SERVERS)):
            with self.subTest(exchange=name), lock_step(exchange, 3, "max_restarts=4", epochs=30) as run:
                run.start().wait_for_training()
                descriptors = f"/proc/{run.launcher.pid}/fd"
                before = len(os.listdir(descriptors))
                for times in range(1, 5):
                    self.kill(run, 1)
                    run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")
                self.assertLessEqual(len(os.listdir(descriptors)), before)
                self.assert_ends_well(run, epochs=30)
                self.assertEqual(len(run.summary()["worker_loss"]), 4)

    def test_job_that_waits_for_replacements_is_bit_equal_to_an_undisturbed_run(self):
        waiting = ["max_restarts=2", "elastic.on_loss=WAIT"]
        for name, exchange in EXCHANGES.items():
            epochs = exchange[1]
            # The moving statistics of a replacement begin with the mean over the other workers, so runs with moving
            # statistics cannot be equal in all bits. A job without moving statistics is compared.
            with self.subTest(exchange=name), lock_step(exchange, 3, *waiting, epochs=epochs, job=JOB) as whole, \
                    lock_step(exchange, 3, *waiting, epochs=epochs, job=JOB) as run:
                whole.run()
                run.start().wait_for_training()
                for times, worker in enumerate((2, 0), start=1):
                    self.kill(run, worker)
                    run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")
                self.assert_ends_well(run, epochs)
                self.assert_same_bits(run, whole)

    def test_job_survives_losses_near_barriers_and_checkpoints(self):
        for name, exchange in (("TCP", TCP), ("servers", SERVERS)):
            with self.subTest(exchange=name), lock_step(exchange, 4, "checkpoint.every_steps=10", epochs=4) as run:
                run.start().wait_for_training()
                for worker in (3, 0):
                    self.kill(run, worker)
                    run.wait_for_output(f"lost worker {worker} on")
                self.assert_ends_well(run, epochs=4)

    def test_stopped_worker_is_given_up(self):
        for name, exchange in (("TCP", TCP), ("servers", SERVERS)):
            with self.subTest(exchange=name), lock_step(exchange, 3, "timeouts.silence=2", epochs=4) as run:
                run.start().wait_for_training()
                os.kill(run.process("worker", 2), signal.SIGSTOP)
                run.wait_for_output("lost worker 2 on")
                self.assert_ends_well(run, epochs=4)

    def test_loss_of_all_workers_ends_the_job(self):
        for name, exchange, error in (("TCP", TCP, "no other worker has the parameters of step"),
                                      ("servers", SERVERS, "0 workers are left")):
            with self.subTest(exchange=name), lock_step(exchange, 2, epochs=1000) as run:
                run.start().wait_for_training()
                for worker in (0, 1):
                    self.kill(run, worker)
                self.assertEqual(run.finish(), 1)
                self.assertRegex(run.output, error)
                self.assert_nothing_runs(run)

    def test_loss_of_a_server_ends_the_job(self):
        with lock_step(SERVERS, 2, epochs=1000) as run:
            run.start().wait_for_training()
            os.kill(run.process("ps", 1), signal.SIGKILL)
            self.assertEqual(run.finish(), 1)
            self.assertRegex(run.output, "ps 1")
            self.assert_nothing_runs(run)


def seconds_until_next_group(run, killed):
    """The seconds from `killed`, in ns, until all workers of the second group had begun a step; None: it has not formed."""
    changes = run.summary().get("group_change", [])
    if not changes:
        return None
    step = str(changes[0].get("step", 0))
    begun = [int(row["begin_ns"]) for row in csv.DictReader(run.read("steps.csv").splitlines()) if row["step"] == step]
    return (max(begun) - killed) / 1e9


def stall(workers, exchange, job, flags):
    """Kills a random worker at a random moment of a run; returns the seconds until all workers of the next group had
    begun a step, or None if the kill came too late."""
    test = LockStepLossTest()
    epochs = exchange[1]
    with lock_step(exchange, workers, epochs=epochs, job=job, flags=flags) as run:
        run.start().wait_for_training()
        time.sleep(random.uniform(0, 1))
        killed = time.monotonic_ns()
        test.kill(run, random.randrange(workers))
        test.assert_ends_well(run, epochs)
        return seconds_until_next_group(run, killed)


def soak_all(repetitions):
    for workers in (3, 6):
        for name, exchange, job, flags in SOAKED:
            soak(f"{workers} workers, {name}", repetitions, lambda: stall(workers, exchange, job, flags))


if __name__ == "__main__":
    if "--soak" in sys.argv:
        sys.exit(soak_all(int(sys.argv[sys.argv.index("--soak") + 1])))
    unittest.main()
