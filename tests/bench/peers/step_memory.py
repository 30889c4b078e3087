#!/usr/bin/env python3
"""Compares the memory of a process that makes training steps of a network, in Tethys and in PyTorch.

    step_memory.py build/release/tests/bench/step_bench [NETWORK...]

The networks, images and batches are those of torch_step.py. Prints MB (10^6 bytes) of resident memory at its highest
after two steps: of Tethys all of it, of PyTorch what it added to that of the interpreter with its libraries, in the
memory layout that adds less.

Limit: Tethys takes at most as much as PyTorch, and with recompute at most 0.6 of it. vgg16 cannot keep the
limit with recompute: its parameters, gradients and momentum, which recompute does not reduce, are 1660 MB,
0.79 of the memory that PyTorch 2.15 takes.
"""
import os
import subprocess
import sys

NETWORKS = ["resnet50", "vgg16", "mobilenet", "resnet20", "vgg_small"]


def resident_bytes(process, field="VmHWM"):
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def ours(step_bench, network):
    with subprocess.Popen([step_bench, network], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("2\n")
        process.stdin.flush()
        process.stdout.readline()
        return resident_bytes(process.pid)


def theirs(network, layout):
    """The bytes that PyTorch adds in a memory layout. They are measured in a new process, because memory that
    one layout has used would count for the other."""
    code = "import sys, step_memory; step_memory.print_growth(*sys.argv[1:])"
    process = subprocess.run([sys.executable, "-c", code, network, layout], check=True, stdout=subprocess.PIPE,
                             text=True, cwd=os.path.dirname(os.path.abspath(__file__)))
    return int(process.stdout)


def print_growth(network, layout):
    import torch
    import torch_step

    torch.set_num_threads(1)
    before = resident_bytes("self", "VmRSS")
    torch_step.Peer(torch_step.NETWORKS[network], getattr(torch, layout)).microseconds(2)
    print(resident_bytes("self") - before)


def main():
    print(f"{'MB':<10} {'PyTorch':>8} {'Tethys':>8} {'ratio':>6} {'recompute':>10} {'ratio':>6}")
    for network in sys.argv[2:] or NETWORKS:
        kept, again = (ours(sys.argv[1], network + suffix) for suffix in ("", "+recompute"))
        peer = min(theirs(network, layout) for layout in ("contiguous_format", "channels_last"))
        print(f"{network:<10} {peer / 1e6:>8.0f} {kept / 1e6:>8.0f} {kept / peer:>6.2f} {again / 1e6:>10.0f} "
              f"{again / peer:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
