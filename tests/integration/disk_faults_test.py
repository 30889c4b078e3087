#!/usr/bin/env python3
"""Tests of a disk that fails during training: training continues, files that could not be written are named, the last
good checkpoint stays, and a resumed run ends with the same parameters, bit for bit, as an undisturbed run.

strace injects the errors into chosen system calls on chosen files. The tests are skipped where strace is missing or
may not trace. In tests/runtime/checkpoint, other tests cause a crash and an error at every system call of a save.
"""
import os
import shutil
import subprocess
import time
import unittest

from tethys_run import Run, TethysTest

# Ten steps, with checkpoints after steps 3, 6, 9 and 10.
SMALL = ["strategy=local", "workers=1", "data.limit_samples=640", "data.validation_samples=100", "epochs=2",
         "checkpoint.every_steps=3"]
SAMPLES = 2 * 640


def why_not():
    if not shutil.which("strace"):
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, text=True,
                           check=False)
    return f"strace may not trace here: {tried.stderr}" if tried.returncode != 0 else ""


def faults(run, injections, files):
    """A command prefix that makes system calls on `files` of the run fail, as `injections` ("fsync:error=EIO") say."""
    calls = ",".join(injection.split(":")[0] for injection in injections)
    # This option makes strace fast, but strace cannot inject signals with it.
    filtered = [] if any("signal=" in injection for injection in injections) else ["--seccomp-bpf"]
    return ["strace", "-f", "-qq", *filtered, "-o", "/dev/null", "-e", f"trace={calls}",
            *(f"--inject={injection}" for injection in injections), *(f"--trace-path={run.path(file)}" for file in files)]


class DiskFaultsTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.straight = cls.enterClassContext(Run(SMALL)).run()

    def run_with(self, injections, files, overrides=(), contents=None):
        """Writes `contents` ({file: text}), then runs a job to its end with the faults; returns run and exit status."""
        run = self.enterContext(Run([*SMALL, *overrides]))
        for file, text in (contents or {}).items():
            os.makedirs(run.directory, exist_ok=True)
            with open(run.path(file), "w", encoding="utf-8") as before:
                before.write(text)
        run.prefix = faults(run, injections, files)
        status = run.start().finish()
        self.assert_nothing_runs(run)
        run.prefix = []
        return run, status

    def assert_ends_as_straight(self, run):
        """Checks that the finished run has the same results as the undisturbed one."""
        self.assertEqual(run.samples_used(), SAMPLES)
        self.assert_same_bits(run, self.straight)
        self.assertEqual(run.summary()["test"], self.straight.summary()["test"])

    def test_signal_before_start_leaves_no_temporary_file(self):
        run, status = self.run_with(["fdatasync:signal=SIGTERM"], ["job.textproto.tmp"])
        self.assertEqual(status, 1, run.output)
        self.assertEqual([path for path in run.contents() if path.endswith(".tmp")], [])
        self.assertEqual(run.summary()["status"], "interrupted")

    def test_failed_saves_are_named_and_training_continues(self):
        run, status = self.run_with(
            ["fdatasync:error=EIO", "pwrite64:error=ENOSPC", "/^rename:error=EIO"],
            ["checkpoints/step-3.tmp/manifest.textproto.tmp", "checkpoints/step-6.tmp/optimizer.safetensors",
             "checkpoints/step-9.tmp"])
        self.assertEqual(status, 0, run.output)
        for step, file, reason in ((3, "step-3.tmp/manifest.textproto.tmp", "Input/output error"),
                                   (6, "step-6.tmp/optimizer.safetensors", "No space left on device"),
                                   (9, "step-9", "Input/output error")):
            self.assertRegex(run.output, rf"checkpoint of step {step} was not saved \(.*{file}.*: {reason}\)")
        self.assertEqual([path.rpartition("-")[2] for path in run.checkpoints()], ["10"])
        self.assert_ends_as_straight(run)

    def test_journal_check_longer_than_silence_limit_passes(self):
        # The check reads the journal twice, so it takes 7 s.
        run, status = self.run_with(["read:delay_enter=3500ms"], ["journal"], ["timeouts.silence=5"])
        self.assertEqual(status, 0, run.output)
        self.assertEqual(run.summary()["journal_check"], "passed")
        self.assert_ends_as_straight(run)

    def test_unreadable_journal_only_causes_a_warning(self):
        run, status = self.run_with(["read:error=EIO"], ["journal"])
        self.assertEqual(status, 0, run.output)
        self.assertRegex(run.output, r"warning: the journal was not checked: cannot read .*/journal: Input/output error")
        self.assertRegex(run.summary()["journal_check"], r"not made: cannot read .*/journal: Input/output error")
        self.assert_ends_as_straight(run)

    def test_run_survives_writes_longer_than_silence_limit(self):
        # In each thread, delays the third write and then every fourth write. The main thread's first two writes come
        # before the job starts.
        begin = time.monotonic()
        run, status = self.run_with(["write:delay_enter=7500ms:when=3+4"], ["journal", "resources.csv"],
                                    ["timeouts.silence=5"])
        self.assertEqual(status, 0, run.output)
        self.assertGreater(time.monotonic() - begin, 7.5)
        self.assertNotIn("warning", run.output)
        self.assert_ends_as_straight(run)

    def test_failed_final_save_fails_run_that_can_be_resumed(self):
        run, status = self.run_with(["fdatasync:error=EIO"], ["checkpoints/step-10.tmp/model.safetensors"])
        self.assertEqual(status, 1, run.output)
        self.assertRegex(run.output, r"final checkpoint was not saved.*step-10.tmp/model.safetensors: Input/output error")
        self.assertIn("go on from step 9", run.output)
        self.assert_ends_as_straight(run.run(resume=True))

    def test_no_checkpoint_is_made_after_failed_journal_sync(self):
        run, status = self.run_with(["fdatasync:error=EIO:when=1"], ["journal"])
        self.assertEqual(status, 1, run.output)
        self.assertEqual(run.output.count("warning: the checkpoint of step"), 4, run.output)
        self.assertRegex(run.output, r"final checkpoint was not saved.*cannot sync .*/journal: Input/output error")
        self.assertEqual(run.checkpoints(), [])

    def test_journal_on_briefly_full_disk_is_completed(self):
        run, status = self.run_with(["write:error=ENOSPC:when=2..3"], ["journal"])
        self.assertEqual(status, 0, run.output)
        self.assertRegex(run.output, r"cannot write .*/journal: No space left on device")
        self.assert_ends_as_straight(run)

    def test_unwritable_journal_fails_the_run(self):
        run, status = self.run_with(["write:error=ENOSPC:when=2+"], ["journal"])
        self.assertEqual(status, 1, run.output)
        self.assertRegex(run.output, r"final checkpoint was not saved.*/journal: No space left on device")

    def test_unwritable_measurements_only_cause_warnings(self):
        # The header lines are written beforehand, because a run that cannot write them does not start.
        files = ["steps.csv", "epochs.csv", "resources.csv"]
        headers = {file: self.straight.read(file).splitlines(keepends=True)[0] for file in files}
        run, status = self.run_with(["write:error=EIO", "fdatasync:error=EIO"], [*files, "report.html.tmp"],
                                    contents=headers)
        self.assertEqual(status, 0, run.output)
        self.assertRegex(run.output, r"warning: cannot write .*\.csv: Input/output error")
        self.assertRegex(run.output, r"no report: .*cannot (sync|write) .*/report.html.tmp: Input/output error")
        for file in files:
            self.assertEqual(len(run.read(file).splitlines()), 1, file)
        self.assert_ends_as_straight(run)

    def test_unwritable_summary_fails_the_run(self):
        run, status = self.run_with(["fdatasync:error=EIO"], ["summary.json.tmp"])
        self.assertEqual(status, 1, run.output)
        self.assertRegex(run.output, r"cannot sync .*/summary.json.tmp: Input/output error")
        self.assert_ends_as_straight(run.run(resume=True))

    def test_chief_killed_during_save_loses_only_that_save(self):
        for call, file in (("fdatasync", "checkpoints/step-6.tmp/model.safetensors"),
                           ("/^rename", "checkpoints/step-6.tmp")):
            with self.subTest(call=call):
                run, status = self.run_with([f"{call}:signal=KILL"], [file])
                self.assertEqual(status, 1, run.output)
                self.assertIn("chief", run.output)
                self.assertIn("go on from step 3", run.output)
                self.tear_last_lines(run)
                self.assert_ends_as_straight(run.run(resume=True))
                steps = run.read("steps.csv").splitlines()
                self.assertEqual({line.count(",") for line in steps}, {steps[0].count(",")})

    def tear_last_lines(self, run):
        """Appends an incomplete line to each file, as a power cut may leave it."""
        for file in ("journal", "steps.csv", "epochs.csv", "resources.csv"):
            with open(run.path(file), "a", encoding="utf-8") as torn:
                torn.write("used 0 4 38")


if __name__ == "__main__":
    unittest.main()
