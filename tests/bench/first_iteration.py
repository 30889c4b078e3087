#!/usr/bin/env python3
"""Measures how much longer a run's first iteration takes than the mean of its others, on this machine:

  tests/bench/first_iteration.py build/release/deploy/tethys [--against=OTHER/tethys] [--rounds=5] [--workers=1,2,8]
      [--strategy=mirrored|parameter_server]

Trains two networks for 100 steps on 64 samples a worker and step: a perceptron (784-128-10) and LeNet-5. They are
trained by one worker, and by several workers that are mirrored or have one server. Each round makes every run once.
With --against, each round also makes every run by that command; which command comes first alternates.

Prints for each job the medians over the rounds of four numbers: the first iteration, the mean of the other iterations
(first_iteration_seconds and tmi_avg_seconds of summary.json), their ratio, and the set-up of the workers
(plan_seconds). Limit: a ratio below 5. The ratio stays above 1, because workers begin their first step at different
times and wait for the last worker; with fewer cores they wait longer. Nothing else should run meanwhile."""
import argparse
import os
import statistics
import tempfile

import synthetic_job

NETWORKS = {"784-128-10": synthetic_job.PERCEPTRON, "LeNet-5": synthetic_job.LENET}
STEPS = 100
ROWS = 64


def run(tethys, job, directory):
    """Trains once. Returns first iteration, mean of the others, their ratio, and set-up; times in milliseconds."""
    synthetic_job.train(tethys, job, directory)
    timing = synthetic_job.summary(directory)["timing"]
    first, others = timing["first_iteration_seconds"], timing["tmi_avg_seconds"]
    return 1e3 * first, 1e3 * others, first / others, 1e3 * timing["plan_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tethys")
    parser.add_argument("--against", help="another build's command")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", default="1,2,8", help="numbers of workers, separated by commas")
    parser.add_argument("--strategy", choices=("mirrored", "parameter_server"), default="mirrored",
                        help="that of more than one worker")
    arguments = parser.parse_args()
    commands = [arguments.tethys] + ([arguments.against] if arguments.against else [])
    cases = [(network, int(workers)) for network in NETWORKS for workers in arguments.workers.split(",")]
    results = {(case, command): [] for case in cases for command in commands}
    with tempfile.TemporaryDirectory(prefix="tethys-first-iteration-") as folder:
        job = os.path.join(folder, "job.textproto")
        for turn in range(arguments.rounds):
            for network, workers in cases:
                strategy = "local" if workers == 1 else arguments.strategy
                synthetic_job.write_job(job, STEPS * ROWS * workers,
                                        f"batch_size_per_worker: {ROWS} epochs: 1 workers: {workers} "
                                        f"strategy {{ {strategy} {{}} }} "
                                        "optimizer { sgd { momentum: 0.9 } learning_rate: 0.01 }",
                                        NETWORKS[network])
                for command in commands if turn % 2 == 0 else commands[::-1]:
                    directory = os.path.join(folder, f"{turn}-{network}-{workers}-{commands.index(command)}")
                    results[(network, workers), command].append(run(command, job, directory))
    print("network     workers  first, ms  others, ms   ratio  set-up, ms  command")
    for (network, workers), command in results:
        first, others, ratio, set_up = (statistics.median(column)
                                        for column in zip(*results[(network, workers), command]))
        print(f"{network:10}  {workers:7}  {first:9.2f}  {others:10.3f}  {ratio:6.1f}  {set_up:10.1f}  {command}")


if __name__ == "__main__":
    main()
