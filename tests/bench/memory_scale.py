#!/usr/bin/env python3
"""Measures whether the memory of workers depends on the size of the data.

Trains a small network on noise (data.synthetic) of 10^5 and of 10^8 samples, by two mirrored workers, and prints each
worker's peak of resident memory (the kernel's VmHWM) and the difference. Both runs make the same steps on samples of
the same size, which the full shuffle spreads over the whole epoch. Limit: 8 MiB more; exit status 1 beyond that.

  tests/bench/memory_scale.py TETHYS [--few=100000] [--many=100000000] [--steps=2000]
"""
import argparse
import glob
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT_MIB = 8
JOB = """
model {{ layer {{ flatten {{}} }} layer {{ dense {{ units: 32 activation: RELU }} }} layer {{ dense {{ units: 10 }} }} }}
data {{
  synthetic {{ noise {{ shape: [28, 28] }} train_samples: {samples} }}
  classes: 10
}}
optimizer {{ sgd {{}} learning_rate: 0.01 }}
strategy {{ mirrored {{}} }}
workers: 2
batch_size_per_worker: 32
max_steps: {steps}
tuning {{ prefetch_batches: 2 }}
"""


def processes_of(run_dir):
    """{rank: process id} of the workers of a run: their standard error is a file in its directory."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        process = pathlib.Path(path)
        try:
            if not str((process / "fd/2").readlink()).startswith(f"{run_dir}/"):
                continue
            rank = re.search(rb"\0worker\0.*--index=(\d+)", (process / "cmdline").read_bytes())
        except OSError:
            continue
        if rank:
            found[int(rank[1])] = process
    return found


def peaks(tethys, directory, samples, steps):
    """{rank: the largest peak of resident memory seen, in MiB}."""
    directory.mkdir()
    job, run_dir = directory / "job.textproto", directory / "run"
    job.write_text(JOB.format(samples=samples, steps=steps))
    found = {}
    with subprocess.Popen([tethys, "train", "--plain", str(job), f"--run_dir={run_dir}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as launcher:
        while True:
            try:
                output, _ = launcher.communicate(timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                for rank, process in processes_of(run_dir).items():
                    try:
                        peak = re.search(r"VmHWM:\s*(\d+) kB", (process / "status").read_text())
                    except OSError:
                        continue
                    if peak:
                        found[rank] = max(found.get(rank, 0), int(peak[1]) / 1024)
    if launcher.returncode != 0 or len(found) != 2:
        sys.exit(f"the run with {samples} samples failed, or ended before it was measured:\n{output}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tethys")
    parser.add_argument("--few", type=int, default=10**5)
    parser.add_argument("--many", type=int, default=10**8)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tethys-memory-") as folder:
        few, many = (peaks(options.tethys, pathlib.Path(folder) / str(samples), samples, options.steps)
                     for samples in (options.few, options.many))
    print(f"{'peak of resident memory':<24}{options.few:>14,} samples{options.many:>16,} samples{'difference':>14}")
    for rank in sorted(few):
        print(f"{f'worker {rank}':<24}{few[rank]:>18.1f} MiB{many[rank]:>20.1f} MiB{many[rank] - few[rank]:>10.1f} MiB")
    most = max(many[rank] - few[rank] for rank in few)
    if most > LIMIT_MIB:
        sys.exit(f"{most:.1f} MiB more, and at most {LIMIT_MIB} are allowed")


if __name__ == "__main__":
    main()
