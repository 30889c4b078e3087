#!/usr/bin/env python3
"""Compares reading, decoding, shuffling and batching of samples in Tethys with tf.data and with PyTorch's DataLoader.

    data_loading.py tensorflow build/release FOLDER [ROUNDS]     records of tf.Example with a PNG inside
    data_loading.py torch      build/release FOLDER [ROUNDS]     JPEG files in a folder per class

FOLDER contains a folder of JPEG or PNG files for each class. For tensorflow `tethys data convert` writes its
pictures as TFRecord files into a temporary folder, and both programs read these. Both programs get two
threads (DataLoader: two processes) on the same two processors, give batches of 128 in a new order each epoch,
and nothing computes beside them. The contestants take turns; a round is an epoch of each. tf.data:
interleaved files, a shuffle buffer of 10,000 records, decoding in a parallel map of two threads, batch,
prefetch, in a private pool of two threads; it does not check the records' payloads twice, as Tethys does not.
TensorFlow and PyTorch are those of PyPI.

Limits: Tethys's samples a second / tf.data's >= 1.5, / DataLoader's >= 2, the median over rounds.
"""
import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = 128
THREADS = 2


def classes_of(folder):
    return sorted(each for each in os.listdir(folder) if os.path.isdir(os.path.join(folder, each)))


class Tethys:
    def __init__(self, build, data, folder):
        job = os.path.join(folder, "data.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f"data {{ {data} loader_threads: {THREADS} }}\ntuning {{ prefetch_batches: {2 * THREADS} }}\n")
        self.process = subprocess.Popen([f"{build}/tests/bench/loader_bench", job], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def epoch(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        # loader_bench is killed, because closing its standard input would not end it: the processes of
        # PyTorch's DataLoader have copies of the pipe.
        self.process.kill()
        self.process.wait()


class TfData:
    def __init__(self, records, shape):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf  # pylint: disable=import-outside-toplevel
        self.name = f"tf.data {tf.__version__}"
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

        def decode(record):
            example = tf.io.parse_single_example(record, features)
            return tf.io.decode_png(example["image"], channels=shape[2]), example["label"]

        files = tf.data.Dataset.from_tensor_slices(sorted(glob.glob(records)))
        data = files.interleave(tf.data.TFRecordDataset, cycle_length=len(glob.glob(records)),
                                num_parallel_calls=THREADS, deterministic=True)
        data = data.shuffle(10000, seed=1, reshuffle_each_iteration=True)
        data = data.map(decode, num_parallel_calls=THREADS, deterministic=True)
        data = data.batch(BATCH).prefetch(2 * THREADS)
        options = tf.data.Options()
        options.threading.private_threadpool_size = THREADS
        options.threading.max_intra_op_parallelism = 1
        self.data = data.with_options(options)

    def epoch(self):
        begin = time.perf_counter()
        samples = sum(int(labels.shape[0]) for _, labels in self.data)
        assert samples > 0
        return time.perf_counter() - begin


class TorchLoader:
    def __init__(self, folder):
        import torch  # pylint: disable=import-outside-toplevel
        from torch.utils.data import DataLoader  # pylint: disable=import-outside-toplevel
        from torchvision import datasets, transforms  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        self.name = f"PyTorch {torch.__version__}'s DataLoader"
        # PILToTensor keeps pixels as bytes and does not convert them to floats. Batches of Tethys hold bytes, too.
        data = datasets.ImageFolder(folder, transforms.PILToTensor())
        self.loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=THREADS, persistent_workers=True,
                                 prefetch_factor=2)

    def epoch(self):
        begin = time.perf_counter()
        samples = sum(len(labels) for _, labels in self.loader)
        assert samples > 0
        return time.perf_counter() - begin


def main():
    peer, build, folder = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))
    classes = classes_of(folder)
    samples = sum(len(os.listdir(os.path.join(folder, each))) for each in classes)
    with tempfile.TemporaryDirectory(prefix="data_loading") as scratch:
        pictures = f'image_folder {{ train: "{folder}" }} classes: {len(classes)}'
        if peer == "torch":
            limit, theirs, data = 2.0, TorchLoader(folder), pictures
        else:
            source = os.path.join(scratch, "pictures.textproto")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"data {{ {pictures} }}\n")
            out = os.path.join(scratch, "records")
            subprocess.run([f"{build}/deploy/tethys", "data", "convert", source, "--to=tfrecord", "--files=4",
                            f"--out={out}"], check=True, stdout=subprocess.DEVNULL)
            records = os.path.join(out, "train*")
            limit, theirs = 1.5, TfData(records, (0, 0, 3))
            data = f'tfrecord {{ train: "{records}" }} classes: {len(classes)}'
        ours = Tethys(build, data, scratch)
        times = []
        for number in range(rounds + 1):
            pair = ours.epoch(), theirs.epoch()
            if number > 0:  # The first round fills the system's cache and starts threads and processes.
                times.append(pair)
        ours.close()
    print(f"{folder}: {samples} samples, {rounds} rounds, {THREADS} threads")
    for name, values in zip(("Tethys", theirs.name), zip(*times)):
        print(f"  {name}: {samples / statistics.median(values):,.0f} samples a second")
    ratio = statistics.median(their / our for our, their in times)
    print(f"  ratio {ratio:.2f}; limit {limit}")


if __name__ == "__main__":
    main()
