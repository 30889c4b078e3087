#!/usr/bin/env python3
"""Tests `tethys init`: for each kind of folder it writes a job that trains, and other folders are refused."""
import os
import re
import shutil
import struct
import tempfile
import unittest
import zipfile

from data_files import npy, record
from png_file import png
from tethys_run import JOB, command

FILES = dict(re.findall(r'(train_images|train_labels|test_images|test_labels): "(.*)"', JOB))
PIXELS = 28 * 28
SAMPLES = {"train": 1200, "test": 200}
# Far above a guess, 0.1, and far below what so few samples reach in as few epochs.
LEAST_ACCURACY = 0.45


def read_samples(part):
    """[(784 pixels, label)] of the first samples."""
    with open(FILES[f"{part}_images"], "rb") as file:
        pixels = file.read()[16:]
    with open(FILES[f"{part}_labels"], "rb") as file:
        labels = file.read()[8:]
    return [(pixels[PIXELS * i:PIXELS * (i + 1)], labels[i]) for i in range(SAMPLES[part])]


DATA = {part: read_samples(part) for part in SAMPLES}


def picture(pixels):
    return png(28, [pixels[28 * y:28 * (y + 1)] for y in range(28)])


def cifar_record(pixels, label):
    """A record of CIFAR-10: the picture with a frame, in three equal colours."""
    rows = b"".join(bytes(2) + pixels[28 * y:28 * (y + 1)] + bytes(2) for y in range(28))
    return bytes([label]) + 3 * (bytes(64) + rows + bytes(64))


def table_row(pixels, label):
    """Four numbers that say much about a picture: the brightness of its quarters."""
    quarters = [sum(pixels[28 * y + x] for y in range(top, top + 14, 3) for x in range(left, left + 14, 3)) / 25.0
                for top in (0, 14) for left in (0, 14)]
    return ",".join([*(f"{value:.2f}" for value in quarters), str(label)])


class InitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tethys-init-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def init(self, *arguments):
        return command(["init", *arguments], cwd=self.folder)

    def assert_trains(self, fragments, epochs=3, folder="data"):
        """Makes a job for `folder`, trains it as it is, and returns the job. `fragments` must be in the job."""
        status, output = self.init(folder)
        self.assertEqual(status, 0, output)
        with open(f"{self.folder}/job.textproto", encoding="utf-8") as file:
            job = file.read()
        for fragment in fragments:
            self.assertIn(fragment, job)
        status, output = command(["train", "job.textproto", "--plain", f"--set=epochs={epochs}"], cwd=self.folder)
        self.assertEqual(status, 0, output)
        accuracy = re.findall(r"(?:test|validation loss \S+ ) ?accuracy (\S+?),? ", output)
        self.assertGreater(float(accuracy[-1]), LEAST_ACCURACY, output)
        return job

    def assert_refused(self, *fragments, folder="data"):
        status, output = self.init(folder)
        self.assertEqual(status, 2, output)
        for fragment in fragments:
            self.assertIn(fragment, output)
        self.assertFalse(os.path.exists(f"{self.folder}/job.textproto"))

    def test_idx_files(self):
        os.mkdir(f"{self.folder}/data")
        for part, count in SAMPLES.items():
            pixels = b"".join(pixels for pixels, _ in DATA[part])
            name = "t10k" if part == "test" else part
            self.write(f"data/{name}-images-idx3-ubyte", struct.pack(">4I", 0x803, count, 28, 28) + pixels)
            self.write(f"data/{name}-labels-idx1-ubyte",
                       struct.pack(">2I", 0x801, count) + bytes(label for _, label in DATA[part]))
        self.assert_trains(['train_images: "data/train-images-idx3-ubyte"', "lenet {}", "classes: 10"])

    def test_cifar_files(self):
        half = SAMPLES["train"] // 2
        for name, samples in (("data_batch_1", DATA["train"][:half]), ("data_batch_2", DATA["train"][half:]),
                              ("test_batch", DATA["test"])):
            self.write(f"data/{name}.bin", b"".join(cifar_record(*sample) for sample in samples))
        self.write("data/readme.html", "<html></html>")
        self.assert_trains(['train: "data/data_batch_1.bin"', 'test: "data/test_batch.bin"'], epochs=4)

    def test_tfrecord_files(self):
        for part, samples in DATA.items():
            self.write(f"data/{part}-00000-of-00001.tfrecord",
                       b"".join(record(picture(pixels), label) for pixels, label in samples))
        self.assert_trains(['image_feature: "image"', "resize { height: 28 width: 28 }"])

    def test_numpy_archive(self):
        with zipfile.ZipFile(f"{self.folder}/arrays.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for part, samples in DATA.items():
                archive.writestr(f"x_{part}.npy",
                                 npy("|u1", (len(samples), 28, 28), b"".join(pixels for pixels, _ in samples)))
                archive.writestr(f"y_{part}.npy", npy("<i8", (len(samples),), b"".join(
                    struct.pack("<q", label) for _, label in samples)))
        os.mkdir(f"{self.folder}/data")
        shutil.move(f"{self.folder}/arrays.npz", f"{self.folder}/data")
        self.assert_trains(['train_images: "data/arrays.npz#x_train"', 'test_labels: "data/arrays.npz#y_test"'])

    def test_table_of_pixels(self):
        header = ",".join(["label", *(f"pixel{i}" for i in range(PIXELS))])
        for part, samples in DATA.items():
            lines = [",".join(map(str, (label, *pixels))) for pixels, label in samples]
            self.write(f"data/{part}.csv", "\n".join([header, *lines]) + "\n")
        self.assert_trains(["label_column: 0", "shape: [28, 28]", "bytes: true", "lenet {}"])

    def test_table_of_numbers(self):
        kinds = {1: 0, 8: 1, 9: 2}  # Trousers, bags and boots.
        rows = [table_row(pixels, kinds[label]) for pixels, label in DATA["train"] if label in kinds]
        self.write("data/clothes.csv", "\n".join(["upper left,upper right,lower left,lower right,kind", *rows]))
        self.assert_trains(["label_column: 4", "per_channel: true", "dense { units: 3 }", "validation_samples: "],
                           epochs=20)

    def test_folders_of_classes_in_train_and_test(self):
        for part, samples in DATA.items():
            for i, (pixels, label) in enumerate(samples):
                self.write(f"data/{part}/class {label}/{i:05}.png", picture(pixels))
        self.assert_trains(['train: "data/train"', 'test: "data/test"'])

    def test_folders_of_classes_alone(self):
        for i, (pixels, label) in enumerate(DATA["train"]):
            self.write(f"data/{label}/{i:05}.png", picture(pixels))
        self.assert_trains(['train: "data"', "validation_samples: 120"])

    def test_job_in_another_folder_names_absolute_paths_and_is_not_overwritten(self):
        self.write("data/x.npy", npy("|u1", (40, 6), bytes(240)))
        self.write("data/y.npy", npy("|u1", (40,), bytes(i % 2 for i in range(40))))
        os.mkdir(f"{self.folder}/jobs")
        status, output = self.init("data", "--out=jobs/first.textproto")
        self.assertEqual(status, 0, output)
        with open(f"{self.folder}/jobs/first.textproto", encoding="utf-8") as file:
            job = file.read()
        self.assertIn(f'train_images: "{self.folder}/data/x.npy"', job)
        status, output = self.init("data", "--out=jobs/first.textproto")
        self.assertEqual(status, 2, output)
        self.assertIn("jobs/first.textproto exists already", output)
        self.assertIn("--out=FILE", output)

    def test_folder_without_data_is_refused(self):
        self.assert_refused("cannot read the folder data", "No such file")
        self.assert_refused("https://example.org/data is a URL", folder="https://example.org/data")
        os.mkdir(f"{self.folder}/data")
        self.assert_refused("data is empty", "name a folder")
        self.write("data/model.pkl", b"\x80\x04\x95 and so on")
        self.assert_refused("model.pkl; it is a pickle of Python", "numpy.save")
        self.write("outer/data/x.npy", npy("|u1", (4, 2), bytes(8)))
        self.assert_refused("outer holds only the folder data", "tethys init outer/data", folder="outer")

    def test_folder_with_several_formats_is_refused(self):
        self.write("data/x.npy", npy("|u1", (4, 2), bytes(8)))
        self.write("data/y.npy", npy("|u1", (4,), bytes(4)))
        self.write("data/more.csv", "a,label\n1,0\n2,1\n")
        self.assert_refused("several formats", "2 NumPy arrays (x.npy and y.npy)", "1 table (more.csv)", "move")

    def test_data_without_labels_are_refused(self):
        self.write("data/x.npy", npy("|u1", (4, 2), bytes(8)))
        self.assert_refused("holds no labels for the training samples", "x.npy [4, 2]", "add an array")
        self.write("loose/1.png", picture(bytes(PIXELS)))
        self.assert_refused("1 picture without labels", "named after the class", folder="loose")
        self.write("parts/train/1.png", picture(bytes(PIXELS)))
        self.write("parts/test/1.png", picture(bytes(PIXELS)))
        self.assert_refused("pictures without labels (in test and train)", folder="parts")
        self.write("floats/a.csv", "height,weight\n1.5,2.5\n2.5,3.5\n")
        self.assert_refused("no column is clearly the label", "mean_squared_error", folder="floats")

    def test_classes_with_too_few_samples_are_refused(self):
        for name in ("cat/1", "cat/2", "dog/1"):
            self.write(f"data/{name}.png", picture(bytes(PIXELS)))
        self.assert_refused("fewer than 2 pictures: dog (1)", "add pictures")
        self.write("one/cat/1.png", picture(bytes(PIXELS)))
        self.assert_refused("one class of pictures only", folder="one")
        self.write("same/x.npy", npy("|u1", (4, 2), bytes(8)))
        self.write("same/y.npy", npy("|u1", (4,), bytes(4)))
        self.assert_refused("same: every label that was read is 0", folder="same")
        self.write("hot/x.npy", npy("|u1", (4, 2), bytes(8)))
        self.write("hot/labels.npy", npy("|u1", (4, 3), bytes(12)))
        self.assert_refused("hot: the labels are [3] for each sample", "numpy.argmax", folder="hot")

    def test_damaged_and_unsuitable_files_are_refused_with_their_names(self):
        self.write("data/x.npy", npy("|u1", (4, 2), bytes(8))[:40])
        self.assert_refused("data/x.npy")
        self.write("pairs/x_train.npy", npy("|u1", (4, 2), bytes(8)))
        self.write("pairs/y_train.npy", npy("|u1", (5,), bytes(5)))
        self.assert_refused("pairs/x_train.npy", "pairs/y_train.npy", folder="pairs")
        self.write("objects/x.npy", npy("|O", (4, 2), b"pickle"))
        self.assert_refused("objects/x.npy", "object", folder="objects")
        for i in range(8):
            content = picture(bytes(PIXELS))
            self.write(f"pets/{'cat' if i % 2 else 'dog'}/{i}.png", content[:50] if i == 3 else content)
        self.assert_refused("pets/cat/3.png", folder="pets")
        self.write("words/flowers.csv", "width,label\n1.5,rose\n2.5,tulip\n1.25,rose\n2.25,tulip\n")
        self.assert_refused("words/flowers.csv", "number the classes from 0 on", folder="words")


if __name__ == "__main__":
    unittest.main()
