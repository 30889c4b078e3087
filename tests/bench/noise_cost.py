#!/usr/bin/env python3
"""Measures what the measurement of the gradient noise costs a training step, on this machine:

  tests/bench/noise_cost.py build/release/deploy/tethys [--epochs=100] [--servers]

Trains 784-128-10 with two workers and a global batch of 256, mirrored or, with --servers, with one
bulk-synchronous server. Every sixteenth step measures the noise. Its time is compared with the mean of the
steps eight before and eight after it, so measured and other steps interleave in one run. Prints the mean
difference per measured step, without the least and the greatest tenth of the differences, with a 95 %
interval. Also prints a sixteenth of this difference as a share of the mean step. Limit: a share of 0.5 %.
Nothing else should run meanwhile."""
import argparse
import collections
import csv
import math
import os
import statistics
import sys
import tempfile

import synthetic_job

INTERVAL = 16  # kNoiseSteps of runtime/strategy.h.
TRIMMED = 0.1


def differences(path):
    """Nanoseconds by which each measured step took longer than its neighbours, and the mean step."""
    ranks = collections.defaultdict(dict)
    with open(path, encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            ranks[line["rank"]][int(line["step"])] = (int(line["total_ns"]), line["epoch"])
    found, totals = [], []
    for steps in ranks.values():
        totals += [total for total, _ in steps.values()]
        for step, (total, epoch) in steps.items():
            sides = [steps.get(step + away) for away in (-INTERVAL // 2, INTERVAL // 2)]
            if step % INTERVAL == 0 and all(side and side[1] == epoch for side in sides):
                found.append(total - statistics.mean(side[0] for side in sides))
    return found, statistics.mean(totals)


def trimmed_mean(values):
    """The mean without both tails, and half of its 95 % interval (Yuen 1974; normal quantile)."""
    ordered = sorted(values)
    cut = int(TRIMMED * len(ordered))
    kept = ordered[cut:len(ordered) - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = statistics.stdev(winsorised) / ((1 - 2 * TRIMMED) * math.sqrt(len(ordered)))
    return statistics.mean(kept), 1.96 * error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tethys")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--servers", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tethys-noise-cost-") as folder:
        job, run = os.path.join(folder, "job.textproto"), os.path.join(folder, "run")
        strategy = "parameter_server { servers: 1 }" if arguments.servers else "mirrored {}"
        synthetic_job.write_job(job, 20000, f"global_batch_size: 256 epochs: {arguments.epochs} workers: 2 "
                                f"strategy {{ {strategy} }}")
        synthetic_job.train(arguments.tethys, job, run)
        found, step = differences(os.path.join(run, "steps.csv"))
    if len(found) < 20:
        sys.exit(f"only {len(found)} steps measured the noise: choose more --epochs")
    mean, half = trimmed_mean(found)
    print(f"{len(found)} measured steps took {mean / 1e3:.1f} ± {half / 1e3:.1f} us longer than their neighbours; the mean "
          f"step took {step / 1e3:.1f} us")
    share = 100 / INTERVAL / step
    print(f"cost: {share * mean:.3f} ± {share * half:.3f} % of a step")


if __name__ == "__main__":
    main()
