#!/usr/bin/env python3
"""Measures what copies of servers' shards (replicas: 2) cost an undisturbed job, on one machine without a network.

Trains three workers with three servers on Fashion-MNIST, alternately with and without copies, and prints the median time of
a step of each, the ratio, and the range of the ratios of the rounds.

  tests/bench/copies_cost.py TETHYS [--rounds=7] [--consistency=bulk_synchronous]
"""
import argparse
import csv
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import lock_step_loss_test  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.
import tethys_run  # pylint: disable=wrong-import-position


def step_seconds(replicas, consistency):
    with lock_step_loss_test.lock_step(lock_step_loss_test.SERVERS, 3, f"strategy.parameter_server.replicas={replicas}",
                                       f"strategy.parameter_server.consistency={consistency}",
                                       "optimizer.sgd.momentum=0.5",
                                       "strategy.parameter_server.servers=3", "max_restarts=1", epochs=6,
                                       job=tethys_run.JOB) as run:
        run.run()
        return statistics.median(int(row["total_ns"]) for row in csv.DictReader(run.read("steps.csv").splitlines())) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--consistency", default="bulk_synchronous")
    flags = parser.parse_args()
    pairs = [(step_seconds(1, flags.consistency), step_seconds(2, flags.consistency)) for _ in range(flags.rounds)]
    ratios = [with_copies / without for without, with_copies in pairs]
    without, with_copies = (statistics.median(values) for values in zip(*pairs))
    print(f"{flags.consistency}: a step takes {without * 1e3:.2f} ms, with copies {with_copies * 1e3:.2f} ms: "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {flags.rounds} rounds)")


if __name__ == "__main__":
    main()
