#!/usr/bin/env python3
"""Tests that `tethys scale` gives running jobs other numbers of workers and servers, with every sample used once.

    scale_test.py TETHYS              runs the tests
    scale_test.py TETHYS --soak 10    changes each strategy from 2 to 4 to 2 workers 10 times; prints the quantiles of
                                      the time between the last step before and the first step after each change
"""
import csv
import os
import subprocess
import sys
import unittest

from tethys_run import NORMALISED_JOB, PATIENCE, STRATEGIES, TETHYS, Run, TethysTest, command, quantiles

SAMPLES = 6000
LONG = ["epochs=1000", "global_batch_size=96", f"data.limit_samples={SAMPLES}"]
SCALED = ["mirrored", "ps_sync", "ps_async"]


def long_run(strategy, *overrides):
    return Run([*STRATEGIES[strategy], *LONG, *overrides], job=NORMALISED_JOB)


def scale(run, *flags):
    return command(["scale", run.directory, f"--limit={PATIENCE}s", *flags])


class ScaleTest(TethysTest):
    def assert_scaled(self, run, text, *flags):
        status, output = scale(run, *flags)
        self.assertEqual(status, 0, output + run.so_far())
        self.assertRegex(output, f"^{text} on from step [0-9,]+, [0-9.]+ m?s after the request\n$")

    def end(self, run):
        """Ends the run at the end of the epoch after its newest checkpoint; checks its samples."""
        status, output = command(["runs", "stop", run.directory])
        self.assertEqual(status, 0, output)
        self.assertEqual(run.finish(), 1, run.output)
        self.assert_nothing_runs(run)
        epochs = run.saved_epoch() + 1
        run.run(resume=True, overrides=[f"epochs={epochs}"])
        self.assertEqual(run.samples_used(), epochs * SAMPLES)

    def test_workers_come_and_go_five_times(self):
        for strategy in SCALED:
            with self.subTest(strategy=strategy), long_run(strategy, "workers=2") as run:
                run.start().wait_for_training()
                servers = " and 2 servers" if strategy.startswith("ps") else ""
                for workers in 5 * (4, 2):
                    self.assert_scaled(run, f"{workers} workers{servers} go", f"--workers={workers}")
                self.end(run)
                attempts = run.summary()["attempt"]
                self.assertEqual([attempt["workers"] for attempt in attempts], 5 * [2, 4] + [2, 2])
                for before, after in zip(attempts, attempts[1:]):
                    self.assertEqual(before["end_step"], after["first_step"], "a step was lost")
                    self.assertEqual(before["global_batch_size"], after["global_batch_size"])
                self.assertIn("ended for a change to 4 workers", attempts[0]["ending"])

    def test_a_server_is_added_and_taken_away(self):
        for strategy in ("ps_sync", "ps_async"):
            with self.subTest(strategy=strategy), long_run(strategy) as run:
                run.start().wait_for_training()
                self.assert_scaled(run, "3 workers and 3 servers go", "--servers=3")
                self.assert_scaled(run, "2 workers and 1 server go", "--servers=1", "--workers=2")
                self.end(run)

    def test_impossible_numbers_are_refused_and_the_run_goes_on(self):
        with long_run("mirrored", "elastic.min_workers=2") as run:
            run.start()
            for flags, message in (([], "give --workers=N, --servers=N, or both"),
                                   (["--workers=0"], "--workers=0 must be a whole number from 1"),
                                   (["--workers=1"], "elastic.min_workers is 2, but workers is 1"),
                                   (["--workers=97"], "97"),
                                   (["--workers=3"], "has these numbers of processes already: 3 workers"),
                                   (["--servers=2"], "the strategy of the run is mirrored, which has no servers")):
                run.wait_for_training()
                status, output = scale(run, *flags)
                self.assertEqual(status, 2, output)
                self.assertIn(message, output)
            self.assertNotIn("numbers of processes", run.so_far())
            self.end(run)
            status, output = scale(run, "--workers=2")
            self.assertEqual(status, 2, output)
            self.assertIn("is not running", output)

    def test_job_that_shards_data_by_worker_refuses_another_number_of_workers(self):
        with long_run("mirrored", "data.sharding=DATA") as run:
            run.start().wait_for_training()
            status, output = scale(run, "--workers=2")
            self.assertEqual(status, 2, output)
            self.assertIn("the number of workers cannot change within an epoch", output)
            self.end(run)

    def test_run_goes_on_with_the_old_numbers_if_a_new_process_does_not_start(self):
        with long_run("mirrored", "max_restarts=1") as run:
            run.start().wait_for_training()
            os.mkdir(run.path("log", "worker-3.log"))  # The fourth worker cannot open its log.
            status, output = scale(run, "--workers=4")
            self.assertEqual(status, 1, output + run.so_far())
            self.assertRegex(output, "not changed: cannot start worker 3 .*; 3 workers go on from the checkpoint of step ")
            run.wait_for(lambda: run.so_far().count("\nstarted in ") == 2, "training with the old numbers")
            os.rmdir(run.path("log", "worker-3.log"))
            self.assert_scaled(run, "4 workers go", "--workers=4")
            self.end(run)

    def test_interrupt_while_the_numbers_of_processes_change_ends_the_job(self):
        with long_run("ps_sync") as run:
            run.start().wait_for_training()
            with run.held("ps", 0):
                changing = scale_in_background(run)
                run.wait_for_output("the numbers of processes change: saving a checkpoint")
                status, output = scale(run, "--workers=5")
                self.assertEqual(status, 1, output)
                self.assertIn("another change of the numbers of processes of this run has not been made yet", output)
                run.launcher.terminate()
                self.assertEqual(run.finish(), 1)
            self.assertIn("the run ended meanwhile", changing())
            self.assert_nothing_runs(run)


def scale_in_background(run):
    """Asks for 4 workers; returns a function that waits for the end and returns the output."""
    process = subprocess.Popen([TETHYS, "scale", run.directory, "--workers=4"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    return lambda: process.communicate(timeout=PATIENCE)[0]


def soak(repetitions):
    for strategy in SCALED:
        with long_run(strategy, "workers=2") as run:
            run.start().wait_for_training()
            for workers in repetitions * (4, 2):
                status, output = scale(run, f"--workers={workers}")
                assert status == 0, output
            steps = run.read("journal").count("\nused ")
            run.wait_for(lambda: run.read("journal").count("\nused ") > steps + 100, "steps")
            begun = sorted(int(row["begin_ns"]) for row in csv.DictReader(run.read("steps.csv").splitlines()))
            # The longest times without the begin of a step are those of the changes.
            gaps = sorted((after - before) / 1e9 for before, after in zip(begun, begun[1:]))[-2 * repetitions:]
            print(f"{strategy}: {len(gaps)} changes; {quantiles(gaps)}", flush=True)
    return 0


if __name__ == "__main__":
    if "--soak" in sys.argv:
        sys.exit(soak(int(sys.argv[sys.argv.index("--soak") + 1])))
    unittest.main()
