#!/usr/bin/env python3
"""PyTorch's DistributedDataParallel over Gloo on the network of data_parallel_bench.py: two ranks on this machine.

Needs torch (PyPI). Prints samples per second over both ranks: 784-128-10, 128 samples a rank, momentum SGD, one thread
each, batches of random bytes that lie ready in memory, so that no data loading is measured.

  ddp_bench.py [--epochs=6]
"""
import argparse
import multiprocessing
import socket
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
BATCH = 128
STEPS_PER_EPOCH = 54000 // (WORLD * BATCH)


def run(rank, port, epochs, result):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = torch.nn.CrossEntropyLoss()
    images = torch.randint(0, 256, (64, BATCH, 784), dtype=torch.uint8)
    labels = torch.randint(0, 10, (64, BATCH))

    def step(i):
        optimizer.zero_grad()
        loss(model(images[i % 64].float().div(255)), labels[i % 64]).backward()
        optimizer.step()

    for i in range(20):
        step(i)
    torch.distributed.barrier()
    start = time.perf_counter()
    for i in range(epochs * STEPS_PER_EPOCH):
        step(i)
    torch.distributed.barrier()
    if rank == 0:
        result.put(epochs * STEPS_PER_EPOCH * WORLD * BATCH / (time.perf_counter() - start))
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    epochs = parser.parse_args().epochs
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    result = context.Queue()
    ranks = [context.Process(target=run, args=(rank, port, epochs, result)) for rank in range(WORLD)]
    for rank in ranks:
        rank.start()
    print(result.get(timeout=300))
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
