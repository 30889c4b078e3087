#!/usr/bin/env python3
"""Measures what the live view costs a run in throughput, on this machine:

  tests/bench/live_cost.py build/release/deploy/tethys [--pairs=40] [--seconds=4]

Trains a mirrored job with two workers under --dashboard. A run is divided into pairs of neighbouring windows.
In one window of each pair a client polls /state.json?since=MARK once a second, as an open page does; in the
other window the client rests. Chance decides which window comes first. The samples of a window are the
samples of the steps that began in it, by the times in steps.csv. Windows of one run differ far less than runs
do. While the client rests, the view is a thread that waits for a connection; the cost of this thread is not
measured. The CPU time of a browser that draws the page on this machine is not measured either.

Prints the ratio polled / resting of each pair, the geometric mean of the ratios with a 95 % interval by
Student's distribution, and the CPU time that a poll takes in the view and in the client. The ratio includes
both CPU times. Limit: the mean ratio is above 0.995. Nothing else should run meanwhile; the share of the CPU
that other programs used (others_cpu of summary.json) is printed."""
import argparse
import csv
import math
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import synthetic_job

# An epoch takes about a second, so the live state's curves get as many points as the curves of a long run.
SAMPLES = 400000
# 97.5 % quantiles of Student's distribution, by degrees of freedom.
STUDENT = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201, 12: 2.179, 14: 2.145,
           16: 2.120, 19: 2.093, 24: 2.064, 29: 2.045, 39: 2.023, 59: 2.001, 99: 1.984}


def student(degrees):
    """The quantile for the largest listed number of degrees of freedom up to `degrees`: an interval of this
    quantile is never too narrow."""
    return STUDENT[max(known for known in STUDENT if known <= degrees)]


class Page:
    """A client that requests the state once a second, each time only what has changed since the last answer.
    It uses a plain socket, because Python's HTTP clients take more CPU time than the view does."""

    def __init__(self, address):
        self.host, port, self.token = re.fullmatch(r"http://([\d.]+):(\d+)/\?token=(\w+)", address).groups()
        self.port = int(port)
        self.mark = ""
        self.answers = []  # Number of bytes of each answer.
        self.cpu = 0  # CPU time of the polls in this process, in seconds.

    def poll(self, begin, end):
        """Polls from `begin` to `end`, two times of time.monotonic."""
        while begin < end:
            time.sleep(max(0, begin - time.monotonic()))
            before = time.thread_time()
            answer = self.ask()
            self.cpu += time.thread_time() - before
            self.answers.append(len(answer))
            begin += 1

    def ask(self):
        with socket.create_connection((self.host, self.port), timeout=10) as connection:
            connection.sendall(f"GET /state.json?since={self.mark} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
                               f"Authorization: Bearer {self.token}\r\n\r\n".encode())
            with connection.makefile("rb") as file:
                head, _, body = file.read().partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            sys.exit(f"the view refuses a poll: {head.decode()}\n{body.decode()}")
        self.mark = re.search(rb'"mark":"([\d.]+)"', body).group(1).decode()
        return body


def view_cpu(launcher):
    """CPU time, in seconds, of the process that serves the view for this launcher."""
    for pid in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="utf-8").split():
        process = pathlib.Path("/proc", pid)
        if b"\0watch\0" in process.joinpath("cmdline").read_bytes():
            return int(process.joinpath("schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    sys.exit("no process serves the view")


def watched_run(command, pairs, seconds):
    """Trains once and polls in half of the windows. Returns pairs of windows (begin of the polled one, begin of the
    resting one, in seconds of the monotonic clock), the page, and the seconds of CPU that its polls took in the view. The
    run is interrupted after them."""
    windows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        address, output = None, []
        for line in process.stdout:
            output.append(line)
            if line.startswith("live view: "):
                address = line.split(": ", 1)[1].strip()
            if line.startswith("epoch "):
                break
        if not address:
            sys.exit("".join(output) + f"{' '.join(command)} served no view")
        drain = threading.Thread(target=lambda: output.extend(process.stdout))
        drain.start()
        page = Page(address)
        page.ask()  # The first answer is the whole state.
        cpu = view_cpu(process.pid)
        begin = time.monotonic() + 1
        for _ in range(pairs):
            polled, resting = random.sample((begin, begin + seconds), 2)
            page.poll(polled, polled + seconds)
            windows.append((polled, resting))
            begin += 2 * seconds
            time.sleep(max(0, begin - time.monotonic()))
        if process.poll() is not None:
            sys.exit("".join(output) + f"{' '.join(command)} ended before it was measured")
        cpu = view_cpu(process.pid) - cpu
        process.terminate()
        drain.join()
    return windows, page, cpu


def samples_by_window(directory, begins, seconds):
    """The samples of the steps that began in each window."""
    counts = dict.fromkeys(begins, 0)
    ordered = sorted(begins)
    with open(os.path.join(directory, "steps.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            moment = int(row["begin_ns"]) / 1e9
            index = int((moment - ordered[0]) // seconds)
            if 0 <= index < len(ordered):
                counts[ordered[index]] += int(row["samples"])
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tethys")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=4, help="length of a window")
    arguments = parser.parse_args()
    if arguments.pairs < 5 or arguments.seconds < 2:
        parser.error("--pairs must be at least 5, for an interval, and --seconds at least 2, for some polls")
    with tempfile.TemporaryDirectory(prefix="tethys-live-cost-") as folder:
        job, directory = os.path.join(folder, "job.textproto"), os.path.join(folder, "run")
        synthetic_job.write_job(job, SAMPLES, "global_batch_size: 256 epochs: 1000000 workers: 2 strategy { mirrored {} }")
        command = synthetic_job.train_command(arguments.tethys, job, directory, "--dashboard")
        windows, page, cpu = watched_run(command, arguments.pairs, arguments.seconds)
        counts = samples_by_window(directory, [begin for pair in windows for begin in pair], arguments.seconds)
        others = synthetic_job.summary(directory).get("others_cpu", math.nan)
    print("pair   polled  resting samples/s   ratio")
    ratios = []
    for number, (polled, resting) in enumerate(windows, 1):
        if not counts[polled] or not counts[resting]:
            sys.exit(f"no step began in a window of pair {number}: steps.csv does not reach it")
        ratios.append(math.log(counts[polled] / counts[resting]))
        print(f"{number:4} {counts[polled] / arguments.seconds:8.0f} {counts[resting] / arguments.seconds:8.0f}"
              f"            {math.exp(ratios[-1]):.4f}")
    mean = statistics.mean(ratios)
    half = student(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    polls = len(page.answers)
    print(f"{polls} polls of {round(statistics.mean(page.answers))} bytes; a poll took {1e3 * cpu / polls:.2f} ms of CPU in the view "
          f"and {1e3 * page.cpu / polls:.2f} ms in the client\n"
          f"other programs used {100 * others:.1f} % of the CPU\n"
          f"polled / resting: {math.exp(mean):.4f}, 95 % interval {math.exp(mean - half):.4f} to {math.exp(mean + half):.4f}")


if __name__ == "__main__":
    main()
