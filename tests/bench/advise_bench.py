#!/usr/bin/env python3
"""Judges `tethys advise` by a full comparison, on three clusters of simulated machines (tests/integration/namespaces.py):
links of 20 Mbit/s with 4 machines, of 1 Gbit/s with one machine behind 200 Mbit/s, of 100 Mbit/s with 7.

    tests/bench/advise_bench.py [TETHYS]     default: build/release/deploy/tethys

For each cluster and model, `tethys advise` answers, calibration included. Then the job runs in every bulk-synchronous
shape; the shapes near the fastest run twice. Prints the answer, its time, the measured best, and the rate that the
answer loses. Needs root; the machine should do nothing else.
"""
import os
import re
import sys
import time

from shaped_runs import ShapedRuns, all_shapes, why_not

# Each entry has a cluster, in the form of a place of shaped_runs.py (rate of the links, number of machines, model,
# global batches), and the rates of the slower links, by machine.
CLUSTERS = [(("20mbit", 4, "mlp", (384,)), {}), (("1gbit", 6, "lenet", (384,)), {"slave3": "200mbit"}),
            (("100mbit", 7, "lenet", (1792,)), {})]
SAME = 0.03


def shape_of(job):
    """The shape in a job file that advise wrote: (strategy, workers, servers)."""
    def number(field):
        found = re.search(rf"\b{field}: *(\d+)", job)
        return int(found.group(1)) if found else 0
    if "parameter_server" in job:
        return "ps_sync", number("workers"), number("servers")
    return ("mirrored" if number("workers") > 1 else "local"), max(1, number("workers")), 0


def judge(tethys, place, other_rates):
    """Returns whether the advice is as good as the best."""
    with ShapedRuns(tethys, place, other_rates) as cluster:
        begin = time.monotonic()
        out = f"{cluster.home}/advised.textproto"
        print(cluster.command("advise", f"{cluster.home}/job.textproto", f"--out={out}"))
        seconds = time.monotonic() - begin
        with open(out, encoding="utf-8") as file:
            advised = shape_of(file.read())
        cluster.calibrate(15)  # Sets the numbers of steps of the runs.
        rates = {}
        for _, *shape, rate, _ in cluster.runs(cluster.batches[0], all_shapes(cluster.machines)):
            rates.setdefault(tuple(shape), []).append(rate)
        mean = {shape: sum(of_shape) / len(of_shape) for shape, of_shape in rates.items()}
        if advised not in mean:
            print(f"{cluster.name}: advised {advised}, which did not run, or others used the CPU meanwhile\n", flush=True)
            return False
        best = max(mean, key=mean.get)
        lost = 1 - mean[advised] / mean[best]
        print(f"{cluster.name}: advised {advised} in {seconds:.0f} s, {mean[advised]:.0f} samples/s; measured best {best}, "
              f"{mean[best]:.0f}; lost {100 * lost:.1f} %, of {len(mean)} shapes\n", flush=True)
        return lost <= SAME


def main():
    tethys = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/deploy/tethys")
    if missing := why_not():
        sys.exit(missing)
    good = [judge(tethys, place, other_rates) for place, other_rates in CLUSTERS]
    print(f"as good as the best, within {100 * SAME:.0f} %: {sum(good)} of {len(good)}")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
