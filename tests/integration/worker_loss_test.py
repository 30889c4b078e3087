#!/usr/bin/env python3
"""Tests that asynchronous and stale-synchronous jobs survive the loss of a worker and use every sample exactly once.

    worker_loss_test.py TETHYS              runs the tests: each case once or twice
    worker_loss_test.py TETHYS --soak 50    for each consistency, runs 50 jobs of six workers and kills one worker at a
                                            random instant; prints the longest time until a replacement takes part, and
                                            the accuracies
"""
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from tethys_run import DATA, JOB, NORMALISED_JOB, PATIENCE, PATIENT, Run, STRATEGIES, TETHYS, TethysTest

ASYNCHRONOUS = ["strategy=parameter_server", "strategy.parameter_server.servers=2",
                "strategy.parameter_server.consistency=asynchronous", "optimizer.sgd.momentum=0.5",
                "strategy.parameter_server.asynchronous.gradient_scale=GLOBAL_MEAN"]
STALE = ["strategy=parameter_server", "strategy.parameter_server.servers=2",
         "strategy.parameter_server.consistency=stale_synchronous", "optimizer.sgd.momentum=0.5"]
CONSISTENCIES = {"asynchronous": ASYNCHRONOUS, "stale_synchronous": STALE}
WORKERS = 6
EPOCHS = 2
SHORT = [f"workers={WORKERS}", f"epochs={EPOCHS}", "global_batch_size=96", "data.limit_samples=12000"]
SAMPLES = EPOCHS * 12000
LONGER = 8  # The number of epochs of a run that takes some seconds on two cores.


def bound(value):
    return [f"strategy.parameter_server.stale_synchronous.bound={value}"]


def stalest(summary):
    return max(int(count["staleness"]) for count in summary["communication"]["staleness"])


class StaleSynchronousTest(TethysTest):
    def test_bound_zero_equals_bulk_synchronous_training(self):
        with Run(STRATEGIES["ps_sync"]) as bulk, Run([*STRATEGIES["ps_sync"], *STALE[2:3], *bound(0)]) as stale:
            self.assert_same_bits(stale.run(), bulk.run())
            self.assertEqual(stalest(stale.summary()), 0)

    def test_staleness_stays_within_limit_implied_by_bound(self):
        for value in (1, 3):
            with self.subTest(bound=value), Run([*STALE, *SHORT, *bound(value)]) as run:
                self.assertLessEqual(stalest(run.run().summary()), (WORKERS - 1) * (2 * value + 1))
                self.assertEqual(run.samples_used(), SAMPLES)

    def test_others_get_ahead_of_a_slow_worker_by_the_staleness_bound(self):
        with ByHand("workers: 3 strategy { parameter_server { servers: 2 stale_synchronous { bound: 3 } } }",
                    steps=6) as run:
            run.start_all(servers=2, workers=3, flags={0: ["--slow_down=600"]})
            self.assertEqual(run.wait(), 0)
            gaps = run.gaps()
        # A push that would lead by more than three steps waits until the slow worker has pushed, too.
        self.assertEqual(set(gaps.values()), {3})


class SlowWorkerTest(TethysTest):
    def test_worker_that_computes_beyond_timeout_is_not_lost(self):
        timeouts = "workers: 2 timeouts { silence: 5 step: 6 } strategy "
        with ByHand(timeouts + "{ mirrored {} }", steps=1) as mirrored, \
                ByHand(timeouts + "{ parameter_server { servers: 1 } }", steps=1) as servers:
            mirrored.start_all(servers=0, workers=2, flags={1: ["--slow_down=7500"]})
            servers.start_all(servers=1, workers=2, flags={1: ["--slow_down=7500"]})
            for run in (mirrored, servers):
                self.assertEqual(run.wait(), 0)
                self.assertEqual(run.samples_used(), 128)


class ByHand(Run):
    """A run whose processes the test starts one by one."""

    def __init__(self, strategy, steps):
        super().__init__(job=JOB.replace("limit_samples: 3001", f"limit_samples: {128 * steps}")
                         .replace("epochs: 3", "epochs: 1") + strategy)
        self.tasks = []

    def __exit__(self, *details):
        for task in self.tasks:
            task.kill()
            task.wait()
            task.stdin.close()
        self.tasks[0].stdout.close()
        super().__exit__(*details)

    def spawn(self, *words, output=subprocess.DEVNULL):
        task = subprocess.Popen([TETHYS, *words], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL)
        task.stdin.write(b"00112233445566778899aabbccddeeff by-hand\n")
        task.stdin.flush()
        self.tasks.append(task)
        return task

    def start_all(self, servers, workers, flags):
        os.mkdir(self.directory)
        chief = self.spawn("chief", f"--job={self.job}", f"--run_dir={self.directory}", output=subprocess.PIPE)
        address = json.loads(chief.stdout.readline())["listening"]["address"]
        for index in range(servers):
            self.spawn("ps", f"--chief={address}", f"--index={index}")
        for index in range(workers):
            self.spawn("worker", f"--chief={address}", f"--index={index}", *flags.get(index, []))

    def wait(self):
        self.tasks[0].stdout.read()
        return self.tasks[0].wait(timeout=PATIENCE)

    def gaps(self):
        """{server: the largest number of steps by which one worker was ahead of another on that server}"""
        made = collections.defaultdict(lambda: [0, 0, 0])
        gaps = collections.Counter()
        for line in self.read("journal").splitlines():
            kind, *fields = line.split(" ")
            if kind == "applied":
                server, worker, sequence = map(int, fields[:3])
                made[server][worker] = sequence
                gaps[server] = max(gaps[server], max(made[server]) - min(made[server]))
        return gaps


