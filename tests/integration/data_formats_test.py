#!/usr/bin/env python3
"""Tests data in other files than IDX: the same images train the same bits, and damaged files are refused."""
import os
import re
import shutil
import struct
import tempfile
import unittest

from tethys_run import JOB, Run, STRATEGIES, TethysTest

SIDE, PIXELS = 32, 32 * 32
FILES = dict(re.findall(r'(train_images|train_labels|test_images|test_labels): "(.*)"', JOB))
SAMPLES = {"train": 1500, "test": 300}
IDX_SOURCE = re.search(r"  idx \{.*?\n  \}\n", JOB, re.S)[0]


def coloured(image):
    """A 28 x 28 image with a frame, in three different colours."""
    rows = [bytes(2) + image[28 * y:28 * (y + 1)] + bytes(2) for y in range(28)]
    red = bytes(2 * SIDE) + b"".join(rows) + bytes(2 * SIDE)
    return red, red[::-1], bytes(255 - value for value in red)


class DataFormatsTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tethys-formats-")
        for split, count in SAMPLES.items():
            with open(FILES[f"{split}_images"], "rb") as file:
                content = file.read()[16:16 + 28 * 28 * count]
            with open(FILES[f"{split}_labels"], "rb") as file:
                labels = file.read()[8:8 + count]
            images = [coloured(content[784 * i:784 * (i + 1)]) for i in range(count)]
            pixels = b"".join(bytes(channel[i] for channel in image) for image in images for i in range(PIXELS))
            cls.write(f"{split}-images", b"\0\0\x08\x04" + struct.pack(">4I", count, SIDE, SIDE, 3) + pixels)
            cls.write(f"{split}-labels", b"\0\0\x08\x01" + struct.pack(">I", count) + labels)
            records = [labels[i:i + 1] + b"".join(image) for i, image in enumerate(images)]
            for part in range(3):  # In files of unlike sizes.
                begin, end = (0, count // 2, 2 * count // 3, count)[part:part + 2]
                cls.write(f"{split}_batch_{part}.bin", b"".join(records[begin:end]))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def write(cls, name, content):
        with open(os.path.join(cls.folder, name), "wb") as file:
            file.write(content)

    def job(self, source):
        return JOB.replace(IDX_SOURCE, source).replace("validation_samples: 1000", "validation_samples: 300").replace(
            "3001", "1200")

    def idx_job(self):
        files = "".join(f'{split}_{kind}: "{self.folder}/{split}-{kind}" ' for split in SAMPLES
                        for kind in ("images", "labels"))
        return self.job(f"  idx {{ {files} }}\n")

    def cifar_job(self, fields=""):
        train, test = (f'{split}: "{self.folder}/{split}_batch_*.bin"' for split in SAMPLES)
        return self.job(f"  cifar {{ {train} {test} {fields}}}\n")

    def test_cifar_files_train_the_bits_of_idx_files(self):
        for strategy in (["strategy=local"], STRATEGIES["mirrored"]):
            with self.subTest(strategy=strategy), Run([*strategy, "epochs=2"], job=self.idx_job()).run() as idx:
                overrides = [*strategy, "epochs=2", "data.loader_threads=2"]
                with Run(overrides, job=self.cifar_job()).run() as cifar:
                    self.assert_same_bits(cifar, idx)
                    self.assertEqual(cifar.summary()["test"], idx.summary()["test"])
                    self.assertIn("1,200 training, 300 validation, 300 test samples of [32, 32, 3]", cifar.output)

    def test_files_that_do_not_fit_are_refused(self):
        self.write("short.bin", bytes(3074))
        self.write("labels.bin", b"\x63" + bytes(3072))
        good = self.cifar_job()
        for job, message in (
                (good.replace("train_batch_*", "short"),
                 "short.bin: 3074 bytes are no whole number of records of 3073 bytes"),
                (good.replace("test_batch_*", "lost_*"), "lost_*.bin"),
                (self.cifar_job("labels: FINE "), "data.cifar.labels: FINE or COARSE"),
                (good.replace("train_batch_*", "labels").replace("300", "0").replace("1200", "0"),
                 "labels.bin: label 99 of record 0 is outside the 10 classes"),
                (good.replace("classes: 10", "classes: 10 augment { random_crop { pad: 17 } }"),
                 "data.augment.random_crop.pad is 17, but images are [32, 32, 3]: at most 16")):
            with self.subTest(message=message), Run(["strategy=local"], job=job) as run:
                self.assertEqual(run.start().finish(), 2, run.output)
                self.assertIn(message, run.output)


if __name__ == "__main__":
    unittest.main()
