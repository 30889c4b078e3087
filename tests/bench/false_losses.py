#!/usr/bin/env python3
"""Counts processes that a job takes for lost although they live, on an overloaded machine.

Trains a small network on synthetic samples by 9 workers and 2 servers on this machine, with timeouts.worker_silence 1 and
timeouts.silence 2, beside a busy process for each core. Meanwhile it stops a process at random for up to 0.8 s, as a
virtual machine that waits for its turn, about every 2 s; and the chief for 1.5 s every 20 s. Exit status 1 if any process
was taken for lost.

  tests/bench/false_losses.py TETHYS [--minutes=30] [--consistency=bulk_synchronous]
  tests/bench/false_losses.py TETHYS --start=200      starts a job of so many workers, and ends it once it trains
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import tethys_run  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.

JOB = """
model { layer { flatten {} } layer { dense { units: 32 activation: RELU } } layer { dense { units: 10 } } }
data { synthetic { noise { shape: [ 16, 16, 1 ] } train_samples: 20000 } classes: 10 }
optimizer { sgd { momentum: 0.9 } learning_rate: 0.01 }
"""
SERVERS = ["strategy=parameter_server", "strategy.parameter_server.servers=2"]


def stop_for(pid, seconds):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def losses(run):
    return [line for line in run.so_far().splitlines() if "lost " in line or "silent" in line]


def disturb(run, seconds):
    """Stops processes of the run until the time is over; returns the number of stops."""
    end, chief_due, stops = time.monotonic() + seconds, time.monotonic() + 20, 0
    while time.monotonic() < end and not losses(run):
        time.sleep(random.uniform(0, 2))
        tasks = [pid for pid, line in run.processes().items() if " worker " in line or " ps " in line]
        stop_for(random.choice(tasks), random.uniform(0, 0.8))
        stops += 1
        if time.monotonic() > chief_due:
            stop_for(run.process("chief"), 1.5)
            stops, chief_due = stops + 1, time.monotonic() + 20
    return stops


def train(minutes, consistency):
    job = [*SERVERS, f"strategy.parameter_server.consistency={consistency}", "workers=9", "global_batch_size=288",
           "epochs=1000000", "max_restarts=100", "timeouts.silence=2", "timeouts.worker_silence=1"]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        with tethys_run.Run(job, job=JOB) as run:
            run.start().wait_for_training()
            stops = disturb(run, 60 * minutes)
            lost = losses(run)
            run.launcher.send_signal(signal.SIGINT)
            run.finish()
            summary = json.loads(run.read("summary.json"))
            lost += [loss["reason"] for loss in summary.get("worker_loss", [])]
            print(f"{consistency}: {minutes:g} minutes, {summary['steps']} steps, {stops} stops of processes, load "
                  f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; taken for lost: {lost or 'none'}", flush=True)
            return 1 if lost else 0
    finally:
        for process in busy:
            process.kill()
            process.wait()


def start(workers):
    job = ["strategy=mirrored", f"workers={workers}", f"global_batch_size={workers}", "epochs=1000000",
           "timeouts.start=600"]
    with tethys_run.Run(job, job=JOB) as run:
        begin = time.monotonic()
        run.start()
        try:
            run.wait_for(lambda: "started in" in run.so_far(), "training")
        except AssertionError as error:
            print(f"{workers} workers: {error}")
            return 1
        print(f"{workers} workers train after {time.monotonic() - begin:.0f} s, load {os.getloadavg()[0]:.0f} on "
              f"{os.cpu_count()} cores; taken for lost: {losses(run) or 'none'}", flush=True)
        run.launcher.kill()
        return 1 if losses(run) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--consistency", default="bulk_synchronous")
    parser.add_argument("--start", type=int, default=0)
    flags = parser.parse_args()
    tethys_run.PATIENCE = 1200
    return start(flags.start) if flags.start else train(flags.minutes, flags.consistency)


if __name__ == "__main__":
    sys.exit(main())
