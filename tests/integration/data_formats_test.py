#!/usr/bin/env python3
"""Tests data in formats other than IDX: training on the same images gives the same bits, and damaged files
are refused."""
import os
import re
import shutil
import struct
import tempfile
import unittest
import zipfile

from data_files import npy, record
from png_file import COLOURED, png
from tethys_run import JOB, Run, STRATEGIES, TethysTest, command

SIDE, PIXELS = 32, 32 * 32
FILES = dict(re.findall(r'(train_images|train_labels|test_images|test_labels): "(.*)"', JOB))
SAMPLES = {"train": 1500, "test": 300}
IDX_SOURCE = re.search(r"  idx \{.*?\n  \}\n", JOB, re.S)[0]


def coloured(image):
    """A 28 x 28 image with a frame, in three different colours."""
    rows = [bytes(2) + image[28 * y:28 * (y + 1)] + bytes(2) for y in range(28)]
    red = bytes(2 * SIDE) + b"".join(rows) + bytes(2 * SIDE)
    return red, red[::-1], bytes(255 - value for value in red)


def coloured_png(pixels):
    """A PNG file of SIDE x SIDE pixels in three colours."""
    return png(SIDE, [pixels[3 * SIDE * y:3 * SIDE * (y + 1)] for y in range(SIDE)], COLOURED)


