#!/usr/bin/env python3
"""Tests that the program of examples/embed gives the same results as `tethys train` on the same job.

    embed_test.py TETHYS EMBED
"""
import os
import re
import subprocess
import sys
import unittest

from tethys_run import JOB, PATIENCE, SANITIZED, TETHYS, Run, TethysTest

EMBED = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else \
    "build/release/examples/embed/tethys_embed"


def embed(*arguments, **environment):
    return subprocess.run([EMBED, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, **environment})


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

    @unittest.skipIf(SANITIZED, "a sanitizer's library must be loaded before any other")
    def test_long_training_is_not_disturbed_by_records_or_signals(self):
        """A replica has room for 8,192 records, and a signal arrives in every millisecond."""
        storm = os.path.abspath(os.path.join(os.path.dirname(TETHYS), "../tests/integration/libsignal_storm.so"))
        self.assertTrue(os.path.exists(storm), storm)
        job = JOB.replace("epochs: 3", "epochs: 90").replace("global_batch_size: 128", "global_batch_size: 32")
        with Run(job=job) as run:
            calm, stormy = embed(run.job), embed(run.job, LD_PRELOAD=storm)
        self.assertEqual(calm.returncode, 0, calm.stderr)
        self.assertGreater(int(calm.stdout.split()[-2]), 8192)
        self.assertEqual((stormy.returncode, stormy.stdout), (0, calm.stdout), stormy.stderr)

    def test_missing_job_file_is_named(self):
        done = embed("no/such/job.textproto")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such/job.textproto", done.stderr)


if __name__ == "__main__":
    unittest.main()
