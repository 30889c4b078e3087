#!/usr/bin/env python3
"""Tests of `tethys sweep` with real processes: its files, what it refuses, and its end."""
import csv
import glob
import json
import os
import signal
import subprocess
import time
import unittest

from tethys_run import PATIENCE, TETHYS, FolderTest, command, heed_signals

def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return file.read().split()


class SweepTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.run_dir = f"{self.folder}/run"

    def sweep(self, *flags):
        return command(["sweep", self.job, f"--run_dir={self.run_dir}", "--memory=64", *flags])

    def refused(self, *flags):
        status, output = self.sweep(*flags)
        self.assertEqual(status, 2, output)
        return output

    def test_sweep_writes_times_of_all_batches(self):
        status, output = self.sweep("--batches=4-40:4", "--rounds=7", "--seconds=30")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"Most samples a second with batch \d+")
        self.assertIn("Jumps after all multiples of 16: not testable here", output)
        self.assertRegex(output, r"Largest batch that ran: [\d,]+ within 64 MiB; forecast: [\d,]+")
        with open(f"{self.run_dir}/sweep.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["batch"]) for row in rows], list(range(4, 41, 4)))
        for row in rows:
            self.assertGreater(float(row["step_seconds"]), 0)
            self.assertGreaterEqual(float(row["step_seconds"]), float(row["forward_seconds"]))
        with open(f"{self.run_dir}/sweep.json", encoding="utf-8") as file:
            curve = json.load(file)["curve"][0]
        self.assertEqual(len(curve["time"]), 10)
        self.assertGreaterEqual(curve["rounds"], 7)
        self.assertGreater(int(curve["largest_batch"]), 40)
        with open(f"{self.run_dir}/report.html", encoding="utf-8") as file:
            self.assertIn("Most samples a second", file.read())
        for name in ("report.html", "report.md"):
            os.remove(f"{self.run_dir}/{name}")
        self.assertEqual(command(["report", self.run_dir])[0], 0)
        self.assertTrue(os.path.exists(f"{self.run_dir}/report.html"))
        # A batch for which memory does not suffice is left out; the other batches are measured.
        self.run_dir += "2"
        status, output = self.sweep("--batches=8,16,10000000", "--rounds=1")
        self.assertEqual(status, 0, output)
        self.assertIn("Batch 10000000 has no measured time: a step is forecast to need", " ".join(output.split()))
        self.assertIn("Jumps were not tested: at least 8 batches are needed", " ".join(output.split()))

    def test_one_host_of_each_kind_is_measured(self):
        hosts = self.write("hosts", "localhost kind=small\n")
        status, output = self.sweep("--batches=8", "--rounds=1", f"--hostfile={hosts}")
        self.assertEqual(status, 0, output)
        self.assertIn("localhost (kind small), cpu", output)

    def test_empty_and_reversed_ranges_are_refused(self):
        self.assertIn("'70-1' is empty, because 1 is below 70", self.refused("--batches=70-1"))
        self.assertIn("--batches: '' does not begin with a whole number", self.refused("--batches=1-5,"))
        self.assertFalse(os.path.exists(self.run_dir))

    def test_sweep_without_a_batch_that_fits_is_refused(self):
        self.assertIn("no batch can be measured; batch 20000000: a step is forecast to need",
                      self.refused("--batches=20000000-20000001"))

    def test_host_that_cannot_be_reached_is_named(self):
        hosts = self.write("hosts", "nowhere.invalid address=127.0.0.9 kind=small\n")
        self.assertIn("nowhere.invalid", self.refused(f"--hostfile={hosts}", "--ssh_config=/dev/null"))
        self.assertIn("--every_host has an effect only with --hostfile", self.refused("--every_host"))

    def test_torn_results_are_an_error_of_report(self):
        status, output = self.sweep("--batches=4,8", "--rounds=1", "--seconds=1")
        self.assertEqual(status, 0, output)
        with open(f"{self.run_dir}/sweep.json", "r+", encoding="utf-8") as file:
            text = file.read()
            for torn in (text[:len(text) // 2], "", text.replace('"batch": "8"', '"batch": "3"'), "{}"):
                file.seek(0)
                file.truncate()
                file.write(torn)
                file.flush()
                status, output = command(["report", self.run_dir])
                self.assertEqual(status, 2, output)
                self.assertIn("sweep.json does not contain a complete sweep", output)

    def test_terminated_sweep_leaves_no_measuring_process(self):
        words = [TETHYS, "sweep", self.job, f"--run_dir={self.run_dir}", "--memory=64", "--rounds=1000", "--seconds=600"]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=heed_signals) as sweep:
            deadline = time.monotonic() + PATIENCE
            while not children(sweep.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            meters = children(sweep.pid)
            self.assertEqual(len(meters), 1)
            sweep.send_signal(signal.SIGTERM)
            sweep.wait()
        while glob.glob(f"/proc/{meters[0]}/exe") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(glob.glob(f"/proc/{meters[0]}/exe"))


if __name__ == "__main__":
    unittest.main()
