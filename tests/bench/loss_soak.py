#!/usr/bin/env python3
"""Trains one job that loses a worker, a server and the chief in turn, every 15 s, and watches its launcher.

Prints the launcher's resident memory, descriptors and threads at the beginning, a tenth of the time later and at the end.
Exit status 1 if the job ended, if a sample was not used exactly once, if descriptors or threads grew, or if memory grew by
more than 1 % (and 256 KiB) after the first tenth.

  tests/bench/loss_soak.py TETHYS [--minutes=60] [--every=15] [--consistency=bulk_synchronous] [--replicas=1]
"""
import argparse
import itertools
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import tethys_run  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.

VICTIMS = [("worker", 1), ("ps", 0), ("chief", 0), ("worker", 2), ("ps", 1)]


def figures(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = file.read()
    return {"KiB": int(re.search(r"VmRSS:\s+(\d+)", status)[1]), "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def trains(run):
    attempt = run.read("journal").rpartition("\nattempt ")[2]
    return attempt.count("\nused ") > 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=15)
    parser.add_argument("--consistency", default="bulk_synchronous")
    parser.add_argument("--replicas", type=int, default=1)
    flags = parser.parse_args()
    job = [*tethys_run.STRATEGIES["ps_sync"], f"strategy.parameter_server.consistency={flags.consistency}",
           f"strategy.parameter_server.replicas={flags.replicas}",
           # Few epochs, since the launcher keeps some hundred bytes of each for TensorBoard.
           "data.limit_samples=12000",
           "epochs=1000000", "checkpoint.every_steps=200", "checkpoint.min_seconds=0", "max_restarts=1000000"]
    with tethys_run.Run(job) as run:
        run.start().wait_for_training()
        end = time.monotonic() + 60 * flags.minutes
        first_tenth = time.monotonic() + 6 * flags.minutes
        seen = [figures(run.launcher.pid)]
        kills, last = 0, ""
        for role, index in itertools.cycle(VICTIMS):
            time.sleep(flags.every)
            run.wait_for(lambda: trains(run), "step after a loss")
            # After the loss of the chief, all processes are new, so that the figures can be compared.
            now = time.monotonic()
            if last == "chief" and (now > end or len(seen) == 1 and now > first_tenth):
                seen.append(figures(run.launcher.pid))
            if last == "chief" and now > end:
                break
            os.kill(run.process(role, index), signal.SIGKILL)
            kills, last = kills + 1, role
        run.launcher.send_signal(signal.SIGINT)
        run.finish()
        run.run(resume=True, overrides=[f"epochs={run.saved_epoch() + 1}"])
        print(f"{flags.consistency}: {kills} losses in {flags.minutes:g} minutes, {len(run.summary()['attempt'])} attempts, "
              f"{run.samples_used()} samples, each used once")
    for values in seen:
        print("launcher:", ", ".join(f"{value} {name}" for name, value in values.items()))
    early, late = seen[-2], seen[-1]
    grew = late["KiB"] > early["KiB"] * 1.01 + 256
    return int(grew or late["threads"] > early["threads"] or late["descriptors"] > early["descriptors"])


if __name__ == "__main__":
    sys.exit(main())
