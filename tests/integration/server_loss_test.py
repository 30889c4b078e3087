#!/usr/bin/env python3
"""Tests that a job whose servers have copies (replicas: 2) survives the loss of servers and uses every sample exactly
once; if the job is bulk-synchronous, or stale-synchronous without staleness, it ends with the parameters of an undisturbed
run.

    server_loss_test.py TETHYS              runs the tests
    server_loss_test.py TETHYS --soak 50    runs 50 jobs of each row of SOAKED and kills one server of each at a random
                                            instant; prints the quantiles of the time from the kill until a step begins
"""
import csv
import os
import random
import signal
import sys
import time
import unittest

from lock_step_loss_test import CLIPPED_JOB, LAMB_JOB, SAMPLES, SERVERS, lock_step, seconds_until_next_group
from tethys_run import JOB, NORMALISED_JOB, TethysTest, soak

EPOCHS = 8
COPIES = ["strategy.parameter_server.replicas=2", "strategy.parameter_server.servers=3"]
CONSISTENCY = "strategy.parameter_server.consistency="
ASYNCHRONOUS = [f"{CONSISTENCY}asynchronous", "optimizer.sgd.momentum=0.5"]
PULLS = [*ASYNCHRONOUS, "strategy.parameter_server.asynchronous.pull=BEFORE_STEP"]
STALE = [f"{CONSISTENCY}stale_synchronous", "strategy.parameter_server.stale_synchronous.bound=2", "optimizer.sgd.momentum=0.5"]
NEVER_STALE = [f"{CONSISTENCY}stale_synchronous", "strategy.parameter_server.stale_synchronous.bound=0"]
# The cases that --soak measures: name, job, overrides and flags.
SOAKED = [("plain", JOB, [], []), ("TLS", JOB, [], ["--tls=on"]), ("LAMB", LAMB_JOB, [], []),
          ("asynchronous", JOB, ASYNCHRONOUS, []), ("asynchronous, TLS", JOB, ASYNCHRONOUS, ["--tls=on"]),
          ("stale-synchronous", JOB, STALE, [])]


def copied(*overrides, epochs=EPOCHS, job=NORMALISED_JOB, flags=()):
    return lock_step(SERVERS, 3, *COPIES, *overrides, epochs=epochs, job=job, flags=flags)


class ServerTest(TethysTest):
    def kill(self, run, role, index):
        os.kill(run.process(role, index), signal.SIGKILL)

    def assert_ends_well(self, run, epochs=EPOCHS):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), epochs * SAMPLES)
        self.assertEqual(run.summary()["journal_check"], "passed")
        self.assertEqual(len(run.summary()["attempt"]), 1)
        self.assert_nothing_runs(run)


class ServerLossTest(ServerTest):
    def test_servers_are_restored_from_their_copies_and_no_bit_differs(self):
        for name, job in (("plain", JOB), ("LAMB", LAMB_JOB)):
            with self.subTest(job=name), copied("max_restarts=2", job=job) as whole, \
                    copied("max_restarts=2", job=job) as run:
                whole.run()
                run.start().wait_for_training()
                for times, server in enumerate((0, 2), start=1):
                    self.kill(run, "ps", server)
                    run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")
                self.assert_ends_well(run)
                self.assert_same_bits(run, whole)
                losses = run.summary()["server_loss"]
                self.assertEqual([loss.get("server", 0) for loss in losses], [0, 2])
                self.assertRegex(run.output, "2 servers were lost and restored from their copies; training stood still for ")

    def test_stopped_server_is_given_up_and_replaced(self):
        with copied("max_restarts=1", "timeouts.worker_silence=2") as run:
            run.start().wait_for_training()
            os.kill(run.process("ps", 1), signal.SIGSTOP)
            run.wait_for_output("takes part again")
            self.assert_ends_well(run)
            self.assertRegex(run.output, r"lost ps 1 on \S+: it was silent for ")

    def test_server_that_is_lost_at_once_with_another_process_is_replaced(self):
        # The copy of server 0 is on server 1, and the copy of server 2 on server 3.
        for others in ([("worker", 1)], [("chief", 0)], [("ps", 2)]):
            with self.subTest(others=others), \
                    copied("max_restarts=2", "strategy.parameter_server.servers=4", job=CLIPPED_JOB) as run:
                run.start().wait_for_training()
                for process in (("ps", 0), *others):
                    self.kill(run, *process)
                run.wait_for_output("takes part again")
                self.assert_ends_well(run)
                self.assertEqual(len(run.summary()["server_loss"]), 1 + (others[0][0] == "ps"))

    def test_loss_of_a_server_with_its_copy_starts_the_job_again_from_its_checkpoint(self):
        with copied("max_restarts=4", "checkpoint.every_steps=20", "checkpoint.min_seconds=0") as run:
            run.start().wait_for_training()
            run.wait_for(run.checkpoints, "checkpoint")
            for server in (0, 1):
                self.kill(run, "ps", server)
            self.assertEqual(run.finish(), 0, run.output)
            self.assertEqual(run.samples_used(), EPOCHS * SAMPLES)
            self.assertEqual(len(run.summary()["attempt"]), 2)
            self.assertRegex(run.output, "all processes start again from the checkpoint")

    def test_losses_near_barriers_checkpoints_and_one_another_are_survived(self):
        with copied("max_restarts=4", "checkpoint.every_steps=10", "checkpoint.min_seconds=0", epochs=12) as run:
            run.start().wait_for_training()
            for times in range(1, 5):
                self.kill(run, "ps", random.randrange(3))
                run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")
            self.assert_ends_well(run, epochs=12)


