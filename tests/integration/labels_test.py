#!/usr/bin/env python3
"""Tests labels other than one class for each sample (maps of labels, float targets), label smoothing and
top-5 accuracy."""
import array
import ast
import csv
import math
import os
import re
import shutil
import struct
import sys
import tempfile
import unittest

from tethys_run import JOB, Run, STRATEGIES, TethysTest, command

SIDE = 28
PIXELS = SIDE * SIDE
IGNORED = 255
FILES = dict(re.findall(r'(train_images|train_labels|test_images|test_labels): "(.*)"', JOB))
STEPS = ["max_steps=10", "data.limit_samples=1000"]
# This model has neither relu nor max pooling, with which strategies diverge by rounding. It has no biases either,
# because the gradient of a bias is a sum over all pixels whose terms almost cancel.
MAPS = """
  layer { name: "a" convolution { filters: 6 kernel_size: 5 padding: SAME bias: false activation: TANH } }
  layer { name: "b" convolution { filters: 6 kernel_size: 3 padding: SAME bias: false activation: TANH } }
  layer { input: "a" input: "b" concatenation {} }
  layer { name: "head" convolution { filters: 3 kernel_size: 1 bias: false } }
"""
TARGETS = """
  layer { flatten {} }
  layer { dense { units: 24 activation: TANH } }
  layer { dense { units: 3 } }
"""
LAYERS = re.search(r"model \{\n(.*?)\n\}\n", JOB, re.S)[1]


def read_images(path):
    with open(path, "rb") as file:
        content = file.read()
    return [content[16 + i * PIXELS:16 + (i + 1) * PIXELS] for i in range(struct.unpack(">I", content[4:8])[0])]


def mean(image, row, column):
    """The mean of a pixel and its eight neighbours."""
    around = [image[r * SIDE + c] for r in range(row - 1, row + 2) for c in range(column - 1, column + 2)]
    return sum(around) / 9


def label_map(image):
    """A class for each pixel by the brightness around it; the image's edge is not labelled."""
    labels = bytearray([IGNORED]) * PIXELS
    for row in range(1, SIDE - 1):
        for column in range(1, SIDE - 1):
            value = mean(image, row, column)
            labels[row * SIDE + column] = 0 if value < 10 else 1 if value < 140 else 2
    return bytes(labels)