def fnv1a(content):
    value = 0xcbf29ce484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


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
            samples = [pixels[3 * PIXELS * i:3 * PIXELS * (i + 1)] for i in range(count)]
            cls.write(f"{split}-images.npy", npy("|u1", (count, SIDE, SIDE, 3), pixels))
            cls.write(f"{split}-labels.npy", npy("<i4", (count,), struct.pack(f"<{count}i", *labels)))
            floats = struct.pack(f"<{len(pixels)}f", *pixels)
            cls.write(f"{split}-floats.npy", npy("<f4", (count, SIDE, SIDE, 3), floats))
            cls.write(f"{split}.csv", "".join(",".join(map(str, (*sample, label))) + "\n"
                                             for sample, label in zip(samples, labels)).encode())
            for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                with zipfile.ZipFile(os.path.join(cls.folder, f"{split}-{method}.npz"), "w", method) as archive:
                    for kind in ("images", "labels", "floats"):
                        archive.write(os.path.join(cls.folder, f"{split}-{kind}.npy"), f"{kind}.npy")
            half = count // 2
            for part, numbers in enumerate((range(half), range(half, count))):
                cls.write(f"{split}-{part}.tfrecord", b"".join(record(coloured_png(samples[i]), labels[i]) for i in numbers))
            for i in range(count):
                os.makedirs(os.path.join(cls.folder, split, str(labels[i])), exist_ok=True)
                cls.write(f"{split}/{labels[i]}/{i:05}.png", coloured_png(samples[i]))
            by_hash = sorted(range(count), key=lambda i: fnv1a(f"{labels[i]}/{i:05}.png".encode()))
            cls.write(f"{split}-hashed-images",
                      b"\0\0\x08\x04" + struct.pack(">4I", count, SIDE, SIDE, 3) + b"".join(samples[i] for i in by_hash))
            cls.write(f"{split}-hashed-labels",
                      b"\0\0\x08\x01" + struct.pack(">I", count) + bytes(labels[i] for i in by_hash))
            for part in range(3):  # The files have different sizes.
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
        source += f'  cache_dir: "{self.folder}/cache"\n'
        return JOB.replace(IDX_SOURCE, source).replace("validation_samples: 1000", "validation_samples: 300").replace(
            "3001", "1200")

    def idx_job(self, order=""):
        files = "".join(f'{split}_{kind}: "{self.folder}/{split}-{order}{kind}" ' for split in SAMPLES
                        for kind in ("images", "labels"))
        return self.job(f"  idx {{ {files} }}\n")

    def cifar_job(self, fields=""):
        train, test = (f'{split}: "{self.folder}/{split}_batch_*.bin"' for split in SAMPLES)
        return self.job(f"  cifar {{ {train} {test} {fields}}}\n")

    def test_cifar_files_train_the_same_bits_as_idx_files(self):
        for strategy in (["strategy=local"], STRATEGIES["mirrored"]):
            with self.subTest(strategy=strategy), Run([*strategy, "epochs=2"], job=self.idx_job()).run() as idx:
                overrides = [*strategy, "epochs=2", "data.loader_threads=2"]
                with Run(overrides, job=self.cifar_job()).run() as cifar:
                    self.assert_same_bits(cifar, idx)
                    self.assertEqual(cifar.summary()["test"], idx.summary()["test"])
                    self.assertIn("1,200 training, 300 validation, 300 test samples of [32, 32, 3]", cifar.output)

    def test_other_formats_train_the_same_bits_as_idx_files(self):
        arrays = "".join(f'{split}_{kind}: "{self.folder}/{split}-{kind}.npy" ' for split in SAMPLES
                         for kind in ("images", "labels"))
        records = "".join(f'{split}: "{self.folder}/{split}-*.tfrecord" ' for split in SAMPLES)
        overrides = ["strategy=local", "epochs=1"]
        with Run(overrides, job=self.idx_job()).run() as idx:
            for source in (f"npy {{ {arrays} }}", f"tfrecord {{ {records} }}", self.csv(), self.npz(zipfile.ZIP_STORED),
                           self.npz(zipfile.ZIP_DEFLATED)):
                job = self.job(f"  {source}\n")
                with self.subTest(source=source), Run([*overrides, "data.loader_threads=2"], job=job).run() as other:
                    self.assert_same_bits(other, idx)
                    self.assertEqual(other.summary()["test"], idx.summary()["test"])
        # The samples of image folders are in the order of a hash of their names.
        with Run(overrides, job=self.idx_job("hashed-")).run() as idx:
            for place in ("", "chief://"):
                folders = "".join(f'{split}: "{place}{self.folder}/{split}" ' for split in SAMPLES)
                job = self.job(f"  image_folder {{ {folders} }}\n")
                with self.subTest(place=place), Run(overrides, job=job).run() as pictures:
                    self.assert_same_bits(pictures, idx)
                    self.assertEqual(pictures.summary()["test"], idx.summary()["test"])

    def csv(self):
        files = "".join(f'{split}: "{self.folder}/{split}.csv" ' for split in SAMPLES)
        return f"csv {{ {files} bytes: true shape: [{SIDE}, {SIDE}, 3] }}"

    def npz(self, method, images="images"):
        arrays = "".join(f'{split}_{kind}: "{self.folder}/{split}-{method}.npz#{member}" ' for split in SAMPLES
                         for kind, member in (("images", images), ("labels", "labels")))
        return f"npy {{ {arrays} }}"

    def test_floats_train_the_same_bits_as_equal_pixels(self):
        """Bytes are divided by 255 before they are standardised; here a deviation of 255 does that for floats."""
        arrays = "".join(f'{split}_{kind}: "{self.folder}/{split}-{name}.npy" ' for split in SAMPLES
                         for kind, name in (("images", "floats"), ("labels", "labels")))
        sources = [f"npy {{ {arrays} }}", self.npz(zipfile.ZIP_DEFLATED, "floats"),
                   self.csv().replace("bytes: true", "bytes: false")]
        for strategy in (["strategy=local"], STRATEGIES["mirrored"]):
            with Run([*strategy, "epochs=1"], job=self.idx_job()).run() as idx:
                for source in sources if strategy == ["strategy=local"] else sources[:1]:
                    with self.subTest(source=source, strategy=strategy):
                        with Run([*strategy, "epochs=1"], job=self.float_job(source)).run() as floats:
                            self.assertIn("samples of [32, 32, 3] float32", floats.output)
                            self.assert_same_bits(floats, idx)
                            self.assertEqual(floats.summary()["test"], idx.summary()["test"])
        self.check_uses_of_floats(sources[0])

    def float_job(self, source):
        return self.job(f"  {source}\n").replace("classes: 10", "classes: 10 deviation: 255")

    def check_uses_of_floats(self, source):
        """Checks that evaluation and prediction take the type of the inputs from the checkpoint."""
        with Run(["strategy=local", "epochs=1"], job=self.float_job(source)).run() as run:
            status, output = command(["evaluate", f"--checkpoint={run.directory}"])
            self.assertEqual(status, 0, output)
            self.assertIn(f"{run.summary()['test']['accuracy']:.4f}", output)
            out = os.path.join(self.folder, "predictions.csv")
            status, output = command(["predict", f"--checkpoint={run.directory}", f"--out={out}"])
            self.assertEqual(status, 0, output)
            self.assertEqual(len(self.content("predictions.csv").splitlines()), SAMPLES["test"] + 1)
            status, output = command(["predict", f"--checkpoint={run.directory}", f"--images={self.folder}/test-images",
                                      f"--out={out}"])
            self.assertEqual(status, 2, output)
            self.assertIn("the samples are bytes, but the model of", output)

    def data(self, *arguments, code=0):
        cache = [f"--set=data.cache_dir={self.folder}/cache"] if code == 0 else []
        status, output = command(["data", *arguments, *cache])
        self.assertEqual(status, code, output)
        return output

    def content(self, *path):
        with open(os.path.join(self.folder, *path), "rb") as file:
            return file.read()

    def test_converted_files_hold_the_same_samples(self):
        """IDX to every other format in turn, and back."""
        standardised = "classes: 10 compute_standardisation: true per_channel: true"
        self.write("job.textproto", self.idx_job().replace("1200", "0").replace("classes: 10", standardised).encode())
        source = os.path.join(self.folder, "job.textproto")
        for number, arguments in enumerate((["cifar"], ["tfrecord", "--files=3"], ["npy"], ["tfrecord", "--raw"],
                                                   ["csv"], ["idx"])):
            out = os.path.join(self.folder, f"converted-{number}")
            self.assertIn("Wrote 1,500 samples for training and 300 for the test",
                          self.data("convert", source, "--to", *arguments, f"--out={out}"))
            source = os.path.join(out, "data.textproto")
            self.assertIn("per_channel: true", self.content(out, "data.textproto").decode())
        for split in SAMPLES:
            for kind in ("images", "labels"):
                self.assertEqual(self.content("converted-5", f"{split}-{kind}.idx"), self.content(f"{split}-{kind}"))
            records = b"".join(self.content(f"{split}_batch_{part}.bin") for part in range(3))
            self.assertEqual(self.content("converted-0", f"{split}_batch.bin"), records)
        folder = os.path.join(self.folder, "converted-pictures")
        self.data("convert", source, "--to=image_folder", f"--out={folder}")
        self.assertEqual(sum(len(files) for _, _, files in os.walk(os.path.join(folder, "train"))), 1500)
        shown = [self.data("show", os.path.join(place, "data.textproto")).split("\n\nclass")
                 for place in (folder, os.path.dirname(source))]
        self.assertIn("train         1,200", shown[0][0])
        self.assertIn("[32, 32, 3] of bytes", shown[1][0])
        self.assertRegex(shown[0][1], r"^  name +train +validation +test\n +(\d+)  \1 ", "the names of the folders")
        # The validation split of image folders has other samples than the validation split of the source, so
        # only the sums over all splits are compared.
        totals = [[sum(int(count) for count in line.split()[-3:]) for line in text.splitlines()[1:]] for _, text in shown]
        self.assertEqual(totals[0], totals[1])
        self.assertEqual(sum(totals[0]), 1800)

    def test_first_samples_are_written_as_pictures(self):
        self.write("job.textproto", self.idx_job().encode())
        pictures = os.path.join(self.folder, "first")
        self.data("show", os.path.join(self.folder, "job.textproto"), f"--images={pictures}", "--count=2")
        label = self.content("train-labels")[9]
        self.assertIn(f"train-00001-label-{label}.png", os.listdir(pictures))
        self.assertEqual(len(os.listdir(pictures)), 6)

    def test_conversions_that_cannot_be_done_are_refused(self):
        self.write("job.textproto", self.idx_job().encode())
        job, out = os.path.join(self.folder, "job.textproto"), os.path.join(self.folder, "refused")
        for arguments, message in (
                (["convert", job, "--to=idx", f"--out={self.folder}"], "is not empty: name a new folder"),
                (["convert", job, "--to=png", f"--out={out}"], "'png' is not a format that can be written"),
                (["convert", job, "--to=npy", "--files=2", f"--out={out}"], "--files and --raw are for --to=tfrecord"),
                (["convert", job, "--to=tfrecord", "--files=301", f"--out={out}"], "at most 300, the number of samples in the test part"),
                (["convert", job, f"--out={out}"], "--to is missing"),
                (["show", job, "--to=idx"], "--to is not a flag of tethys data show"),
                (["show"], "write tethys data show JOB"),
                (["show", job, "--set=data.classes=3"], "is outside the 3 classes")):
            with self.subTest(message=message):
                self.assertIn(message, self.data(*arguments, code=2))
                self.assertFalse(os.path.exists(out))

    def test_damaged_picture_ends_the_run_naming_it(self):
        folder = os.path.join(self.folder, "damaged")
        shutil.copytree(os.path.join(self.folder, "train"), folder)
        name = sorted(os.listdir(os.path.join(folder, "3")))[1]
        with open(os.path.join(folder, "3", name), "r+b") as file:
            file.truncate(200)
        job = self.job(f'  image_folder {{ train: "{folder}" test: "{self.folder}/test" }}\n').replace("300", "0")
        with Run(STRATEGIES["mirrored"], job=job.replace("1200", "0")) as run:
            self.assertNotEqual(run.start().finish(), 0)
            self.assertRegex(run.output, rf"3/{name}: damaged PNG")
        self.write("damaged.textproto", job.encode())
        shown = self.data("show", os.path.join(self.folder, "damaged.textproto"), "--check", code=1)
        self.assertRegex(shown, rf"1 of [0-9,]+ samples cannot be read:\n  train: .*3/{name}: damaged PNG")

    def test_pictures_of_mixed_sizes_are_noted_unless_the_job_resizes(self):
        folder = os.path.join(self.folder, "mixed")
        shutil.copytree(os.path.join(self.folder, "train"), folder)
        for label in os.listdir(folder):
            for name in sorted(os.listdir(os.path.join(folder, label)))[::2]:
                with open(os.path.join(folder, label, name), "wb") as file:
                    file.write(png(40, [[9] * 40] * 40))
        self.write("mixed.textproto", self.job(f'  image_folder {{ train: "{folder}" channels: 3 }}\n').encode())
        job = os.path.join(self.folder, "mixed.textproto")
        resize = ["--set=data.resize.height=32", "--set=data.resize.width=32"]
        shown = " ".join(self.data("show", job).split())
        for text in (" 40 x 40", " 32 x 32", "give it in data.resize, for example resize { height: "):
            self.assertIn(text, shown)
        self.assertNotIn("data.resize", self.data("show", job, *resize))

    def test_validation_at_the_end_of_sorted_files_is_noted_before_training(self):
        self.write("sorted.csv", "x,label\n".encode() + b"".join(b"%d,%d\n" % (i, i // 100) for i in range(200)))
        job = self.job(f'  csv {{ train: "{self.folder}/sorted.csv" }}\n').replace("300", "100").replace("1200", "0")
        with Run(["strategy=local"], job=job) as run:
            run.start().finish()
            plain = " ".join(run.output.split())
            self.assertIn("no training sample has class 1, but the validation split does", plain)
            self.assertIn("1 header line is left out", plain)

    def test_files_that_do_not_fit_are_refused(self):
        self.write("short.bin", bytes(3074))
        self.write("labels.bin", b"\x63" + bytes(3072))
        self.write("labels.csv", b"1,2,3,99\n")
        good = self.cifar_job()
        for job, message in (
                (good.replace("train_batch_*", "short"),
                 "short.bin: 3074 bytes are not a whole number of records of 3073 bytes"),
                (good.replace("test_batch_*", "lost_*"), "lost_*.bin"),
                (self.job(f'  csv {{ train: "{self.folder}/labels.csv" }}\n').replace("300", "0").replace("1200", "0"),
                 'labels.csv, line 1, column 3 (counted from 0): "99" is a label outside the 10 classes'),
                (self.cifar_job("labels: FINE "), "data.cifar.labels: FINE or COARSE"),
                (good.replace("train_batch_*", "labels").replace("300", "0").replace("1200", "0"),
                 "labels.bin: label 99 of record 0 is outside the 10 classes"),
                (good.replace("classes: 10", "classes: 10 augment { random_crop { pad: 17 } }"),
                 "data.augment.random_crop.pad is 17, but images are [32, 32, 3]: it may be at most 16")):
            with self.subTest(message=message), Run(["strategy=local"], job=job) as run:
                self.assertEqual(run.start().finish(), 2, run.output)
                self.assertIn(message, run.output)


if __name__ == "__main__":
    unittest.main()
