#!/usr/bin/env python3
"""Tests that no task outlives a chief and a launcher that neither end nor answer. The tasks wait for tens of
seconds and need no processor meanwhile, so other tests may run at the same time.

    orphans_test.py TETHYS
"""
import glob
import os
import signal
import time
import unittest

from tethys_run import FULL_JOB, JOB, Run, STRATEGIES, TethysTest

# A job of about ten thousand steps a second; each step is recorded with a time for each of 40 layers. If the
# chief stops reading, these records soon fill the connection.
FAST = ["strategy=local", "workers=1", "global_batch_size=1", "epochs=10000", "evaluate_each_epoch=false"]
FAST_JOB = FULL_JOB.replace("layer { dense { units: 128 activation: RELU } }",
                            "layer { dense { units: 1 } }\n" * 40).replace("limit_samples: 3001", "limit_samples: 59000")
# The servers hold about 120 MiB together, optimizer slots included, so that a save takes a while.
BIG_JOB = JOB.replace("units: 128", "units: 20000").replace("limit_samples: 3001", "limit_samples: 300")
BIG = [*STRATEGIES["ps_sync"], "workers=1", "checkpoint.every_steps=1", "epochs=10000", "evaluate_each_epoch=false"]
# Seconds after which no task may run any more. A task gives up waiting for a silent chief after 20 s, and ends at most
# 5 s later. The rest is a margin.
OUTLIVED_SECONDS = 30


class OrphansTest(TethysTest):
    def freeze(self, run):
        """Stops the launcher and the chief; returns the chief's pid and the time."""
        chief = run.process("chief")
        for pid in (run.launcher.pid, chief):
            os.kill(pid, signal.SIGSTOP)
        return chief, time.monotonic()

    def assert_outlives_briefly(self, run, chief, begin):
        while set(run.processes()) - {chief}:
            self.assertLess(time.monotonic() - begin, OUTLIVED_SECONDS, run.processes())
            time.sleep(0.05)

    def test_no_task_outlives_stopped_chief_and_launcher(self):
        with Run(FAST, job=FAST_JOB) as fast, Run(BIG, job=BIG_JOB) as saving:
            frozen = {}
            saving.start().wait_for(lambda: glob.glob(saving.path("checkpoints", "*.tmp", "*.safetensors")), "save")
            frozen[saving] = self.freeze(saving)
            fast.start().wait_for_training()
            frozen[fast] = self.freeze(fast)
            for run, (chief, begin) in frozen.items():
                self.assert_outlives_briefly(run, chief, begin)


if __name__ == "__main__":
    unittest.main()
