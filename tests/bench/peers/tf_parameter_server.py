#!/usr/bin/env python3
"""Measures TensorFlow's ParameterServerStrategy: how stale its gradients are, and the accuracy that it reaches.

    python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu
    VENV/bin/python tf_parameter_server.py [--seeds=1,2,3] [--workers=6] [--servers=2] [FLAG...]

A Tethys job with `parameter_server { servers: 2 asynchronous {} }` is compared with it. Both have the same network
(784-128-10), split of Fashion-MNIST, standardisation, batch, initial values (He before the relu, Glorot after it) and
order of samples (one permutation per epoch; each worker takes the next batch of it), and SGD with a constant learning
rate. Tethys writes the same measurements into `summary.json` (`communication.staleness`, `train.accuracy`,
`test.accuracy`).

By default the coordinator, the workers and the servers are processes on this machine. To use other machines, start
`--role=worker --index=I --cluster=JSON` and `--role=ps ...` there, and the coordinator with the same `--cluster`
(TF_CONFIG's "cluster": {"worker": [ADDRESS...], "ps": [ADDRESS...]}) and `--role=coordinator`. All of them must see
the `--folder` with the batches.

Every server counts its updates. A step reads this count when it reads the parameters, and again just before its
gradients are applied. The difference is the staleness of the step: the number of updates by other workers in between.
Prints a line of JSON for each seed:

  staleness       mean over steps; the staleness of a step is the largest one among the servers
  staleness_server  the same with the mean over the servers in place of the largest
  histogram       number of steps by staleness, the largest one among the servers
  cycle_ms        wall time that a worker spends on a step: seconds of the run * workers / steps
  step_ms         the part of cycle_ms from the begin of the step on the worker until its update is made
  idle            share of a worker's time outside of steps, in which it waits for the coordinator
  train           accuracy over the last epoch, on each batch before its update
  test            accuracy at the end
  test_half       mean accuracy of about ten snapshots in the last half epoch
"""
import argparse
import collections
import gzip
import json
import multiprocessing
import os
import shutil
import socket
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing as slow_data

DATA = "/usr/share/datasets/fashion-mnist"
PIXELS, HIDDEN, CLASSES = 784, 128, 10
VALIDATION = 6000
SNAPSHOTS = 10  # The approximate number of snapshots in the last half epoch.


def flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--initializer", choices=["he", "glorot"], default="he", help="of the hidden layer")
    parser.add_argument("--input", choices=["standardised", "unit"], default="standardised", help="unit: pixel / 255")
    parser.add_argument("--order", choices=["shared", "own"], default="shared",
                        help="own: every batch is drawn by itself, as if each worker shuffled all samples")
    parser.add_argument("--steps_per_closure", type=int, default=1,
                        help="Keras's steps_per_execution: so many steps without the coordinator")
    parser.add_argument("--pause_ms", type=float, default=0, help="a worker sleeps before it reads parameters")
    parser.add_argument("--hold_ms", type=float, default=0, help="a worker sleeps after it has read parameters")
    parser.add_argument("--name", default="", help="repeated in the output")
    parser.add_argument("--folder", default="", help="for the batches; a temporary one by default")
    parser.add_argument("--cluster", default="", help="JSON; by default processes are started here")
    parser.add_argument("--role", choices=["coordinator", "worker", "ps"], default="coordinator")
    parser.add_argument("--index", type=int, default=0)
    return parser.parse_args()


# -------------------------------------------------------------------------------------------------- cluster

def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def serve(cluster, role, index):
    # With only one or two inter-op threads a server stalls, because transfers wait for one another.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8, intra_op_parallelism_threads=1)
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=role, task_index=index, protocol="grpc",
                         config=config, start=True).join()