class LeasedServerLossTest(ServerTest):
    """Workers train on while their servers form a group."""

    EPOCHS = 5

    def leased(self, *overrides, **options):
        return copied(*overrides, epochs=self.EPOCHS, **options)

    def lose_servers(self, run, servers):
        run.start().wait_for_training()
        for times, server in enumerate(servers, start=1):
            self.kill(run, "ps", server)
            run.wait_for(lambda: run.so_far().count("takes part again") == times, "replacement")

    def test_lost_servers_are_replaced_while_workers_train_on(self):
        saving = ["checkpoint.every_steps=10", "checkpoint.min_seconds=0"]
        for name, overrides in (("pulls", PULLS), ("stale", STALE)):
            with self.subTest(consistency=name), self.leased("max_restarts=2", *overrides, *saving) as run:
                self.lose_servers(run, random.sample(range(3), 2))
                self.assert_ends_well(run, self.EPOCHS)
                self.assertEqual(len(run.summary()["server_loss"]), 2)
                self.assertRegex(run.output, "2 servers were lost and restored from their copies")

    def test_job_without_staleness_is_bit_equal_to_an_undisturbed_run(self):
        with self.leased("max_restarts=2", *NEVER_STALE, job=JOB) as whole, \
                self.leased("max_restarts=2", *NEVER_STALE, job=JOB) as run:
            whole.run()
            self.lose_servers(run, (0, 2))
            self.assert_ends_well(run, self.EPOCHS)
            self.assert_same_bits(run, whole)

    def test_server_that_is_lost_at_once_with_another_process_is_replaced(self):
        for others in ([("worker", 1)], [("chief", 0)], [("ps", 2)]):
            with self.subTest(others=others), \
                    self.leased("max_restarts=2", "strategy.parameter_server.servers=4", *ASYNCHRONOUS) as run:
                run.start().wait_for_training()
                for process in (("ps", 0), *others):
                    self.kill(run, *process)
                run.wait_for_output("takes part again")
                self.assert_ends_well(run, self.EPOCHS)

    def test_stopped_server_is_given_up_and_replaced(self):
        with self.leased("max_restarts=1", "timeouts.worker_silence=2", *ASYNCHRONOUS) as run:
            run.start().wait_for_training()
            os.kill(run.process("ps", 1), signal.SIGSTOP)
            run.wait_for_output("takes part again")
            self.assert_ends_well(run, self.EPOCHS)

    def test_loss_of_a_server_with_its_copy_starts_the_job_again_from_its_checkpoint(self):
        saving = ["checkpoint.every_steps=20", "checkpoint.min_seconds=0"]
        with self.leased("max_restarts=4", *saving, *ASYNCHRONOUS) as run:
            run.start().wait_for_training()
            run.wait_for(run.checkpoints, "checkpoint")
            for server in (0, 1):
                self.kill(run, "ps", server)
            self.assertEqual(run.finish(), 0, run.output)
            self.assertEqual(run.samples_used(), self.EPOCHS * SAMPLES)
            self.assertRegex(run.output, "all processes start again from the checkpoint")


def longest_wait(run, killed):
    """The longest time in seconds, from `killed` in ns on, between the beginnings of two steps of one worker."""
    begins = {}
    for row in csv.DictReader(run.read("steps.csv").splitlines()):
        begins.setdefault(row["rank"], []).append(int(row["begin_ns"]))
    waits = [later - max(earlier, killed) for times in begins.values()
             for earlier, later in zip(sorted(times), sorted(times)[1:]) if later > killed]
    return max(waits) / 1e9 if waits else None


def stall(job, overrides, flags):
    """Kills a random server at a random moment of a run; returns the seconds until a step of the next group began or, if
    workers train on, the longest time without a new step of a worker. None if the kill came too late."""
    test = ServerTest()
    with copied("max_restarts=1", *overrides, job=job, flags=flags) as run:
        run.start().wait_for_training()
        time.sleep(random.uniform(0, 1))
        killed = time.monotonic_ns()
        test.kill(run, "ps", random.randrange(3))
        test.assert_ends_well(run)
        return longest_wait(run, killed) if overrides else seconds_until_next_group(run, killed)


def soak_all(repetitions):
    for name, job, overrides, flags in SOAKED:
        soak(name, repetitions, lambda: stall(job, overrides, flags))


if __name__ == "__main__":
    if "--soak" in sys.argv:
        sys.exit(soak_all(int(sys.argv[sys.argv.index("--soak") + 1])))
    unittest.main()
