#!/usr/bin/env python3
"""Tests that jobs whose workers compute on GPUs survive the loss of workers, in real processes. A library that computes
on the host (tests/testing/cuda_on_host.h) stands for libtethys_cuda.so, so the test needs no GPU. It has neither NCCL
nor graphs: the workers exchange through servers or, as mirrored workers that share a GPU, through the host.

    gpu_loss_test.py TETHYS LIBRARY
"""
import os
import shutil
import signal
import sys
import tempfile
import unittest

LIBRARY = sys.argv.pop(2)

import tethys_run  # pylint: disable=wrong-import-position
from tethys_run import JOB, PATIENT, STRATEGIES, Run, TethysTest  # pylint: disable=wrong-import-position

SAMPLES = 960
EPOCHS = 20


class GpuLossTest(TethysTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # The command opens the library beside its own file, which a symbolic link would not move.
        command = os.path.join(folder.name, "tethys")
        shutil.copy2(tethys_run.TETHYS, command)
        shutil.copy2(LIBRARY, os.path.join(folder.name, "libtethys_cuda.so"))
        self.addCleanup(setattr, tethys_run, "TETHYS", tethys_run.TETHYS)
        tethys_run.TETHYS = command

    def test_job_that_waits_for_replacements_is_bit_equal_to_an_undisturbed_run(self):
        for strategy, exchange in (("ps_sync", None), ("mirrored", "ranks 0 and 1 share a device")):
            fields = [*STRATEGIES[strategy], "workers=2", "device.kind=CUDA", "tuning.graph=false", f"epochs={EPOCHS}",
                      "global_batch_size=96", f"data.limit_samples={SAMPLES}", PATIENT, "max_restarts=2",
                      "elastic.on_loss=WAIT"]
            with self.subTest(strategy=strategy), Run(fields, job=JOB) as whole, Run(fields, job=JOB) as run:
                whole.run()
                run.start().wait_for_training()
                for times, worker in enumerate((1, 0), start=1):
                    os.kill(run.process("worker", worker), signal.SIGKILL)
                    run.wait_for(lambda times=times: run.so_far().count("takes part again") == times, "replacement")
                self.assertEqual(run.finish(), 0, run.output)
                self.assertEqual(run.samples_used(), EPOCHS * SAMPLES)
                self.assertEqual(len(run.summary()["worker_loss"]), 2)
                self.assert_same_bits(run, whole)
                if exchange:
                    self.assertIn(exchange, run.read("log/worker-0.log"))


if __name__ == "__main__":
    unittest.main()
