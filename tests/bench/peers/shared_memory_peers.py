#!/usr/bin/env python3
"""Compares all-reduces by two ranks on one host: Tethys's in shared memory and Open MPI's.

Tethys reduces shared memory in place, as it reduces gradients; Open MPI reduces private memory.
Needs openmpi-bin and libopenmpi-dev (Debian). Builds peers/mpi_all_reduce.cc, then runs both programs in
alternate rounds. Prints microseconds per call. Limit: at most 0.8 of Open MPI's time at 400 KiB; exit status 1 if
this limit is exceeded.

  tests/bench/peers/shared_memory_peers.py build/release/tests/bench/shared_memory_bench [--rounds=7]
"""
import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SIZES = [4, 64, 400, 1024, 4096]  # KiB.
LIMIT_SIZE, LIMIT = 400, 0.8
SOURCE = pathlib.Path(__file__).with_name("mpi_all_reduce.cc")


def microseconds(command):
    arguments = [str(size) for size in SIZES]
    output = subprocess.run(command + arguments, check=True, capture_output=True, text=True).stdout
    return [float(line) for line in output.split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not (shutil.which("mpicxx") and shutil.which("mpirun")):
        sys.exit("skipped: needs Open MPI (apt-get install openmpi-bin libopenmpi-dev)")

    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/mpi_all_reduce"
        subprocess.run(["mpicxx", "-O2", "-std=c++20", "-o", program, str(SOURCE)], check=True)
        mpi = ["mpirun", "--allow-run-as-root", "-np", "2", program]
        for _ in range(options.rounds):
            ours.append(microseconds([options.ours]))
            theirs.append(microseconds(mpi))

    kept = True
    print(f"us a call, median [least greatest] of {options.rounds} rounds")
    print(f"{'KiB':>6}  {'ours':>28}  {'Open MPI':>28}  ratio")
    for size, mine, peers in zip(SIZES, zip(*ours), zip(*theirs)):
        ratio = statistics.median(mine) / statistics.median(peers)
        cells = [f"{statistics.median(x):9.1f} [{min(x):7.1f} {max(x):8.1f}]" for x in (mine, peers)]
        print(f"{size:6}  {cells[0]:>28}  {cells[1]:>28}  {ratio:5.2f}")
        kept = kept and (size != LIMIT_SIZE or ratio <= LIMIT)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