def targets(image):
    """The mean brightness and the centre of brightness (across, down), as big-endian floats."""
    total = sum(image) or 1
    across = sum(value * (i % SIDE) for i, value in enumerate(image)) / total
    down = sum(value * (i // SIDE) for i, value in enumerate(image)) / total
    return struct.pack(">3f", total / PIXELS / 255, across / SIDE, down / SIDE)


class LabelsTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tethys-labels-")
        cls.maps, cls.targets = {}, {}
        samples = {"train": 1500, "test": 300}
        for split, count in samples.items():
            images = read_images(FILES[f"{split}_images"])[:count]
            cls.maps[split] = [label_map(image) for image in images]
            cls.targets[split] = [targets(image) for image in images]
            shape = struct.pack(">3I", count, SIDE, SIDE)
            cls.write(f"{split}-images", b"\0\0\x08\x03" + shape + b"".join(images))
            cls.write(f"{split}-maps", b"\0\0\x08\x03" + shape + b"".join(cls.maps[split]))
            cls.write(f"{split}-targets", b"\0\0\x0d\x02" + struct.pack(">2I", count, 3) + b"".join(cls.targets[split]))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def write(cls, name, content):
        with open(os.path.join(cls.folder, name), "wb") as file:
            file.write(content)

    @classmethod
    def job(cls, layers, loss, labels, classes):
        job = JOB.replace(LAYERS, layers + loss).replace("  classes: 10\n", classes)
        for split in ("train", "test"):
            job = job.replace(FILES[f"{split}_images"], f"{cls.folder}/{split}-images")
            job = job.replace(FILES[f"{split}_labels"], f"{cls.folder}/{split}-{labels}")
        return job.replace("validation_samples: 1000", "validation_samples: 300").replace("3001", "1200")

    def map_job(self, fields="ignore_label: 255"):
        loss = f"loss {{ softmax_cross_entropy {{ {fields} }} }}"
        return self.job(MAPS, loss, "maps", "  classes: 3\n").replace("0.05", "0.1")

    def target_job(self):
        return self.job(TARGETS, "loss { mean_squared_error {} }", "targets", "")

    def assert_equal_parameters(self, run, expected):
        self.assertEqual(set(run), set(expected))
        for name, values in expected.items():
            if name.startswith("momentum/"):
                continue  # Small sums over many pixels, which rounding changes more.
            difference = math.dist(values, run[name])
            self.assertLessEqual(difference, 1e-5 * math.hypot(*values), name)

    def check_strategies(self, job):
        """Checks that every strategy trains, and that local, mirrored and ps_sync runs reach the same
        parameters."""
        results = {}
        for name, strategy in STRATEGIES.items():
            with self.subTest(name), Run([*strategy, *STEPS], job=job) as run:
                run.run()
                results[name] = run.parameters()
                summary = run.summary()
                self.assertEqual(summary["status"], "succeeded")
                self.assertTrue(math.isfinite(summary["test"]["loss"]))
        for name in ("mirrored", "ps_sync"):
            self.assert_equal_parameters(results[name], results["local"])

    # ---- maps of labels

    def test_labels_per_pixel_train_equally_under_every_strategy(self):
        self.check_strategies(self.map_job())

    def outputs(self, run, name, each):
        """The outputs of the test split, sample by sample, from a .npy file."""
        path = os.path.join(self.folder, name)
        status, output = command(["predict", f"--checkpoint={run.directory}", f"--out={path}"])
        self.assertEqual(status, 0, output)
        with open(path, "rb") as file:
            content = file.read()
        start = 10 + struct.unpack("<H", content[8:10])[0]
        shape = ast.literal_eval(content[10:start].decode())["shape"]
        values = array.array("f", content[start:])
        if sys.byteorder == "big":
            values.byteswap()
        self.assertEqual(len(values), math.prod(shape))
        self.assertEqual(math.prod(shape[1:]), each)
        return shape, [values[i * each:(i + 1) * each] for i in range(shape[0])]

    def test_chief_adds_up_the_confusion_matrix_of_the_predictions(self):
        with Run(["epochs=4", *STRATEGIES["mirrored"]], job=self.map_job().replace("0.1", "0.5")) as run:
            run.run()
            shape, outputs = self.outputs(run, "maps.npy", PIXELS * 3)
            self.assertEqual(shape, (300, SIDE, SIDE, 3))
            confusion = [[0] * 3 for _ in range(3)]
            loss = 0
            for labels, logits in zip(self.maps["test"], outputs):
                for pixel, label in enumerate(labels):
                    if label == IGNORED:
                        continue
                    own = logits[pixel * 3:pixel * 3 + 3]
                    confusion[label][max(range(3), key=own.__getitem__)] += 1
                    loss += (math.log(sum(math.exp(x) for x in own)) - own[label]) / PIXELS
            labelled = sum(map(sum, confusion))
            self.assertEqual(labelled, 300 * (SIDE - 2) ** 2)
            test = run.summary()["test"]
            iou = [confusion[i][i] / (sum(confusion[i]) + sum(row[i] for row in confusion) - confusion[i][i])
                   for i in range(3)]
            self.assertAlmostEqual(test["accuracy"], sum(confusion[i][i] for i in range(3)) / labelled, places=12)
            self.assertEqual([part.get("class_index", 0) for part in test["iou"]], [0, 1, 2])
            for part, value in zip(test["iou"], iou):
                self.assertAlmostEqual(part["iou"], value, places=12)
            self.assertAlmostEqual(test["mean_iou"], sum(iou) / 3, places=12)
            self.assertAlmostEqual(test["loss"], loss / 300, delta=1e-5 * loss / 300)
            self.assertGreater(test["mean_iou"], 0.5, "the network has not learned")
            self.assertIn(f"mean IoU {test['mean_iou']:.4f}", run.output)
            with open(run.path("epochs.csv"), encoding="utf-8") as file:
                epochs = list(csv.DictReader(file))
            self.assertTrue(all(0 < float(epoch["validation_mean_iou"]) < 1 for epoch in epochs))
            status, output = command(["evaluate", f"--checkpoint={run.directory}"])
            self.assertEqual(status, 0, output)
            self.assertIn(f"accuracy {test['accuracy']:.4f}, mean IoU {test['mean_iou']:.4f}, loss", output)
            self.assertIn(f"IoU of class 2: {iou[2]:.4f}", output)

    def test_predictions_per_pixel_are_refused_as_csv(self):
        with Run(["max_steps=1"], job=self.map_job()) as run:
            run.run()
            status, output = command(["predict", f"--checkpoint={run.directory}", f"--out={self.folder}/maps.csv"])
            self.assertEqual(status, 2, output)
            self.assertIn("each sample has outputs [28, 28, 3], which do not fit into a line of a table", output)

    # ---- targets

    def test_targets_train_equally_under_every_strategy(self):
        self.check_strategies(self.target_job())

    def test_mean_squared_error_is_that_of_the_predictions(self):
        with Run(["epochs=3"], job=self.target_job()) as run:
            run.run()
            test = run.summary()["test"]
            path = os.path.join(self.folder, "targets.csv")
            status, output = command(["predict", f"--checkpoint={run.directory}", f"--out={path}"])
            self.assertEqual(status, 0, output)
            with open(path, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(list(rows[0]), ["sample", "output_0", "output_1", "output_2"])
            expected = 0
            for row, bits in zip(rows, self.targets["test"]):
                expected += sum((float(row[f"output_{i}"]) - target) ** 2
                                for i, target in enumerate(struct.unpack(">3f", bits))) / 3
            self.assertAlmostEqual(test["loss"], expected / 300, delta=1e-5 * expected / 300)
            self.assertLess(test["loss"], 0.05, "the network has not learned")
            self.assertNotIn("accuracy", test)
            self.assertNotIn("accuracy", run.output)
            with open(run.path("epochs.csv"), encoding="utf-8") as file:
                self.assertEqual(next(csv.DictReader(file))["validation_accuracy"], "")

    # ---- classes

    def test_top5_and_smoothing_in_evaluations(self):
        smoothed = JOB.replace(LAYERS, LAYERS + "\nloss { softmax_cross_entropy { label_smoothing: 0.2 } }")
        with Run(STEPS, job=smoothed) as run, Run(STEPS) as plain:
            run.run()
            plain.run()
            self.assertNotEqual(run.parameters()["dense_2/bias"], plain.parameters()["dense_2/bias"])
            path = os.path.join(self.folder, "classes.csv")
            status, output = command(["predict", f"--checkpoint={run.directory}", f"--out={path}"])
            self.assertEqual(status, 0, output)
            with open(path, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            among, loss = 0, 0
            for row in rows:
                own = [float(row[f"probability_{i}"]) for i in range(10)]
                among += sorted(own, reverse=True).index(own[int(row["label"])]) < 5
                loss -= math.log(own[int(row["label"])])
            test = run.summary()["test"]
            self.assertAlmostEqual(test["top5_accuracy"], among / len(rows), places=12)
            # An evaluation computes the loss from the labels in the file, without smoothing.
            self.assertAlmostEqual(test["loss"], loss / len(rows), delta=1e-5)

    # ---- mistakes

    def refused(self, job, *texts):
        with Run(job=job) as run:
            status, output = command(["train", run.job, f"--run_dir={run.directory}"])
            self.assertEqual(status, 2, output)
            for text in texts:
                self.assertIn(text, output)

    def test_labels_that_do_not_suit_the_outputs_are_refused(self):
        self.refused(self.map_job().replace("-maps", "-targets"), "holds 32-bit floats (type 13)")
        self.refused(self.map_job().replace("kernel_size: 1 ", "kernel_size: 1 stride: 2 "),
                     "outputs [14, 14, 3] are compared with classes in a map [14, 14]",
                     "but the data have classes in a map [28, 28]")
        self.refused(self.map_job().replace("ignore_label: 255", ""), "label 255 of sample 0", "ignore_label")
        self.refused(self.target_job().replace("units: 3", "units: 2"),
                     "outputs [2] are compared with float32 targets [2]", "but the data have float32 targets [3]")
        self.refused(JOB.replace(LAYERS, MAPS.replace("filters: 3", "filters: 10")),
                     "but the data have a class for each sample")


if __name__ == "__main__":
    unittest.main()
