#!/usr/bin/env python3
"""The program of examples/embed trains as `tethys train` does on the same job.

The second argument is that program's path."""
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
    def test_gives_accuracy_and_loss_of_the_same_local_job(self):
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

    def test_says_which_file_is_missing(self):
        done = embed("no/such/job.textproto")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such/job.textproto", done.stderr)


if __name__ == "__main__":
    unittest.main()