def start_processes(cluster):
    """Forks all workers and servers, before TensorFlow has started threads; so none of them imports it again."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=serve, args=(cluster, role, index), daemon=True)
                 for role in cluster for index in range(len(cluster[role]))]
    for process in processes:
        process.start()
    return processes


# ----------------------------------------------------------------------------------------------------- data

def idx(name, header):
    with gzip.open(os.path.join(DATA, name)) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


class Data:
    def __init__(self, args):
        images = idx("train-images-idx3-ubyte.gz", 16).reshape(-1, PIXELS)
        labels = idx("train-labels-idx1-ubyte.gz", 8).reshape(-1, 1)
        self.train = np.concatenate([labels, images], 1)[:-VALIDATION]
        self.test_images = idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, PIXELS)
        self.test_labels = idx("t10k-labels-idx1-ubyte.gz", 8)
        pixels = self.train[:, 1:]
        standardised = args.input == "standardised"
        self.mean = float(pixels.mean()) if standardised else 0.0
        self.deviation = float(pixels.std()) if standardised else 255.0

    def write_batches(self, args, seed, folder):
        """Writes the batch of each step into a file named by the step's number. Returns the number of steps per epoch."""
        random = np.random.default_rng(seed)
        count = len(self.train)
        step = 0
        for _ in range(args.epochs):
            permutation = random.permutation(count)
            for begin in range(0, count, args.batch):
                chosen = permutation[begin:begin + args.batch]
                if args.order == "own":
                    chosen = random.choice(count, len(chosen), replace=False)
                self.train[chosen].tofile(os.path.join(folder, str(step)))
                step += 1
        return step // args.epochs

    def test_accuracy(self, parameters):
        *first, bias, last_weights, last_bias = parameters
        scaled = (self.test_images - np.float32(self.mean)) / np.float32(self.deviation)
        hidden = np.maximum(scaled @ np.concatenate(first) + bias, 0)
        return float(np.mean(np.argmax(hidden @ last_weights + last_bias, 1) == self.test_labels))


# ------------------------------------------------------------------------------------------------- training

class Model:
    """The variables, which lie on the servers, and a worker's step."""

    def __init__(self, args, strategy, data, folder):
        self.args, self.folder = args, folder
        self.mean, self.deviation = data.mean, data.deviation
        with strategy.scope():  # Variables are placed on the servers in turn; the first one is split.
            weights = tf.Variable(tf.zeros([PIXELS, HIDDEN]))
            shards = list(weights.variables) if hasattr(weights, "variables") else [weights]
            self.shards = len(shards)
            self.variables = shards + [tf.Variable(tf.zeros(shape))
                                       for shape in ([HIDDEN], [HIDDEN, CLASSES], [CLASSES])]
            self.versions = [tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(args.servers)]
        self.closure = tf.function(self.steps, input_signature=[tf.TensorSpec([], tf.int64)])

    def reset(self, seed):
        random = np.random.default_rng(seed)
        if self.args.initializer == "he":
            first = random.normal(0, np.sqrt(2 / PIXELS), (PIXELS, HIDDEN))
        else:
            first = random.uniform(-1, 1, (PIXELS, HIDDEN)) * np.sqrt(6 / (PIXELS + HIDDEN))
        last = random.uniform(-1, 1, (HIDDEN, CLASSES)) * np.sqrt(6 / (HIDDEN + CLASSES))
        values = np.array_split(first, self.shards) + [np.zeros(HIDDEN), last, np.zeros(CLASSES)]
        for variable, value in zip(self.variables, values):
            variable.assign(value.astype(np.float32))
        for version in self.versions:
            version.assign(0)

    def steps(self, first):
        rows = []
        for i in range(self.args.steps_per_closure):
            with tf.control_dependencies(rows[-1:]):
                begin = tf.timestamp()
            rows.append(self.step(first + i, begin))
        return tf.stack(rows)

    # Makes a step; returns a row of measurements (ROW).
    def step(self, number, begin):
        data = tf.io.read_file(tf.strings.join([self.folder, "/", tf.strings.as_string(number)]))
        samples = tf.reshape(tf.io.decode_raw(data, tf.uint8), [-1, 1 + PIXELS])
        labels = tf.cast(samples[:, 0], tf.int32)
        images = (tf.cast(samples[:, 1:], tf.float32) - self.mean) / self.deviation
        with tf.control_dependencies(sleep(self.args.pause_ms)):
            bases, values = self.read()
        with tf.control_dependencies(sleep(self.args.hold_ms, values)):
            values = [tf.identity(value) for value in values]
        with tf.GradientTape() as tape:
            tape.watch(values)
            *first, bias, last_weights, last_bias = values
            hidden = tf.nn.relu(images @ tf.concat(first, 0) + bias)
            outputs = hidden @ last_weights + last_bias
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        correct = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(outputs, 1, tf.int32), labels), tf.float64))
        staleness, applied = self.apply(tape.gradient(loss, values), bases)
        with tf.control_dependencies(applied):
            end = tf.timestamp()
        return tf.stack([begin, end, tf.reduce_max(staleness), tf.reduce_mean(staleness), correct,
                         tf.cast(tf.shape(labels)[0], tf.float64)])

    def on_server(self, server):
        return [i for i, variable in enumerate(self.variables) if variable.device == self.versions[server].device]

    # Reads the parameters. On each server the count of updates is read before the parameters. No server waits for
    # another server.
    def read(self):
        bases, values = [], [None] * len(self.variables)
        for server, version in enumerate(self.versions):
            with tf.device(version.device):
                bases.append(version.read_value())
                with tf.control_dependencies([bases[-1]]):
                    for i in self.on_server(server):
                        values[i] = self.variables[i].read_value()
        return bases, values

    # Applies the gradients. Each server begins when all of its gradients have arrived.
    def apply(self, gradients, bases):
        staleness, applied = [], []
        for server, version in enumerate(self.versions):
            mine = self.on_server(server)
            with tf.device(version.device):
                arrived = [tf.identity(gradients[i]) for i in mine]
                with tf.control_dependencies(arrived):
                    before = version.read_value()
                staleness.append(tf.cast(before - bases[server], tf.float64))
                with tf.control_dependencies([before]):
                    updates = [self.variables[i].assign_sub(self.args.learning_rate * gradient)
                               for i, gradient in zip(mine, arrived)]
                with tf.control_dependencies(updates):
                    applied.append(version.assign_add(1).value())
        return staleness, applied


