#!/usr/bin/env python3
"""Tests that the loss of a process ends the job at once, names the process, shows the end of its log and leaves no
process running.

    losses_test.py TETHYS             runs the tests: each kind of loss once
    losses_test.py TETHYS --soak 20   causes each loss 20 times at random instants, under every strategy; prints the
                                      longest time from the loss to the end of the job, and fails if that exceeds 5 s,
                                      or for stopped processes the silence timeout + 2 s. Further words select cases:
                                      --soak 20 ps_sync killed
"""
import contextlib
import os
import random
import signal
import sys
import time
import unittest

from tethys_run import NORMALISED_JOB, Run, STRATEGIES, TethysTest

# Overrides for jobs that do not end before the test interrupts them.
LONG = ["epochs=10000", "batch_size_per_worker=16", "drop_remainder=true"]
# Seconds of silence after which a process has surely stopped: even on a busy machine, a running process
# reports sooner.
SILENCE = 5.0
SILENT = [f"timeouts.silence={SILENCE}"]
SAVING = ["checkpoint.every_steps=50"]
ENDING = {"ps_sync": ["elastic.on_loss=END"]}
ROLES = {"local": ["chief", "worker"],
         "mirrored": ["chief"],  # No workers, as below (lock_step_loss_test.py).
         "ps_sync": ["chief", "worker", "ps"],  # Workers, too, with ENDING.
         "ps_async": ["chief", "ps"]}  # No workers: the job survives their loss (worker_loss_test.py).
# A stopped process makes other processes wait. This list has one case for each kind of wait. Under every
# strategy the chief notices a stopped task, and the launcher notices a stopped chief.
STOPPED = [("local", "worker"), ("mirrored", "chief"), ("ps_sync", "worker"), ("ps_sync", "ps"), ("ps_async", "ps")]
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


def long_run(strategy, number):
    fields = [*STRATEGIES[strategy], *ENDING.get(strategy, []), *LONG]
    return Run([*fields, *(SILENT if number == signal.SIGSTOP else SAVING)], job=NORMALISED_JOB)


class LossesTest(TethysTest):
    def strike(self, run, strategy, role, number, delay=0.0, early=False):
        """Starts a run and sends a signal to one of its processes: during training or, if `early`, before
        training."""
        run.start()
        tasks = {"worker": 1 if strategy == "local" else 3, "ps": 2}
        if not early:
            run.wait_for_output("\nepoch ")  # From now on the launcher can report a last step.
            time.sleep(delay)
        index = 0 if early else random.randrange(tasks.get(role, 1))
        os.kill(run.launcher.pid if role == "launcher" else run.process(role, index), number)

    def assert_ends(self, run, role, number):
        """Checks the end of the run; returns its output."""
        status = run.finish()
        self.assert_nothing_runs(run)
        killed_launcher = role == "launcher" and number == signal.SIGKILL
        self.assertEqual(status, -signal.SIGKILL if killed_launcher else 1, run.output)
        return run.output

    def lose(self, strategy, role, number, **moment):
        with long_run(strategy, number) as run:
            self.strike(run, strategy, role, number, **moment)
            return self.assert_ends(run, role, number)

    def test_killed_process_is_named_with_its_signal(self):
        for strategy, roles in ROLES.items():
            for role in roles:
                with self.subTest(strategy=strategy, role=role):
                    output = self.lose(strategy, role, signal.SIGKILL)
                    self.assertRegex(output, rf"tethys train: {role}( \d)? on \S+ was killed by signal 9")
                    self.assertRegex(output, r"(at|last) step \d")
                    if role != "chief":
                        self.assertIn(f"log/{role}-", output)

    def test_stopped_process_is_named(self):
        with contextlib.ExitStack() as runs:
            stopped = {}
            for strategy, role in STOPPED:
                run = stopped[strategy, role] = runs.enter_context(long_run(strategy, signal.SIGSTOP))
                self.strike(run, strategy, role, signal.SIGSTOP)
            for (strategy, role), run in stopped.items():
                with self.subTest(strategy=strategy, role=role):
                    self.assertRegex(self.assert_ends(run, role, signal.SIGSTOP), rf"{role}.*(silent|reported nothing)")

    def test_no_process_outlives_the_launcher(self):
        for strategy, numbers in (("mirrored", (signal.SIGINT, signal.SIGHUP, signal.SIGKILL)),
                                  ("ps_async", (signal.SIGTERM, signal.SIGKILL))):
            for number in numbers:
                with self.subTest(signal=number, strategy=strategy):
                    self.lose(strategy, "launcher", number)

    def test_process_loss_during_start_ends_the_job(self):
        for role in ("chief", "worker", "ps", "launcher"):
            with self.subTest(role=role):
                self.lose("ps_sync", role, signal.SIGKILL, early=True)


def soak(repetitions, words):
    """Repeats the cases that match all `words`, each of which is a strategy, a role or a kind of loss."""
    test = LossesTest()
    failures = 0
    for strategy, roles in ROLES.items():
        cases = [(role, what) for role in roles for what in SIGNALS] + [("launcher", "killed"),
                                                                         ("launcher", "interrupted")]
        for role, what in cases:
            if not set(words) <= {strategy, role, what}:
                continue
            longest, good = 0.0, 0
            limit = SILENCE + 2 if what == "stopped" else 5.0
            for _ in range(repetitions):
                number = SIGNALS.get(what, signal.SIGINT)
                with long_run(strategy, number) as run:
                    test.strike(run, strategy, role, number, delay=random.random())
                    begin = time.monotonic()
                    test.assert_ends(run, role, number)
                    seconds = time.monotonic() - begin
                longest = max(longest, seconds)
                good += seconds <= limit
            failures += good < repetitions
            print(f"{strategy:9} {role:9} {what:12} {good}/{repetitions} within {limit} s, longest {longest:.2f} s",
                  flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    if "--soak" in sys.argv:
        at = sys.argv.index("--soak") + 1
        sys.exit(soak(int(sys.argv[at]), sys.argv[at + 1:]))
    unittest.main()
