#!/usr/bin/env python3
"""Compares whole local training jobs, start-up included, with PyTorch's: seconds from the command to the test accuracy.

    local_training.py [TETHYS] [ROUNDS]     default: build/release/deploy/tethys, 9 rounds

Both train 784-128-10 of examples/fashion_mnist_local.textproto on Fashion-MNIST: the same samples (54,000 to train, 6,000
to validate after each epoch, 10,000 to test), standardised, batches of 128, five epochs of SGD with momentum 0.9 at a rate
that falls linearly from 0.05 to 0, one thread. PyTorch runs this file again as a process of its own, in two ways: with a
DataLoader over a TensorDataset, as its tutorials do, and by index on tensors in memory, which is its fastest. The three
take turns, and the order changes from round to round. A run of each is left out before the first round, so that files lie
in the page cache and Tethys's own cache holds what it unpacked. Needs torch of PyPI.

Limit: Tethys's seconds / PyTorch's with its DataLoader <= 0.2, the median of the rounds' ratios.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

DATA = "/usr/share/datasets/fashion-mnist"
TRAINED, BATCH, EPOCHS, RATE, MOMENTUM = 54000, 128, 5, 0.05, 0.9
LIMIT = 0.2


def read_idx(name, header):
    import gzip
    import torch
    with gzip.open(f"{DATA}/{name}") as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def torch_run(way):
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    torch.manual_seed(1)
    pixels = read_idx("train-images-idx3-ubyte.gz", 16).view(-1, 784).float().div(255)
    labels = read_idx("train-labels-idx1-ubyte.gz", 8).long()
    mean, deviation = pixels[:TRAINED].mean(), pixels[:TRAINED].std()
    pixels = (pixels - mean) / deviation
    train, validation = (pixels[:TRAINED], labels[:TRAINED]), (pixels[TRAINED:], labels[TRAINED:])
    test = ((read_idx("t10k-images-idx3-ubyte.gz", 16).view(-1, 784).float().div(255) - mean) / deviation,
            read_idx("t10k-labels-idx1-ubyte.gz", 8).long())
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    steps = EPOCHS * ((TRAINED + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=1e-9, total_iters=steps)
    loader = DataLoader(TensorDataset(*train), batch_size=BATCH, shuffle=True)

    def batches():
        if way == "loader":
            yield from loader
        else:
            order = torch.randperm(TRAINED)
            for begin in range(0, TRAINED, BATCH):
                index = order[begin:begin + BATCH]
                yield train[0][index], train[1][index]

    def accuracy(samples):
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item()
                        for x, y in zip(samples[0].split(1024), samples[1].split(1024)))
        return right / len(samples[1])

    for _ in range(EPOCHS):
        for images, classes in batches():
            optimizer.zero_grad()
            loss_of(model(images), classes).backward()
            optimizer.step()
            schedule.step()
        accuracy(validation)
    print(f"{accuracy(test):.4f}")


def timed(command):
    begin = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}")
    return seconds, done.stdout


def main(tethys, rounds):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    job = f"{root}/examples/fashion_mnist_local.textproto"
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "Tethys": lambda i: timed([tethys, "train", job, "--plain", f"--run_dir={folder}/{i}",
                                       "--set=device.threads_per_rank=1"]),
            "DataLoader": lambda i: timed([sys.executable, __file__, "--torch=loader"]),
            "tensors": lambda i: timed([sys.executable, __file__, "--torch=tensors"]),
        }
        names = list(runs)
        for name in names:
            print(f"{name}: {runs[name]('warm')[1].strip().splitlines()[-1]}", flush=True)
        seconds = {name: [] for name in names}
        for i in range(rounds):
            for name in names[i % 3:] + names[:i % 3]:
                seconds[name].append(runs[name](i)[0])
            print("  ".join(f"{name} {seconds[name][-1]:.2f} s" for name in names), flush=True)
    ratios = {}
    for name in names[1:]:
        each = sorted(a / b for a, b in zip(seconds["Tethys"], seconds[name]))
        ratios[name] = statistics.median(each)
        print(f"Tethys / PyTorch, {name}: {ratios[name]:.3f} ({each[0]:.3f} to {each[-1]:.3f}), medians "
              f"{statistics.median(seconds['Tethys']):.2f} and {statistics.median(seconds[name]):.2f} s")
    holds = ratios["DataLoader"] <= LIMIT
    print(f"limit {LIMIT}: {'holds' if holds else 'MISSED'}")
    return 0 if holds else 1


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("--torch="):
        torch_run(sys.argv[1].split("=")[1])
    else:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "build/release/deploy/tethys",
                      int(sys.argv[2]) if len(sys.argv) > 2 else 9))
