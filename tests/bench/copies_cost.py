#!/usr/bin/env python3
"""Measures what copies of servers' shards (replicas: 2) cost an undisturbed job.

Trains three workers with three servers, alternately with and without copies, and prints the median time of a step of each,
the ratio, and the range of the ratios of the rounds. Without --rate all processes share this machine, and the job is an MLP
of 784-128-10 on Fashion-MNIST. With --rate each process has a machine of its own (tests/integration/namespaces.py, needs
root) with a link of this rate, and the hidden layer has 1,024 units.

  tests/bench/copies_cost.py TETHYS [--rounds=7] [--consistency=bulk_synchronous] [--rate=200mbit]
"""
import argparse
import csv
import os
import shutil
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import lock_step_loss_test  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.
import namespaces  # pylint: disable=wrong-import-position
import shaped_runs  # pylint: disable=wrong-import-position
import tethys_run  # pylint: disable=wrong-import-position

SERVERS = 3
HOSTS = {"slave0": "role=chief", **{f"slave{i}": "role=worker" for i in (1, 2, 3)},
         **{f"slave{i}": "role=ps" for i in (4, 5, 6)}}


def median_step(steps):
    return statistics.median(int(row["total_ns"]) for row in csv.DictReader(steps)) / 1e9


def fields(replicas, consistency):
    return [f"strategy.parameter_server.replicas={replicas}", f"strategy.parameter_server.consistency={consistency}",
            f"strategy.parameter_server.servers={SERVERS}", "optimizer.sgd.momentum=0.5", "max_restarts=1"]


def on_this_machine(replicas, consistency):
    with lock_step_loss_test.lock_step(lock_step_loss_test.SERVERS, 3, *fields(replicas, consistency), epochs=6,
                                       job=tethys_run.JOB) as run:
        run.run()
        return median_step(run.read("steps.csv").splitlines())


class OnLinks:
    """Machines with a link each; called like on_this_machine."""

    def __init__(self, rate):
        self.cluster = namespaces.Cluster(["master", *HOSTS], rate=rate)
        self.home = self.cluster["master"].home
        job = shaped_runs.JOB.format(name="wide", layers=shaped_runs.LAYERS["wide"], batch=192)
        for name, text in (("job.textproto", job), ("hosts", "".join(f"{name} {words}\n" for name, words in HOSTS.items()))):
            with open(f"{self.home}/{name}", "w", encoding="utf-8") as file:
                file.write(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def __call__(self, replicas, consistency):
        shutil.rmtree(f"{self.home}/run", ignore_errors=True)
        status, output = self.cluster.run("master", [
            tethys_run.TETHYS, "train", f"{self.home}/job.textproto", "--plain", f"--run_dir={self.home}/run",
            f"--hostfile={self.home}/hosts", f"--ssh_config={self.cluster.ssh_config}", "--set=workers=3",
            "--set=strategy=parameter_server", "--set=max_steps=60",
            *(f"--set={field}" for field in fields(replicas, consistency))])
        if status != 0:
            raise RuntimeError(output)
        with open(f"{self.home}/run/steps.csv", encoding="utf-8") as file:
            return median_step(file)


def measure(step_seconds, flags):
    pairs = [(step_seconds(1, flags.consistency), step_seconds(2, flags.consistency)) for _ in range(flags.rounds)]
    ratios = [with_copies / without for without, with_copies in pairs]
    without, with_copies = (statistics.median(values) for values in zip(*pairs))
    print(f"{flags.consistency}{', ' + flags.rate if flags.rate else ''}: a step takes {without * 1e3:.2f} ms, "
          f"with copies {with_copies * 1e3:.2f} ms: "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {flags.rounds} rounds)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--consistency", default="bulk_synchronous")
    parser.add_argument("--rate", help="the rate of each machine's link, as for tc: 200mbit")
    flags = parser.parse_args()
    if flags.rate is None:
        measure(on_this_machine, flags)
        return
    if (reason := namespaces.why_not()) is not None:
        sys.exit(f"copies_cost.py --rate {reason}")
    with OnLinks(flags.rate) as on_links:
        measure(on_links, flags)


if __name__ == "__main__":
    main()
