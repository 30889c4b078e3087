#!/usr/bin/env python3
"""A process lost ends the whole job: at once, named, with its log's end, and with nothing left running.

    losses_test.py TETHYS             each loss once (a test)
    losses_test.py TETHYS --soak 20   each loss 20 times at random instants, under every strategy; prints the longest
                                      time from the loss to the end, and fails above 5 s (silence + 2 s when stopped);
                                      more words pick cases: --soak 20 ps_sync killed
"""
import os
import random
import signal
import sys
import time
import unittest

from tethys_run import Run, STRATEGIES, TethysTest

SILENCE = 2.0
# Long enough to be always interrupted.
LONG = ["epochs=10000", f"timeouts.silence={SILENCE}", "checkpoint.every_steps=50", "batch_size_per_worker=16"]
ROLES = {"local": ["chief", "worker"], "mirrored": ["chief", "worker"],
         "ps_sync": ["chief", "worker", "ps"],
         "ps_async": ["chief", "ps"]}  # It survives a worker's loss: worker_loss_test.py.
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


class LossesTest(TethysTest):
    def lose(self, strategy, role, number, delay=0.0, early=False):
        """Ends a run by a signal to one of its processes; returns its output and how long the end took."""
        with Run([*STRATEGIES[strategy], *LONG]) as run:
            run.start()
            if early:
                pid = run.launcher.pid if role == "launcher" else run.process(role)
            else:
                run.wait_for_training()
                time.sleep(delay)
                workers = 1 if strategy == "local" else 3
                pid = run.launcher.pid if role == "launcher" else \
                    run.process(role, random.randrange({"worker": workers, "ps": 2}.get(role, 1)))
            begin = time.monotonic()
            os.kill(pid, number)
            status = run.finish()
            self.assert_nothing_runs(run)
            seconds = time.monotonic() - begin
            killed_launcher = role == "launcher" and number == signal.SIGKILL
            self.assertEqual(status, -signal.SIGKILL if killed_launcher else 1, run.output)
            return run.output, seconds

    def test_a_killed_process_is_named_with_its_signal(self):
        for strategy, roles in ROLES.items():
            for role in roles:
                with self.subTest(strategy=strategy, role=role):
                    output, _ = self.lose(strategy, role, signal.SIGKILL, delay=1.0)
                    self.assertRegex(output, rf"tethys train: {role}( \d)? on \S+ was killed by signal 9")
                    self.assertRegex(output, r"(at|last) step \d")
                    if role != "chief":
                        self.assertIn(f"log/{role}-", output)

    def test_a_stopped_process_is_named(self):
        for strategy, roles in ROLES.items():
            for role in roles:
                with self.subTest(strategy=strategy, role=role):
                    output, _ = self.lose(strategy, role, signal.SIGSTOP)
                    self.assertRegex(output, rf"{role}.*(silent|reported nothing)")

    def test_the_launchers_end_is_everybodys(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            for strategy in ("mirrored", "ps_async"):
                with self.subTest(signal=number, strategy=strategy):
                    self.lose(strategy, "launcher", number)

    def test_a_loss_while_the_job_starts_ends_it(self):
        for role in ("chief", "worker", "ps", "launcher"):
            with self.subTest(role=role):
                self.lose("ps_sync", role, signal.SIGKILL, early=True)


def soak(repetitions, words):
    """Of the cases, those that `words` (strategy, role, what happens) pick."""
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
                _, seconds = test.lose(strategy, role, number, delay=random.random())
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