ROW = ["begin", "end", "staleness", "staleness_server", "correct", "samples"]


def sleep(milliseconds, after=()):
    """An operation on the worker that begins when the tensors `after` are there and takes this long."""
    if milliseconds <= 0:
        return []
    with tf.control_dependencies(list(after)):
        start = tf.timestamp()  # Makes the graph create the data set in every step, and not earlier.
        slept = tf.data.Dataset.from_tensors(start).apply(slow_data.sleep(int(milliseconds * 1000))).take(1)
        return [slept.reduce(tf.constant(0.0, tf.float64), lambda _, x: x)]


def train(args, coordinator, model, data, seed, steps_per_epoch):
    """Runs all epochs, with a barrier after each; prints the line of this seed."""
    model.reset(seed)
    read = lambda: [variable.numpy() for variable in model.variables]
    rows, seconds, snapshots = [], 0.0, []
    for epoch in range(args.epochs):
        begin = time.time()
        first, last = epoch * steps_per_epoch, (epoch + 1) * steps_per_epoch
        results = [coordinator.schedule(model.closure, args=(tf.constant(step, tf.int64),))
                   for step in range(first, last - args.steps_per_closure + 1, args.steps_per_closure)]
        if epoch == args.epochs - 1:
            next_at = last - steps_per_epoch // 2
            while not coordinator.done():
                if model.versions[0].numpy() >= next_at:
                    snapshots.append(read())
                    next_at += steps_per_epoch // 2 // SNAPSHOTS
                time.sleep(0.05)
        coordinator.join()
        seconds += time.time() - begin
        rows.append(np.concatenate(coordinator.fetch(results)))
    table = np.concatenate(rows)
    column = {name: table[:, i] for i, name in enumerate(ROW)}
    busy = float((column["end"] - column["begin"]).sum())
    cycle = seconds * args.workers / len(table)
    worst = collections.Counter(int(value) for value in column["staleness"])
    tests = [data.test_accuracy(snapshot) for snapshot in snapshots]
    print(json.dumps({
        "name": args.name, "seed": seed, "test": round(data.test_accuracy(read()), 4),
        "test_half": round(float(np.mean(tests)), 4) if tests else None, "snapshots": len(tests),
        "train": round(float(rows[-1][:, -2].sum() / rows[-1][:, -1].sum()), 4),
        "staleness": round(float(column["staleness"].mean()), 3),
        "staleness_server": round(float(column["staleness_server"].mean()), 3),
        "cycle_ms": round(cycle * 1e3, 2), "step_ms": round(busy / len(table) * 1e3, 2),
        "idle": round(1 - busy / (seconds * args.workers), 3),
        "seconds": round(seconds, 2), "updates": len(table), "histogram": dict(sorted(worst.items()))}), flush=True)


def main():
    args = flags()
    cluster = json.loads(args.cluster) if args.cluster else None
    if args.role != "coordinator":
        serve(cluster, args.role, args.index)
    processes = []
    folder = args.folder or tempfile.mkdtemp(prefix="tf-batches-")
    try:
        if cluster is None:
            addresses = free_addresses(args.workers + args.servers)
            cluster = {"worker": addresses[:args.workers], "ps": addresses[args.workers:]}
            processes = start_processes(cluster)
        data = Data(args)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster),
                                                                        rpc_layer="grpc")
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=args.servers)
        strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        model = Model(args, strategy, data, folder)
        for seed in map(int, args.seeds.split(",")):
            train(args, coordinator, model, data, seed, data.write_batches(args, seed, folder))
    finally:
        for process in processes:
            process.kill()
        if not args.folder:
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # A normal exit would wait for the coordinator's threads, which wait for the servers.


if __name__ == "__main__":
    main()
