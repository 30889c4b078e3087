#!/usr/bin/env python3
"""Asynchronous and stale-synchronous jobs go on when a worker is lost, and use every sample exactly once.

    worker_loss_test.py TETHYS              each case once or twice (a test)
    worker_loss_test.py TETHYS --soak 50    kill -9 of one of six workers at so many random instants, each consistency;
                                            prints the longest time until a replacement takes part, and the accuracies
"""
import os
import random
import re
import signal
import statistics
import sys
import time
import unittest

from tethys_run import Run, STRATEGIES, TethysTest, heed_signals, TETHYS

ASYNCHRONOUS = ["strategy=parameter_server", "strategy.parameter_server.servers=2",
                "strategy.parameter_server.consistency=asynchronous", "optimizer.sgd.momentum=0.5",
                "strategy.parameter_server.asynchronous.gradient_scale=GLOBAL_MEAN"]
STALE = ["strategy=parameter_server", "strategy.parameter_server.servers=2",
         "strategy.parameter_server.consistency=stale_synchronous", "optimizer.sgd.momentum=0.5"]
CONSISTENCIES = {"asynchronous": ASYNCHRONOUS, "stale_synchronous": STALE}
WORKERS = 6
# A few seconds of training on two cores.
SHORT = [f"workers={WORKERS}", "epochs=8", "global_batch_size=96", "data.limit_samples=12000"]


def bound(value):
    return [f"strategy.parameter_server.stale_synchronous.bound={value}"]


class WorkerLossTest(TethysTest):
    def lose(self, consistency, moment=None, restarts=1):
        """A run that loses a random worker, after so many seconds of training; its summary."""
        with Run([*CONSISTENCIES[consistency], *SHORT, f"max_restarts={restarts}"]) as run:
            run.start().wait_for_training()
            time.sleep(random.uniform(0, 3) if moment is None else moment)
            os.kill(run.process("worker", random.randrange(WORKERS)), signal.SIGKILL)
            self.assertEqual(run.finish(), 0, run.output)
            self.assertEqual(run.samples_used(), 8 * 12000)
            self.assertEqual(len(run.summary()["worker_loss"]), 1, run.output)
            return run.summary()

    def test_a_killed_worker_is_replaced_and_every_sample_is_used_once(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency):
                loss = self.lose(consistency, moment=0.5)["worker_loss"][0]
                self.assertGreater(loss["replaced_seconds"], 0)

    def test_without_restarts_the_others_go_on(self):
        for consistency in CONSISTENCIES:
            with self.subTest(consistency=consistency):
                loss = self.lose(consistency, moment=0.5, restarts=0)["worker_loss"][0]
                self.assertNotIn("replaced_seconds", loss)


def accuracies(consistency, seeds):
    found = []
    for seed in seeds:
        with Run([*CONSISTENCIES[consistency], *SHORT, f"seed={seed}"]) as run:
            found.append(run.run().summary()["test"]["accuracy"])
    return found


def soak(repetitions, words):
    test = WorkerLossTest()
    for consistency in CONSISTENCIES:
        if not set(words) <= {consistency}:
            continue
        undisturbed = accuracies(consistency, range(3))
        disturbed, waits, torn = [], [], 0
        for _ in range(repetitions):
            summary = test.lose(consistency)
            loss = summary["worker_loss"][0]
            disturbed.append(summary["test"]["accuracy"])
            waits.append(loss.get("replaced_seconds", 0))
            torn += len(loss.get("torn", []))
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
