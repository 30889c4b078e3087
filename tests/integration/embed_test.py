#!/usr/bin/env python3
"""Tests that the program of examples/embed gives the same results as `tethys train` on the same job.

    embed_test.py TETHYS EMBED
"""
import re
import subprocess
import sys
import unittest

from tethys_run import PATIENCE, Run, TethysTest

EMBED = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else \
    "build/release/examples/embed/tethys_embed"


def embed(*arguments):
    return subprocess.run([EMBED, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


class EmbedTest(TethysTest):
    def test_accuracy_and_loss_equal_those_of_a_local_run(self):
        with Run(["strategy=local", "workers=1"]) as run:
            run.run()
            done = embed(run.path("job.textproto"))
            self.assertEqual(done.returncode, 0, done.stderr)
            found = re.fullmatch(r"accuracy (\S+), loss (\S+) after (\d+) steps\n", done.stdout)
            self.assertTrue(found, done.stdout)
            test = run.summary()["test"]
            self.assertAlmostEqual(float(found[1]), test["accuracy"], places=6)
            self.assertAlmostEqual(float(found[2]), test["loss"], places=5)
            self.assertEqual(int(found[3]), int(run.summary()["steps"]))

    def test_missing_job_file_is_named(self):
        done = embed("no/such/job.textproto")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such/job.textproto", done.stderr)


if __name__ == "__main__":
    unittest.main()
