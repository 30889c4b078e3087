#!/usr/bin/env python3
"""Compares data-parallel training with the same work without any exchange.

Measures samples per second of 784-128-10 on Fashion-MNIST, 128 samples a worker, in interleaved rounds:
  mirrored     two mirrored workers
  independent  two local runs at once, their rates added: the machine's rate without any exchange
  ddp          two ranks of PyTorch's DistributedDataParallel over Gloo, if --ddp_python names a Python with torch
Limit: mirrored at least 0.9 of independent; exit status 1 if mirrored is slower.

  tests/bench/data_parallel_bench.py TETHYS [--rounds=7] [--epochs=6] [--ddp_python=PYTHON]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

LIMIT = 0.9
ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = ROOT / "examples/fashion_mnist_local.textproto"
DDP = ROOT / "tests/bench/peers/ddp_bench.py"


def start(tethys, run_dir, *settings):
    command = [tethys, "train", str(JOB), f"--run_dir={run_dir}", "--set=evaluate_each_epoch=false"]
    return subprocess.Popen(command + [f"--set={setting}" for setting in settings], stdout=subprocess.DEVNULL)


def finish(process, run_dir):
    """Samples per second of training, over all workers."""
    if process.wait() != 0:
        sys.exit(f"{' '.join(process.args)} failed; see {run_dir}")
    summary = json.loads((run_dir / "summary.json").read_text())
    return int(summary["samples_recorded"]) / summary["timing"]["training_seconds"]


def mirrored(options, directory):
    run_dir = directory / "mirrored"
    return finish(start(options.tethys, run_dir, "strategy=mirrored", "workers=2", f"epochs={2 * options.epochs}"), run_dir)


def independent(options, directory):
    run_dirs = [directory / "first", directory / "second"]
    processes = [start(options.tethys, run_dir, f"epochs={options.epochs}") for run_dir in run_dirs]
    return sum(finish(process, run_dir) for process, run_dir in zip(processes, run_dirs))


def ddp(options, _):
    command = [options.ddp_python, str(DDP), f"--epochs={options.epochs}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tethys")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--ddp_python")
    options = parser.parse_args()
    contestants = [mirrored, independent] + ([ddp] if options.ddp_python else [])
    rates = {contestant.__name__: [] for contestant in contestants}
    for _ in range(options.rounds):
        for contestant in contestants:
            with tempfile.TemporaryDirectory() as directory:
                rates[contestant.__name__].append(contestant(options, pathlib.Path(directory)))

    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"samples/s, median [least greatest] of {options.rounds} rounds")
    for name, values in rates.items():
        share = medians["mirrored"] / medians[name]
        print(f"{name:12} {medians[name]:10,.0f} [{min(values):10,.0f} {max(values):10,.0f}]   mirrored is {share:.2f} of it")
    sys.exit(0 if medians["mirrored"] >= LIMIT * medians["independent"] else 1)


if __name__ == "__main__":
    main()