def short_run(consistency, *overrides):
    return Run([*CONSISTENCIES[consistency], *SHORT, PATIENT, *overrides], job=NORMALISED_JOB)


class WorkerLossTest(TethysTest):
    def kill(self, run, worker):
        os.kill(run.process("worker", worker), signal.SIGKILL)

    def assert_ends_well(self, run):
        self.assertEqual(run.finish(), 0, run.output)
        self.assertEqual(run.samples_used(), SAMPLES)

    def test_killed_worker_is_replaced_and_samples_used_once(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency), short_run(consistency, "max_restarts=1") as run:
                run.start().wait_for_training()
                with run.held("worker", 0):
                    self.kill(run, random.randrange(1, WORKERS))
                    run.wait_for_output("takes part again")
                self.assert_ends_well(run)

    def test_without_restarts_the_other_workers_continue(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency), short_run(consistency) as run:
                run.start().wait_for_training()
                self.kill(run, random.randrange(WORKERS))
                self.assert_ends_well(run)
                self.assertEqual([loss["replaced_seconds"] for loss in run.summary()["worker_loss"]], [0])

    def test_job_survives_losses_near_barriers_and_checkpoints(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency), \
                    short_run(consistency, "max_restarts=3", "checkpoint.every_steps=25") as run:
                run.start().wait_for_training()
                for worker in (1, 3, 5):
                    self.kill(run, worker)
                    run.wait_for_output(f"lost worker {worker} on")
                self.assert_ends_well(run)

    def test_stopped_worker_is_replaced(self):
        with short_run("stale_synchronous", "max_restarts=1", "timeouts.silence=5") as run:
            run.start().wait_for_training()
            os.kill(run.process("worker", 2), signal.SIGSTOP)
            run.wait_for_output("lost worker 2 on")
            with run.held("worker", 0):
                run.wait_for_output("takes part again")
            self.assert_ends_well(run)

    def test_worker_killed_during_start_is_replaced(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency), short_run(consistency, "max_restarts=1") as run:
                self.kill(run.start(), 2)
                self.assert_ends_well(run)

    def test_replacements_with_damaged_data_count_as_losses(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="tethys-data-"))
        images = shutil.copy(f"{DATA.name}/train-images-idx3-ubyte", folder)
        with Run([*ASYNCHRONOUS, *SHORT, "workers=3", "max_restarts=2", "timeouts.silence=30", "timeouts.worker_silence=30",
                  "timeouts.step=60"],
                 job=JOB.replace(f"{DATA.name}/train-images-idx3-ubyte", images)) as run:
            run.start().wait_for_training()
            os.truncate(images, 1000)
            with run.held("worker", 0):
                self.kill(run, 1)
                run.wait_for_output("the job goes on without this worker")
            self.assert_ends_well(run)
            reasons = [loss["reason"] for loss in run.summary()["worker_loss"]]
        self.assertEqual(len(reasons), 3, reasons)
        for reason in reasons[1:]:
            self.assertIn(images, reason)

    def test_loss_of_the_last_worker_ends_the_job(self):
        with Run([*ASYNCHRONOUS, "workers=1", "epochs=1000"]) as run:
            run.start().wait_for_training()
            self.kill(run, 0)
            self.assertEqual(run.finish(), 1)
            self.assertRegex(run.output, "tethys train: (lost )?worker 0 on ")
            self.assertRegex(run.output, "lost worker 0 on .*no worker is left")
            self.assertRegex(run.output, "worker 0 on .* was killed by signal 9")
            self.assert_nothing_runs(run)


def accuracies(consistency, seeds):
    found = []
    for seed in seeds:
        with short_run(consistency, f"epochs={LONGER}", f"seed={seed}") as run:
            found.append(run.run().summary()["test"]["accuracy"])
    return found


def lose(consistency):
    """Makes a run lose a random worker at a random moment; returns its summary."""
    test = WorkerLossTest()
    with short_run(consistency, f"epochs={LONGER}", "max_restarts=1") as run:
        run.start().wait_for_training()
        time.sleep(random.uniform(0, 3))
        test.kill(run, random.randrange(WORKERS))
        test.assertEqual(run.finish(), 0, run.output)
        test.assertEqual(run.samples_used(), LONGER * 12000)
        test.assertEqual(len(run.summary()["worker_loss"]), 1, run.output)
        return run.summary()


def soak(repetitions, words):
    for consistency in CONSISTENCIES:
        if not set(words) <= {consistency}:
            continue
        undisturbed = accuracies(consistency, range(3))
        disturbed, waits, torn = [], [], 0
        for _ in range(repetitions):
            summary = lose(consistency)
            loss = summary["worker_loss"][0]
            disturbed.append(summary["test"]["accuracy"])
            waits.append(loss["replaced_seconds"])
            torn += len(loss["torn"])
        print(f"{consistency}: {repetitions} losses survived, replaced after {max(waits):.2f} s at most, "
              f"{waits.count(0)} too late for it, {torn} batches torn; accuracy {statistics.mean(disturbed):.4f} +- "
              f"{statistics.pstdev(disturbed):.4f}, without losses {statistics.mean(undisturbed):.4f} +- "
              f"{statistics.pstdev(undisturbed):.4f}", flush=True)
    return 0


if __name__ == "__main__":
    if "--soak" in sys.argv:
        at = sys.argv.index("--soak") + 1
        sys.exit(soak(int(sys.argv[at]), sys.argv[at + 1:]))
    unittest.main()
