#!/usr/bin/env python3
"""Tests chief:// files: workers on machines without the data fetch them from the chief, once a machine. The machines
are simulated by Linux namespaces (namespaces.py). Needs root; a skipped test names the reason.
"""
import glob
import os
import re
import shutil
import tempfile
import unittest

import namespaces
import read_safetensors
from tethys_run import DATA, JOB, TETHYS, build_id

FOLDER = tempfile.TemporaryDirectory(prefix="tethys-chief-files-test-")
PROGRAM = shutil.copy(TETHYS, FOLDER.name)
HOSTS = "master role=chief\nslave1 slots=2 role=worker\nslave2 role=worker\n"
MIRRORED = ["strategy=mirrored", "workers=3", "epochs=1"]
CHIEF_JOB = JOB.replace(f'"{DATA.name}/', '"chief://data/')


@unittest.skipIf(namespaces.why_not(), namespaces.why_not())
class ChiefFilesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = namespaces.Cluster(["master", "slave1", "slave2"])
        self.addCleanup(self.cluster.close)
        for name in ("slave1", "slave2"):
            self.cluster[name].install(PROGRAM, build_id())
        self.home = self.cluster["master"].home
        shutil.copytree(DATA.name, os.path.join(self.home, "data"))
        self.write("hosts", HOSTS)

    def write(self, name, text):
        with open(os.path.join(self.home, name), "w", encoding="utf-8") as file:
            file.write(text)

    def train(self, name, job, *overrides, code=0):
        self.write("job.textproto", job)
        status, output = self.cluster.run(
            "master", [PROGRAM, "train", "--plain", f"--run_dir={name}", "--hostfile=hosts",
                       f"--ssh_config={self.cluster.ssh_config}", "job.textproto",
                       *(f"--set={value}" for value in (*MIRRORED, *overrides))])
        self.assertEqual(status, code, output)
        return output

    def parameters(self, name):
        checkpoint = max(glob.glob(os.path.join(self.home, name, "checkpoints", "step-*")))
        with open(glob.glob(os.path.join(checkpoint, "*.safetensors"))[0], "rb") as file:
            return read_safetensors.read_tensors(file.read())

    def cached(self, machine):
        """The machine's copies of the chief's files, without the cached samples in the same folder."""
        folder = os.path.join(self.cluster[machine].home, ".cache", "tethys", "data")
        names = sorted(os.listdir(folder)) if os.path.exists(folder) else []
        return [name for name in names if not name.startswith("samples-")]

    def fetches(self, name):
        """The lines of all workers' logs that say that a worker fetched files."""
        lines = []
        for path in glob.glob(os.path.join(self.home, name, "**", "*worker*"), recursive=True):
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    lines += [line for line in file if re.search(r"fetched \d+ file", line)]
        return lines

    def test_workers_without_the_data_train_the_same_bits(self):
        self.train("plain", JOB)
        self.assertEqual(self.cached("slave1"), [])
        output = self.train("chief", CHIEF_JOB)
        self.assertIn("checked the journal", output)
        self.assertEqual(self.parameters("chief"), self.parameters("plain"))
        for machine in ("slave1", "slave2"):
            names = self.cached(machine)
            self.assertEqual(len(names), 4, names)
            self.assertFalse([name for name in names if not re.fullmatch(r"chief-[0-9a-f]{32}", name)])
        self.assertEqual(self.cached("master"), [])
        self.assertEqual(len(self.fetches("chief")), 8, "each of the two machines fetches each of the four files once")
        # The next run uses the files that were fetched earlier, and fetches only the files that have changed
        # since.
        self.train("again", CHIEF_JOB)
        self.assertEqual(self.fetches("again"), [])
        labels = os.path.join(self.home, "data", "t10k-labels-idx1-ubyte")
        with open(labels, "r+b") as file:
            file.seek(8)
            first = file.read(1)[0]
            file.seek(8)
            file.write(bytes([(first + 1) % 10]))
        self.train("changed", CHIEF_JOB)
        self.assertEqual(len(self.fetches("changed")), 2)

    def test_chief_on_another_machine_needs_the_files_and_serves_them(self):
        self.write("hosts", "slave1 role=chief\nslave2 role=worker\n")
        one = ["workers=1", "max_steps=5"]
        output = self.train("without", CHIEF_JOB, *one, code=2)
        self.assertIn("host slave1: data file data/train-images-idx3-ubyte: No such file", output)
        self.assertNotIn("host slave2", output)
        shutil.copytree(DATA.name, os.path.join(self.cluster["slave1"].home, "data"))
        self.train("with", CHIEF_JOB, *one)
        self.assertEqual(len(self.cached("slave2")), 4)

    def test_paths_that_leave_their_folder_are_refused(self):
        self.assertIn('without ".."', self.train("up", CHIEF_JOB.replace("chief://data/", "chief://data/../data/"), code=2))
        os.rename(os.path.join(self.home, "data", "t10k-labels-idx1-ubyte"), os.path.join(self.home, "labels"))
        os.symlink("../labels", os.path.join(self.home, "data", "t10k-labels-idx1-ubyte"))
        self.assertIn("is a link that leads out of", self.train("link", CHIEF_JOB, code=1))
        self.assertEqual(self.cached("slave1"), [])


if __name__ == "__main__":
    unittest.main()
