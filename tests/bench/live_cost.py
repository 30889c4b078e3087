#!/usr/bin/env python3
"""Measures what the live view costs a run in throughput, on this machine:

  tests/bench/live_cost.py build/release/deploy/tethys [--pairs=10] [--seconds=10]

Makes pairs of runs of a mirrored job with two workers: one with --dashboard and a client that polls /state.json once a
second, as an open page does, and one without. Which of a pair comes first alternates. Prints the samples a second of
each run, the ratio with / without of each pair, and the geometric mean of the ratios with a 95 % interval by Student's
distribution. The limit to hold it against: the mean ratio is above 0.995. Nothing else should run meanwhile; the share
of the CPU that other programs used (others_cpu of summary.json) is printed for both runs of a pair."""
import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

import synthetic_job

SAMPLES = 20000
# 97.5 % quantiles of Student's distribution, by degrees of freedom.
STUDENT = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201, 12: 2.179, 14: 2.145,
           16: 2.120, 19: 2.093, 24: 2.064, 29: 2.045, 39: 2.023}


def student(degrees):
    """Of the largest listed number of degrees that is not above this one, so the interval is never too narrow."""
    return STUDENT[max(known for known in STUDENT if known <= degrees)]


def poll(address, ended, answers):
    """Asks for the state once a second until `ended`."""
    base, token = re.fullmatch(r"(http://[\d.:]+)/\?token=(\w+)", address).groups()
    request = urllib.request.Request(base + "/state.json", headers={"Authorization": f"Bearer {token}"})
    while not ended.wait(1):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                answers.append(len(answer.read()))
        except (urllib.error.URLError, ConnectionError):
            return  # The run has ended, and the view with it.


def run(tethys, job, directory, dashboard):
    """Trains once. Returns the samples a second, other programs' share of the CPU, and the sizes of the polled answers."""
    command = synthetic_job.train_command(tethys, job, directory, *(["--dashboard"] if dashboard else []))
    ended, answers, poller, output = threading.Event(), [], None, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            output.append(line)
            if line.startswith("live view: "):
                poller = threading.Thread(target=poll, args=(line.split(": ", 1)[1].strip(), ended, answers))
                poller.start()
    ended.set()
    if poller:
        poller.join()
    if process.returncode != 0 or (dashboard and not poller):
        sys.exit("".join(output) + f"{' '.join(command)} failed, or served no view")
    summary = synthetic_job.summary(directory)
    return summary["timing"]["samples_per_second"], summary.get("others_cpu", math.nan), answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tethys")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10, help="about how long a run trains")
    arguments = parser.parse_args()
    if arguments.pairs < 5 or arguments.seconds < 3:
        parser.error("--pairs must be at least 5, for an interval, and --seconds at least 3, for some polls")
    with tempfile.TemporaryDirectory(prefix="tethys-live-cost-") as folder:
        def made(epochs, name, dashboard):
            job = os.path.join(folder, "job.textproto")
            synthetic_job.write_job(job, SAMPLES, f"global_batch_size: 256 epochs: {epochs} workers: 2 "
                                    "strategy { mirrored {} }")
            return run(arguments.tethys, job, os.path.join(folder, name), dashboard)
        rate, _, _ = made(20, "first", False)
        epochs = max(1, round(arguments.seconds * rate / SAMPLES))
        print(f"{epochs} epochs a run\npair      with   without   ratio  others' CPU, %  polls")
        ratios = []
        for pair in range(arguments.pairs):
            results = {}
            for dashboard in (True, False) if pair % 2 == 0 else (False, True):
                results[dashboard] = made(epochs, f"{pair}-{dashboard}", dashboard)
            (seen, seen_others, answers), (alone, alone_others, _) = results[True], results[False]
            if not answers:
                sys.exit("the view was never polled: choose more --seconds")
            ratios.append(math.log(seen / alone))
            print(f"{pair + 1:4} {seen:9.0f} {alone:9.0f} {seen / alone:7.4f}  {100 * seen_others:4.1f} and {100 * alone_others:4.1f}"
                  f"   {len(answers)} of {round(statistics.mean(answers))} bytes", flush=True)
    mean = statistics.mean(ratios)
    half = student(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    print(f"with / without: {math.exp(mean):.4f}, 95 % interval {math.exp(mean - half):.4f} to {math.exp(mean + half):.4f}")


if __name__ == "__main__":
    main()
