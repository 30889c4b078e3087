#!/usr/bin/env python3
"""Compares the test accuracy of jobs in lock step that lose a worker with that of undisturbed jobs.

For each exchange of gradients, trains pairs of jobs on Fashion-MNIST with the same seed: an undisturbed job of three
workers, and a job that loses one worker at a random moment and goes on with two. Prints both mean accuracies, and the mean
difference with its 95 % interval. Exit status 1 if an interval does not contain 0, or a job did not use every sample once.

  tests/bench/loss_accuracy.py TETHYS [--pairs=10] [--exchanges=TCP,servers]
"""
import argparse
import math
import os
import random
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import lock_step_loss_test  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.

# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
STUDENT = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 14: 2.145, 19: 2.093}


def accuracy(exchange, seed, disturbed):
    test = lock_step_loss_test.LockStepLossTest()
    fields, epochs = lock_step_loss_test.EXCHANGES[exchange]
    with lock_step_loss_test.lock_step((fields, epochs), 3, f"seed={seed}", epochs=epochs) as run:
        run.start().wait_for_training()
        if disturbed:
            time.sleep(random.uniform(0, 0.2))  # An undisturbed job may take half a second.
            test.kill(run, random.randrange(3))
        test.assert_ends_well(run, epochs)
        changes = len(run.summary().get("group_change", []))
        if changes != int(disturbed):
            raise AssertionError(f"{changes} groups formed after the first one")
        return run.summary()["test"]["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, choices=[degrees + 1 for degrees in STUDENT])
    parser.add_argument("--exchanges", type=lambda text: text.split(","), default=["TCP", "servers"])
    flags = parser.parse_args()
    differs = False
    for exchange in flags.exchanges:
        whole = [accuracy(exchange, seed, False) for seed in range(1, flags.pairs + 1)]
        disturbed = [accuracy(exchange, seed, True) for seed in range(1, flags.pairs + 1)]
        differences = [b - a for a, b in zip(whole, disturbed)]
        mean = statistics.mean(differences)
        half = STUDENT[flags.pairs - 1] * statistics.stdev(differences) / math.sqrt(flags.pairs)
        differs = differs or abs(mean) > half
        print(f"{exchange}: undisturbed {statistics.mean(whole):.4f}, with a lost worker {statistics.mean(disturbed):.4f}; "
              f"difference {mean:+.4f} ± {half:.4f} ({flags.pairs} pairs)", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
