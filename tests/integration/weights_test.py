#!/usr/bin/env python3
"""Tests what comes before and after training: weights that a job starts from, frozen layers, export and import,
predictions."""
import array
import ast
import csv
import glob
import gzip
import json
import math
import os
import re
import shutil
import struct
import tempfile
import unittest
import zipfile
import zlib

import onnx_graph
import read_safetensors
from png_file import png
from tethys_run import JOB, Run, STRATEGIES, TethysTest, command

# A network with all kinds of variables: filters, scale and offset, weights behind a flatten of images, and
# bias. The network has no relu, with which strategies would diverge by rounding.
MODEL = """
  layer { name: "stem" convolution { filters: 6 kernel_size: 5 stride: 2 bias: false } }
  layer { name: "norm" batch_normalisation { activation: TANH } }
  layer { flatten {} }
  layer { name: "hidden" dense { units: 16 activation: TANH } }
  layer { name: "head" dense { units: 10 } }
"""
OLD_LAYERS = """
  layer { flatten {} }
  layer { dense { units: 128 activation: RELU } }
  layer { dense { units: 10 } }
"""
TEST_IMAGES = re.search(r'test_images: "(.*)"', JOB)[1]
assert OLD_LAYERS in JOB
NETWORK = JOB.replace(OLD_LAYERS, MODEL)
SHORT = ["epochs=1", "data.limit_samples=700"]
# One step at a learning rate so small that no parameter changes.
STILL = ["max_steps=1", "optimizer.learning_rate=1e-30", "optimizer.weight_decay=0"]
FROZEN = ['model.layer[0].trainable=false', 'model.layer[1].trainable=false']


def tensors(path):
    """{name: (shape, values)} of a safetensors file."""
    with open(path, "rb") as file:
        return {name: (shape, array.array("f", content))
                for name, (_, shape, content) in read_safetensors.read_tensors(file.read()).items()}


def weights(run):
    """The parameters and the means of the moving statistics of the newest checkpoint."""
    found = tensors(os.path.join(run.checkpoints()[-1], "model.safetensors"))
    found.update(tensors(os.path.join(run.checkpoints()[-1], "statistics.safetensors")))
    found.pop("workers", None)
    return {name: values for name, (_, values) in found.items()}


class WeightsTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tethys-weights-")
        cls.base = os.path.join(cls.folder, "base")
        with Run(SHORT, job=NETWORK, directory=cls.base) as run:
            run.run()
            cls.weights = weights(run)
            cls.checkpoint = run.checkpoints()[-1]
        cls.job = os.path.join(cls.folder, "job.textproto")
        with open(cls.job, "w", encoding="utf-8") as file:
            file.write(NETWORK)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def refused(self, arguments, *texts, status=2):
        found, output = command(arguments)
        self.assertEqual(found, status, output)
        for text in texts:
            self.assertIn(text, output)

    # ---- initial { checkpoint }

    def test_every_strategy_starts_from_a_checkpoint(self):
        for name, strategy in STRATEGIES.items():
            with self.subTest(name), Run([*strategy, *STILL, f"initial.checkpoint={self.base}"], job=NETWORK) as run:
                run.run()
                found = weights(run)
                for variable, values in self.weights.items():
                    if "moving" not in variable:
                        self.assertEqual(found[variable].tobytes(), values.tobytes(), variable)
                # A step has moved the statistics away from the checkpoint's, by a tenth of the way to the
                # statistics of the batch.
                norm = "norm/moving_variance"
                self.assertNotEqual(found[norm], self.weights[norm])
                for mine, theirs in zip(found[norm], self.weights[norm]):
                    self.assertLess(abs(mine - theirs), 0.2 * theirs)
                self.assertIn(f"starting with the values of {self.base}", run.output)

    def test_optimizer_slots_start_anew(self):
        adagrad = NETWORK.replace("sgd { momentum: 0.9 }", "adagrad { initial_accumulator: 0.5 }")
        for name in ("local", "ps_sync"):
            with self.subTest(name), Run([*STRATEGIES[name], *STILL, f"initial.checkpoint={self.base}"],
                                         job=adagrad) as run:
                run.run()
                for variable, values in run.parameters().items():
                    if variable.startswith("accumulator/"):
                        self.assertTrue(all(value >= 0.5 for value in values), variable)

    def test_excepted_variables_start_at_random_values(self):
        changed = NETWORK.replace('units: 16', 'units: 20')
        initial = [f"initial.checkpoint={self.base}", 'initial.except=hidden/,head/weights']
        with Run([*STILL, *initial], job=changed) as run, Run(STILL, job=changed) as random:
            run.run()
            random.run()
            found, drawn = weights(run), weights(random)
            for name in ("hidden/weights", "head/weights"):
                self.assertEqual(found[name].tobytes(), drawn[name].tobytes(), name)
            for name in ("stem/filters", "norm/scale", "head/bias"):
                self.assertEqual(found[name].tobytes(), self.weights[name].tobytes(), name)

    def test_resume_does_not_need_the_initial_checkpoint(self):
        source = self.path("source")
        shutil.copytree(self.base, source)
        job = [*SHORT, f"initial.checkpoint={source}"]
        with Run(job, job=NETWORK) as run, Run([*job, "epochs=2"], job=NETWORK) as whole:
            run.run()
            whole.run()
            shutil.rmtree(source)
            run.run(resume=True, overrides=["epochs=2"])
            # The learning rate falls linearly over all epochs of a job. In the first epoch of `run` the job
            # has one epoch, but the job of `whole` has two. So the results of the two runs differ, but both
            # runs use the same samples.
            self.assertEqual(run.summary()["steps"], whole.summary()["steps"])
            self.assertTrue(os.path.exists(run.path("checkpoints", "initial", "step-0", "manifest.textproto")))

    # ---- frozen layers

    def test_frozen_layers_keep_their_values_under_every_strategy(self):
        initial = f"initial.checkpoint={self.base}"
        runs = {}
        try:
            for name, strategy in STRATEGIES.items():
                run = Run([*strategy, *SHORT, *FROZEN, initial], job=NETWORK)
                runs[name] = run
                run.run()
                found = weights(run)
                for variable, values in self.weights.items():
                    same = found[variable].tobytes() == values.tobytes()
                    self.assertEqual(same, variable.startswith(("stem/", "norm/")), f"{name}: {variable}")
            trained = {name: {variable: values for variable, values in run.parameters().items()
                              if "stem/" not in variable and "norm/" not in variable}
                       for name, run in runs.items()}
            for name in ("mirrored", "ps_sync"):
                for variable, values in trained["local"].items():
                    difference = sum((a - b) ** 2 for a, b in zip(values, trained[name][variable])) ** 0.5
                    norm = sum(value * value for value in values) ** 0.5
                    self.assertLessEqual(difference, 1e-5 * norm, f"{name}: {variable}")
        finally:
            for run in runs.values():
                run.__exit__()

    def test_frozen_random_values_survive_a_resume(self):
        frozen = ['model.frozen=stem,norm', *STRATEGIES["ps_sync"]]
        with Run([*frozen, *SHORT], job=NETWORK) as run, Run(STILL, job=NETWORK) as random:
            run.run()
            random.run()
            self.assertEqual(weights(run)["stem/filters"].tobytes(), weights(random)["stem/filters"].tobytes())
            run.run(resume=True, overrides=["epochs=2", "strategy=mirrored", "workers=2"])
            self.assertEqual(weights(run)["stem/filters"].tobytes(), weights(random)["stem/filters"].tobytes())
            self.assertEqual(set(weights(run)["norm/moving_variance"]), {1.0})

    # ---- export and import

    def export(self):
        path = self.path("weights.safetensors")
        status, output = command(["export", f"--checkpoint={self.base}", f"--out={path}"])
        self.assertEqual(status, 0, output)
        return path

    def test_exported_weights_have_names_and_layouts_of_pytorch(self):
        exported = tensors(self.export())
        self.assertEqual({name: shape for name, (shape, _) in exported.items()},
                         {"stem.weight": [6, 1, 5, 5], "norm.weight": [6], "norm.bias": [6], "norm.running_mean": [6],
                          "norm.running_var": [6], "hidden.weight": [16, 864], "hidden.bias": [16],
                          "head.weight": [10, 16], "head.bias": [10]})
        values = {name: content for name, (_, content) in exported.items()}
        # With one input channel, both layouts have the filters' values in the same order.
        self.assertEqual(values["stem.weight"], self.weights["stem/filters"])
        self.assertEqual(values["norm.running_var"], self.weights["norm/moving_variance"])
        for out in range(10):
            for i in range(16):
                self.assertEqual(values["head.weight"][out * 16 + i], self.weights["head/weights"][i * 10 + out])
        # The features behind the flatten are [12, 12, 6] in Tethys, and [6, 12, 12] in PyTorch.
        for out in (0, 7, 15):
            for row in range(12):
                for column in range(12):
                    for channel in range(6):
                        self.assertEqual(values["hidden.weight"][out * 864 + (channel * 12 + row) * 12 + column],
                                         self.weights["hidden/weights"][((row * 12 + column) * 6 + channel) * 16 + out])

    def test_imported_weights_come_back_bit_equal(self):
        out = self.path("imported")
        status, output = command(["import", self.job, f"--weights={self.export()}", f"--out={out}"])
        self.assertEqual(status, 0, output)
        with Run(["epochs=1"], job=NETWORK, directory=out) as imported:
            imported.checkpoints = lambda: [os.path.join(out, "step-0")]
            for name, values in weights(imported).items():
                self.assertEqual(values.tobytes(), self.weights[name].tobytes(), name)
        evaluations = [command(["evaluate", f"--checkpoint={path}", self.job])[1].partition("): ")[2]
                       for path in (self.base, out)]
        self.assertIn("accuracy", evaluations[0])
        self.assertEqual(evaluations[0], evaluations[1])
        self.refused(["import", self.job, f"--weights={self.export()}", f"--out={out}"], "step-0 exists")

    def test_onnx_graph_gives_the_logits_of_predictions(self):
        path = self.path("model.onnx")
        status, output = command(["export", f"--checkpoint={self.base}", f"--out={path}"])
        self.assertEqual(status, 0, output)
        with open(path, "rb") as file:
            graph = onnx_graph.read_graph(file.read())
        self.assertEqual(graph.inputs, [("input", ["N", 1, 28, 28])])
        self.assertEqual(graph.outputs, [("logits", ["N", 10])])
        with open(TEST_IMAGES, "rb") as file:
            pixels = file.read()[16:]
        predicted = self.read_npy(self.predict("compared.npy", f"--images={TEST_IMAGES}"), 2000)
        for sample in (0, 1, 1999):
            logits = graph.run([float(value) for value in pixels[sample * 784:(sample + 1) * 784]])
            for mine, theirs in zip(predicted[sample], logits, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5 * max(1, abs(theirs)))

    def test_exported_files_describe_inputs_and_outputs(self):
        path, onnx = self.export(), self.path("told.onnx")
        with open(path, "rb") as file:
            content = file.read()
        told = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        with open(os.path.join(self.checkpoint, "manifest.textproto"), encoding="utf-8") as file:
            manifest = file.read()
        for key in ("mean", "deviation"):
            self.assertAlmostEqual(json.loads(told[key])[0], float(re.search(rf"{key}: (\S+)", manifest)[1]), places=6)
        self.assertEqual(told["input"], "float32 [N, 1, 28, 28] (batch, channels, height, width)")
        self.assertIn("(pixel / 255 - mean) / deviation", told["values"])
        self.assertEqual((told["format"], told["output"]), ("pt", "logits, float32 [N, 10]"))
        self.assertIn("need an axis of channels: pixels[:, None]", told["order"])
        self.assertIn("without antialiasing", told["resize"])
        _, output = command(["export", f"--checkpoint={self.base}", f"--out={path}"])
        self.assertIn("model.eval(); pixels = pixels[:, None]; model((pixels / 255 - ", " ".join(output.split()))
        status, output = command(["export", f"--checkpoint={self.base}", f"--out={onnx}"])
        self.assertEqual(status, 0, output)
        self.assertIn("not divided by 255", " ".join(output.split()))
        self.assertIn('{"input": batch[:, None].astype("float32")}', " ".join(output.split()))
        with open(onnx, "rb") as file:
            model = onnx_graph.fields(file.read())
        properties = {onnx_graph.text(entry, 1): onnx_graph.text(entry, 2)
                      for entry in map(onnx_graph.fields, model[14])}
        self.assertEqual(properties["mean"], told["mean"])
        self.assertIn("not divided by 255", properties["values"])
        self.assertIn("not divided by 255", model[6][0].decode())

    def rewritten(self, name, rename=lambda name: name, dtype="F32", convert=lambda values: values.tobytes()):
        """A copy of the exported weights with other names, and floats of another type."""
        path, header, data = self.path(name), {}, b""
        for tensor, (shape, values) in tensors(self.export()).items():
            content = convert(values)
            header[rename(tensor)] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data)
        return path

    def imported(self, name, *arguments):
        out = self.path(name)
        status, output = command(["import", self.job, f"--out={out}", *arguments])
        self.assertEqual(status, 0, output)
        return output, tensors(os.path.join(out, "step-0", "model.safetensors"))

    def test_import_ignores_a_prefix_common_to_all_tensor_names(self):
        for prefix in ("module.", "_orig_mod.module.", "model."):
            path = self.rewritten(f"{prefix}safetensors", lambda name: prefix + name)
            output, found = self.imported(f"out-{prefix}", f"--weights={path}")
            self.assertIn(f"left out the prefix '{prefix}'", output)
            self.assertEqual(found["head/bias"][1], self.weights["head/bias"])
        # A variable that --except names need not be in the file.
        path = self.rewritten("other.safetensors", lambda name: "module." + name.replace("head", "classifier"))
        output, found = self.imported("out-other", f"--weights={path}", "--except=head.")
        self.assertIn("left out 2 tensors that the model does not have: classifier.weight, classifier.bias", output)
        self.assertEqual(found["hidden/bias"][1], self.weights["hidden/bias"])
        self.refused(["import", self.job, f"--weights={path}", f"--out={self.path('none')}"],
                     "has no tensor 'stem.weight'", "the file has 'module.stem.weight' ([6, 1, 5, 5]), 'module.", "--except")

    def test_floats_of_other_widths_are_widened_or_refused(self):
        def bfloat16(values):
            return b"".join(struct.pack("<f", value)[2:] for value in values)
        for dtype, convert, widened in (
                ("F16", lambda values: struct.pack(f"<{len(values)}e", *values),
                 lambda value: struct.unpack("<e", struct.pack("<e", value))[0]),
                ("BF16", bfloat16, lambda value: struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]),
                ("F64", lambda values: struct.pack(f"<{len(values)}d", *values), lambda value: value)):
            with self.subTest(dtype):
                path = self.rewritten(f"{dtype}.safetensors", dtype=dtype, convert=convert)
                _, found = self.imported(f"out-{dtype}", f"--weights={path}")
                for name in ("stem/filters", "head/bias"):
                    self.assertEqual(list(found[name][1]), [widened(value) for value in self.weights[name]])
        remedy = "safetensors.torch.save_file(model.float().state_dict(), FILE)"
        path = self.rewritten("lossy.safetensors", dtype="F64",
                              convert=lambda values: struct.pack(f"<{len(values)}d", *([0.1] * len(values))))
        self.refused(["import", self.job, f"--weights={path}", f"--out={self.path('no64')}"],
                     "tensor 'stem.weight' is F64, and its value at index 0 cannot be represented exactly in F32",
                     remedy)
        for dtype, size in (("I32", 4), ("F8_E4M3", 1)):
            path = self.rewritten(f"{dtype}.safetensors", dtype=dtype, convert=lambda values: bytes(size * len(values)))
            self.refused(["import", self.job, f"--weights={path}", f"--out={self.path('no8')}"],
                         f"'stem.weight' is {dtype} [6, 1, 5, 5]", remedy)

    def test_names_of_classes_go_from_folders_to_answers(self):
        root = self.path("pets")
        for split in ("train", "test"):
            for name, shade in (("cat", 20), ("dog", 220)):
                os.makedirs(os.path.join(root, split, name))
                for i in range(8):
                    with open(os.path.join(root, split, name, f"{i}.png"), "wb") as file:
                        file.write(png(8, [[shade + i] * 8] * 8))
        job, run = self.path("pets.textproto"), self.path("pets-run")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f"""model {{ layer {{ flatten {{}} }} layer {{ name: "fc" dense {{ units: 2 }} }} }}
                data {{ image_folder {{ train: "{root}/train" test: "{root}/test" }} classes: 2 compute_standardisation: true }}
                optimizer {{ sgd {{}} learning_rate: 0.1 }} global_batch_size: 4 epochs: 4""")
        status, output = command(["train", job, f"--run_dir={run}"])
        self.assertEqual(status, 0, output)
        picture = os.path.join(root, "test", "dog", "3.png")
        status, output = command(["predict", f"--checkpoint={run}", f"--images={picture}"])
        self.assertEqual(status, 0, output)
        self.assertRegex(output, rf"^{picture}: dog \d+\.\d %")
        table = self.path("pets.csv")
        status, output = command(["predict", f"--checkpoint={run}", f"--out={table}"])
        self.assertEqual(status, 0, output)
        with open(table, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({(row["label"], row["label_name"], row["class"], row["class_name"]) for row in rows},
                         {("0", "cat", "0", "cat"), ("1", "dog", "1", "dog")})
        self.assertGreater(float(rows[0][f"probability_{rows[0]['label_name']}"]), 0.5)
        _, output = command(["evaluate", f"--checkpoint={run}"])
        self.assertIn("    0  cat         8      100.00", output)
        weights_file = self.path("pets.safetensors")
        _, output = command(["export", f"--checkpoint={run}", f"--out={weights_file}"])
        self.assertIn('class_names  ["cat", "dog"]', output)
        # The names of classes are kept even through a format that cannot store names.
        for form, data in (("npy", job), ("image_folder", self.path("pets-npy/data.textproto"))):
            status, output = command(["data", "convert", data, f"--to={form}", f"--out={self.path('pets-' + form)}"])
            self.assertEqual(status, 0, output)
        self.assertEqual(sorted(os.listdir(self.path("pets-image_folder/train"))), ["cat", "dog"])
        # A damaged picture, and a split that does not exist.
        with open(picture, "wb") as file:
            file.write(png(8, [[1] * 8] * 8)[:60])
        self.refused(["predict", f"--checkpoint={run}", f"--images={picture}"], "3.png")
        self.refused(["predict", f"--checkpoint={run}", "--split=validation"], "give --split=test or --split=train")
        self.refused(["evaluate", f"--checkpoint={run}", "--split=validation"], "give --split=test or --split=train")

    # ---- predict

    def predict(self, name, *flags):
        path = self.path(name)
        status, output = command(["predict", f"--checkpoint={self.base}", f"--out={path}", *flags])
        self.assertEqual(status, 0, output)
        return path

    def read_npy(self, path, samples):
        """The rows of a float32 array [samples, 10], by the rules of NumPy's format 1.0."""
        with open(path, "rb") as file:
            content = file.read()
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        begin = 10 + int.from_bytes(content[8:10], "little")
        self.assertEqual(begin % 64, 0)
        header = ast.literal_eval(content[10:begin].decode())
        self.assertEqual(header, {"descr": "<f4", "fortran_order": False, "shape": (samples, 10)})
        values = array.array("f", content[begin:])
        self.assertEqual(len(values), samples * 10)
        return [values[i:i + 10] for i in range(0, len(values), 10)]

    def test_predictions_have_the_accuracy_of_an_evaluation(self):
        # None of these numbers is a multiple of the batch of 256 samples, so the last batch is filled up.
        for split, samples in (("test", 2000), ("validation", 1000), ("train", 700)):
            with self.subTest(split), open(self.predict(f"{split}.csv", f"--split={split}"), encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
                self.assertEqual([int(row["sample"]) for row in rows], list(range(samples)))
                correct = sum(row["label"] == row["class"] for row in rows)
                _, output = command(["evaluate", f"--checkpoint={self.base}", f"--split={split}"])
                self.assertIn(f"accuracy {correct / samples:.4f}, ", output)

    def test_logits_of_images_are_those_of_the_samples(self):
        with open(self.predict("all.csv"), encoding="utf-8") as file:
            rows = list(csv.reader(file))
        logits = self.read_npy(self.predict("images.npy", f"--images={TEST_IMAGES}"), 2000)
        self.assertEqual(rows[0], ["sample", "label", "class", *(f"probability_{i}" for i in range(10))])
        for (_, _, best, *probabilities), outputs in zip(rows[1:], logits):
            self.assertEqual(int(best), max(range(10), key=outputs.__getitem__))
            exponentials = [math.exp(value - max(outputs)) for value in outputs]
            for written, value in zip(probabilities, exponentials):
                self.assertAlmostEqual(float(written), value / sum(exponentials), delta=1e-8)
        packed = self.path("packed-idx3-ubyte.gz")
        with open(TEST_IMAGES, "rb") as file, gzip.open(packed, "wb", compresslevel=1) as out:
            shutil.copyfileobj(file, out)
        with open(self.predict("unlabelled.csv", f"--images={packed}"), encoding="utf-8") as file:
            self.assertEqual([row[1:] for row in csv.reader(file)], [row[2:] for row in rows])

    def test_logits_of_a_split_are_those_of_its_converted_samples(self):
        """The guide compares PyTorch's outputs on converted samples with these logits."""
        status, output = command(["data", "convert", self.job, "--to=npy", f"--out={self.path('split')}"])
        self.assertEqual(status, 0, output)
        logits = self.read_npy(self.predict("split.npy"), 2000)
        arrays = f"--images={self.path('split')}/test-images.npy"
        self.assertEqual(self.read_npy(self.predict("converted.npy", arrays), 2000), logits)

    def test_arrays_and_pictures_are_predicted_as_the_same_images(self):
        logits = self.read_npy(self.predict("idx.npy", f"--images={TEST_IMAGES}"), 2000)
        for form in ("npy", "image_folder"):
            status, output = command(["data", "convert", self.job, f"--to={form}", f"--out={self.path(form)}"])
            self.assertEqual(status, 0, output)
        arrays = [name for name in os.listdir(self.path("npy")) if "test" in name and "image" in name]
        self.assertEqual(self.read_npy(self.predict("array.npy", f"--images={self.path('npy')}/{arrays[0]}"), 2000), logits)
        # Pictures are read in the order of their paths; the outputs of each number belong to the picture with
        # that number.
        with open(self.predict("pictures.csv", f"--images={self.path('image_folder')}/test"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        paths = [row["file"] for row in rows]
        self.assertEqual((paths, len(set(paths))), (sorted(paths), 2000))
        self.assertTrue(os.path.exists(os.path.join(self.path("image_folder"), "test", paths[0])))
        numbers = [int(re.search(r"(\d+)\.png$", path)[1]) for path in paths]
        self.assertEqual(sorted(numbers), list(range(min(numbers), min(numbers) + 2000)))
        for row, number in zip(rows, numbers):
            outputs = logits[number - min(numbers)]
            self.assertEqual(int(row["class"]), max(range(10), key=outputs.__getitem__), row["file"])
        # A picture enlarged by repeating each pixel is scaled back to the size of the model's input.
        name = os.path.join(self.path("image_folder"), "test", paths[0])
        with open(self.predict("one.csv", f"--images={name}"), encoding="utf-8") as file:
            one = next(csv.DictReader(file))
        self.assertEqual(one["file"], name)
        with open(TEST_IMAGES, "rb") as file:
            pixels = file.read()[16 + 784 * (numbers[0] - min(numbers)):][:784]
        large = self.path("large.png")
        with open(large, "wb") as file:
            file.write(png(56, [[pixels[y // 2 * 28 + x // 2] for x in range(56)] for y in range(56)]))
        self.refused(["predict", f"--checkpoint={self.base}", f"--out={self.path('b.csv')}", f"--images={large}"],
                     f"{large}: 56 x 56 pixels, but the model takes 28 x 28: add --resize")
        with open(self.predict("resized.csv", f"--images={large}", "--resize"), encoding="utf-8") as file:
            resized = next(csv.DictReader(file))
        for i in range(10):
            self.assertAlmostEqual(float(resized[f"probability_{i}"]), float(one[f"probability_{i}"]), delta=1e-4)
        # Predicts the same enlarged picture from an IDX file.
        large = self.path("large-idx3-ubyte")
        with open(large, "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 1, 56, 56))
            file.write(bytes(pixels[y // 2 * 28 + x // 2] for y in range(56) for x in range(56)))
        with open(self.predict("idx-resized.csv", f"--images={large}", "--resize"), encoding="utf-8") as file:
            resized = next(csv.DictReader(file))
        for i in range(10):
            self.assertAlmostEqual(float(resized[f"probability_{i}"]), float(one[f"probability_{i}"]), delta=1e-4)

    def test_pictures_are_resized_if_the_job_of_the_run_resizes(self):
        root, run = self.path("large"), self.path("large-run")
        for split in ("train", "test"):
            for name, shade in (("cat", 20), ("dog", 220)):
                os.makedirs(os.path.join(root, split, name))
                for i in range(4):
                    size = 8 + 4 * i  # Most pictures are larger than the model's 8 x 8 pixels.
                    with open(os.path.join(root, split, name, f"{i}.png"), "wb") as file:
                        file.write(png(size, [[shade + (x + y + i) % 9 for x in range(size)] for y in range(size)]))
        job = self.path("large.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f"""model {{ layer {{ flatten {{}} }} layer {{ name: "fc" dense {{ units: 2 }} }} }}
                data {{ image_folder {{ train: "{root}/train" test: "{root}/test" }} classes: 2
                        resize {{ height: 8 width: 8 }} }}
                optimizer {{ sgd {{}} learning_rate: 0.1 }} global_batch_size: 4 epochs: 2""")
        status, output = command(["train", job, f"--run_dir={run}"])
        self.assertEqual(status, 0, output)
        pictures = f"--images={root}/test"
        told = f"{root}/test: each picture that is not 8 x 8 is resized to this size, as in training (data.resize)"
        status, output = command(["predict", f"--checkpoint={run}", pictures])
        self.assertEqual(status, 0, output)
        self.assertIn(told, output)
        lines = output.replace(told + "\n", "")
        status, asked = command(["predict", f"--checkpoint={run}", pictures, "--resize"])
        self.assertEqual((status, asked), (0, lines), "with the flag, nothing is said")
        # A checkpoint that lies in no run has no job that tells how it was trained.
        alone = self.path("alone")
        shutil.copytree(os.path.realpath(glob.glob(f"{run}/checkpoints/step-*")[0]), alone)
        self.refused(["predict", f"--checkpoint={alone}", pictures], "but the model takes 8 x 8: add --resize")

    def test_impossible_predictions_are_refused(self):
        labels = re.search(r'test_labels: "(.*)"', JOB)[1]
        small = self.path("small-idx3-ubyte")
        with open(small, "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 1, 2, 2) + bytes(4))
        deep = self.path("deep-idx4-ubyte")
        with open(deep, "wb") as file:
            file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, 1, 28, 28, 3) + bytes(28 * 28 * 3))
        cut, cut_packed = self.path("cut-idx3-ubyte"), self.path("cut-idx3-ubyte.gz")
        with open(TEST_IMAGES, "rb") as file:
            content = file.read()
        with open(cut, "wb") as file:
            file.write(content[:-1])
        with open(cut_packed, "wb") as file:
            file.write(gzip.compress(content, 1)[:-1000])
        wide = self.path("wide.textproto")
        with open(wide, "w", encoding="utf-8") as file:
            file.write(NETWORK.replace("classes: 10", "classes: 11").replace("units: 10", "units: 11"))
        os.makedirs(self.path("folder.csv"))
        out = f"--out={self.path('a.csv')}"
        for flags, text in ((["--out=a.txt"], "must end in .csv or .npy"),
                            ([out, f"--images={small}"], "have shape [2, 2], but the model of"),
                            ([out, f"--images={labels}"], "labels"),
                            ([out, f"--images={self.path('none')}"], "none"),
                            ([out, f"--images={wide}"], "is neither a picture (PNG, JPEG) nor an IDX file"),
                            ([out, f"--images={small}"], "takes [28, 28]: add --resize to bring every picture"),
                            ([out, f"--images={deep}", "--resize"], "takes [28, 28]: convert the data"),
                            ([out, f"--images={cut}"], "truncated"),
                            ([out, f"--images={cut_packed}"], "truncated"),
                            ([out, f"--images={TEST_IMAGES}", "--split=test"], "leave out JOB, --split and"),
                            ([out, f"--images={TEST_IMAGES}", "--set=seed=1"], "leave out JOB, --split and"),
                            ([out, f"--images={TEST_IMAGES}", self.job], "leave out JOB, --split and"),
                            ([out, f"--images={self.path('folder.csv')}"], "the folder holds no picture"),
                            ([out, "--resize"], "--resize is for the pictures of --images"),
                            ([out, wide], "data.classes is 11, but the model of"),
                            ([out, "--split=tset"], "must be test, validation or train"),
                            ([f"--out={self.path('folder.csv')}"], "is a directory"),
                            ([f"--out={self.path('no/a.csv')}"], "cannot create")):
            with self.subTest(text):
                self.refused(["predict", f"--checkpoint={self.base}", *flags], text)
        self.assertFalse(os.path.exists(self.path("a.csv")))
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])

    def old_checkpoint(self, name, field):
        """A copy of the newest checkpoint as an old build wrote it: its manifest lacks `field`."""
        copy = self.path(name)
        shutil.copytree(self.checkpoint, copy)
        manifest = os.path.join(copy, "manifest.textproto")
        with open(manifest, encoding="utf-8") as file:
            text = file.read()
        body = re.sub(rf"^( *){field} {{\n.*?^\1}}\n", "", text[:text.rindex("#")], count=1, flags=re.M | re.S)
        self.assertLess(len(body), text.rindex("#"))
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f"{body}# crc32: {zlib.crc32(body.encode()):08x}\n")
        return copy

    def test_checkpoints_of_old_builds_are_refused(self):
        remedy = "resume the run for one epoch"
        for field, missing in (("description", "does not describe its model"),
                               ("scaling", "does not say how inputs are standardised")):
            old = self.old_checkpoint(f"without-{field}", field)
            for verb, file in (("predict", "old.csv"), ("predict", "old.npy"), ("export", "old.onnx")):
                with self.subTest(field, file=file):
                    flags = [f"--images={TEST_IMAGES}"] if verb == "predict" else []
                    self.refused([verb, f"--checkpoint={old}", f"--out={self.path(file)}", *flags], missing, remedy)
                    self.assertFalse(os.path.exists(self.path(file)))

    # ---- bad input

    def test_bad_initial_values_are_refused_before_anything_starts(self):
        run_dir = self.path("refused")
        for overrides, texts in (
                ([f"initial.checkpoint={self.path('nowhere')}"], ["initial.checkpoint", "nowhere does not exist"]),
                (["initial.except=head"], ["initial.checkpoint", "is missing"]),
                ([f"initial.checkpoint={self.base}", "model.layer[4].name=last"],
                 ["has no variable 'last/weights' (the checkpoint has 'head/weights' of [16, 10], ", " more)",
                  "initial.except"]),
                ([f"initial.checkpoint={self.base}", "model.layer[3].dense.units=17"],
                 ["'hidden/weights' has shape [864, 16]", "[864, 17]"]),
                ([f"initial.checkpoint={self.base}", "initial.except=tail/"], ["no variable's name begins with \"tail/\""]),
                (["model.frozen=stern"], ["model.frozen[0]", "no layer's name begins with it"]),
                (["model.layer[1].trainable=false"], ["layer 'norm'", "a layer before it is"]),
                (["model.frozen=stem,norm,h"], ["nothing to train"])):
            with self.subTest(overrides[-1]):
                for verb in ("train", "plan"):
                    flags = [f"--run_dir={run_dir}"] if verb == "train" else []
                    self.refused([verb, self.job, *flags, *(f"--set={value}" for value in overrides)], *texts)
        self.assertFalse(os.path.exists(run_dir))

    def test_bad_files_are_refused(self):
        exported = self.export()
        cut = self.path("cut.safetensors")
        with open(exported, "rb") as file:
            content = file.read()
        with open(cut, "wb") as file:
            file.write(content[:-4])
        pickled = self.path("weights.pt")
        with zipfile.ZipFile(pickled, "w") as file:
            file.writestr("archive/data.pkl", "a pickle")
        out = self.path("bad")
        wide = "--set=model.layer[3].dense.units=17"
        renamed = "--set=model.layer[4].name=last"
        for arguments, text in (([f"--weights={self.path('none')}"], "cannot open"),
                                ([f"--weights={self.job}"],
                                 "is no safetensors file: write a safetensors file by safetensors.torch"),
                                ([f"--weights={pickled}"], "but a ZIP archive, as torch.save writes it"),
                                ([f"--weights={cut}"], "cut short"),
                                ([f"--weights={exported}", wide], "'hidden.weight' is F32 [16, 864]"),
                                ([f"--weights={exported}", renamed], "has no tensor 'last.weight'")):
            with self.subTest(text):
                self.refused(["import", self.job, f"--out={out}", *arguments], text)
                self.assertFalse(os.path.exists(os.path.join(out, "step-0")))
        self.refused(["export", f"--checkpoint={self.base}", "--out=weights.pth"], "must end in", ".safetensors")
        self.refused(["export", f"--checkpoint={self.path('none')}", "--out=a.safetensors"], "does not exist")
        for ending in ("safetensors", "onnx"):
            folder = self.path(f"folder.{ending}")
            os.makedirs(folder)
            self.refused(["export", f"--checkpoint={self.base}", f"--out={folder}"], "is a directory")
            self.refused(["export", f"--checkpoint={self.base}", f"--out={self.path('no/a.' + ending)}"],
                         "cannot create")

    def test_variable_left_out_of_an_import_gets_random_values(self):
        out = self.path("partial")
        status, output = command(["import", self.job, f"--weights={self.export()}", f"--out={out}",
                                  "--set=model.layer[4].name=last", "--except=last."])
        self.assertEqual(status, 0, output)
        self.assertIn("left out 2 tensors that the model does not have: head.weight, head.bias", output)


if __name__ == "__main__":
    unittest.main()
