#!/usr/bin/env python3
"""Tests of `tethys hosts check` and `tethys sweep` on simulated machines, sets of Linux namespaces whose links have a
known bandwidth. Needs root; a skipped test names the reason.

    hosts_check_test.py TETHYS
"""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import namespaces
from tethys_run import SANITIZED, TETHYS, build_id

# A copy of the command; no build replaces the copy during the test.
FOLDER = tempfile.TemporaryDirectory(prefix="tethys-hosts-check-test-")
PROGRAM = shutil.copy(TETHYS, FOLDER.name)
MACHINES = ["master", "slave1", "slave2"]
MEGABITS = 100
SWEPT = """
model { layer { flatten {} } layer { dense { units: 10 } } }
data { synthetic { noise { shape: [ 8, 8, 1 ] } train_samples: 100 } classes: 10 }
optimizer { sgd {} learning_rate: 0.1 }
global_batch_size: 16
epochs: 1
"""


def cells(output, table):
    """{host: cells of its row} of the matrix below the line that begins with `table`."""
    lines = output[output.index("\n" + table):].split("\n")[3:]
    found = {}
    for line in lines:
        words = line.split()
        if not words:
            break
        found[words[1]] = words[2:]
    return found


class HostsCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = namespaces.why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.cluster = namespaces.Cluster(MACHINES, rate=f"{MEGABITS}mbit")
        cls.addClassCleanup(cls.cluster.close)
        cls.build = build_id()

    def install(self, *machines):
        """Installs this build on these machines, as a launcher does, and removes it from the others."""
        for machine in MACHINES:
            program = os.path.join(self.cluster[machine].home, ".cache/tethys", self.build, "tethys")
            if os.path.lexists(program):
                os.remove(program)
            if machine in machines:
                self.cluster[machine].install(PROGRAM, self.build)

    def check(self, hosts):
        path = os.path.join(self.cluster["master"].home, "hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write(hosts)
        return self.cluster.run("master", [PROGRAM, "hosts", "check", f"--hostfile={path}",
                                           f"--ssh_config={self.cluster.ssh_config}"])

    def processes(self, machine):
        """The command lines of the machine's processes."""
        return "\n".join(self.cluster[machine].processes().values())

    def assert_nothing_runs(self):
        """Waits until the remote processes have ended, which their closed connections cause soon after the check."""
        for machine in MACHINES:
            for trace in ("tethys link", "tethys-check"):
                self.wait(lambda: trace not in self.processes(machine), f"end of {trace} on {machine}")

    @unittest.skipIf(SANITIZED, "a sweep bounds the memory of a meter, in which AddressSanitizer may wait for ever to "
                                "print its own lack of memory")
    def test_sweep_measures_one_host_of_each_kind_by_ssh(self):
        self.install("slave1", "slave2")
        home = self.cluster["master"].home
        for name, text in (("hosts", "master kind=big\nslave1 kind=small\nslave2 kind=small\n"), ("job.textproto", SWEPT)):
            with open(f"{home}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        status, output = self.cluster.run(
            "master", [PROGRAM, "sweep", f"{home}/job.textproto", "--batches=8,16", "--rounds=1", "--memory=64",
                       f"--hostfile={home}/hosts", f"--ssh_config={self.cluster.ssh_config}", f"--run_dir={home}/sweep"])
        self.assertEqual(status, 0, output)
        self.assertIn("master (kind big), cpu", output)
        self.assertIn("slave1 (kind small), cpu", output)
        self.assertNotIn("slave2", output)
        with open(f"{home}/sweep/sweep.json", encoding="utf-8") as file:
            curves = json.load(file)["curve"]
        self.assertEqual([(curve["host"], len(curve["time"])) for curve in curves], [("master", 2), ("slave1", 2)])
        for machine in MACHINES:
            self.wait(lambda: "tethys meter" not in self.processes(machine), f"end of the meter on {machine}")

    def test_machines_and_links_are_listed(self):
        self.install("slave1", "slave2")
        status, output = self.check("master\nslave1\nslave2\n")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"1  master +\S+  is here +x86_64|1  master +\S+  is here +aarch64")
        self.assertRegex(output, r"2  slave1 +\S+  yes .* ± \d+\.\d ms\n")
        # A busy machine may delay the receiver while bytes wait in buffers; the link then looks faster than it is.
        for table, least, most in (("Bandwidth", 1, MEGABITS * 1.5), ("Round trip", 1, 1e6)):
            rows = cells(output, table)
            self.assertEqual(list(rows), MACHINES, output)
            for row in rows.values():
                self.assertEqual(len(row), 2, output)  # The diagonal is empty.
                for cell in row:
                    self.assertTrue(least <= float(cell.replace(",", "")) <= most, output)
        self.assert_nothing_runs()

    def test_links_of_machine_without_build_are_not_measured(self):
        self.install("slave1")
        status, output = self.check("master\nslave1\nslave2\n")
        self.assertEqual(status, 0, output)
        self.assertIn("slave2: its links were not measured, because this build is not installed there yet: install it with --install", output)
        self.assertEqual(cells(output, "Bandwidth")["slave2"], ["-", "-"])

    def test_unreachable_machine_fails_the_check(self):
        self.install()
        status, output = self.check("slave1\nslave9 address=10.1.2.3\n")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"slave9: not reached: ssh: .*resolve")
        self.assertRegex(output, r"1  slave1 +\S+  yes ")
        self.assert_nothing_runs()

    def test_no_process_outlives_killed_check(self):
        self.install("slave1", "slave2")
        path = os.path.join(self.cluster["master"].home, "hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write("slave1\nslave2\n")
        with self.cluster.popen("master", [PROGRAM, "hosts", "check", f"--hostfile={path}",
                                           f"--ssh_config={self.cluster.ssh_config}"],
                                stdout=subprocess.DEVNULL) as process:
            self.wait(self.links_run, "a measurement")
            process.kill()
        self.assert_nothing_runs()

    def links_run(self):
        return any("tethys link --bind" in self.processes(machine) for machine in ("slave1", "slave2"))

    def wait(self, condition, what):
        deadline = time.monotonic() + namespaces.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what} did not come within {namespaces.PATIENCE} s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
