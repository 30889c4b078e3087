#!/usr/bin/env python3
"""Measures what the Python package costs a run: `tethys.train` and `tethys train` on the same job, alternating.

    python_overhead.py TETHYS [ROUNDS] [JOB]

Prints the median time of both and the median of the rounds' ratios, which is to be at most 1.02. Python listens to the
events of the run. The import of the package, which a program does once, is not part of a run. Needs numpy.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{SOURCE}/python")


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main(program, rounds=20, job=f"{SOURCE}/examples/fashion_mnist_local.textproto"):
    os.environ["TETHYS_PROGRAM"] = os.path.abspath(program)
    import tethys  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory(prefix="tethys-bench-") as folder:
        def by_command(number):
            return seconds_of(lambda: subprocess.run(
                [os.environ["TETHYS_PROGRAM"], "train", job, f"--run_dir={folder}/command-{number}"], check=True,
                stdout=subprocess.DEVNULL))

        def by_python(number):
            return seconds_of(lambda: tethys.train(job, run_dir=f"{folder}/python-{number}", quiet=True,
                                                   on_event=lambda event: None))

        by_command("first"), by_python("first")  # Fill the caches.
        command, python = [], []
        for number in range(int(rounds)):
            for way, times in [(by_command, command), (by_python, python)][::1 if number % 2 else -1]:
                times.append(way(number))
    ratios = [mine / other for mine, other in zip(python, command)]
    print(f"command {statistics.median(command):.3f} s, Python {statistics.median(python):.3f} s, least "
          f"{min(command):.3f} and {min(python):.3f} s; ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
