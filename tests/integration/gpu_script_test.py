"""Tests of tests/gpu.sh without a GPU, so that changes do not break the script unnoticed."""
import glob
import os
import signal
import subprocess
import tempfile
import unittest

from namespaces import has_ended
from tethys_run import PATIENCE, TETHYS

SCRIPT = os.path.join(os.path.dirname(__file__), "../gpu.sh")
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(TETHYS)))
# A fake compute-sanitizer, which runs the program and reports no errors.
SANITIZER = """#!/bin/bash
while [[ $1 == --* ]]; do shift 2; done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
"""


class GpuScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.sanitizer = self.write("sanitizer", SANITIZER)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def run_script(self, *words, device="cpu", build=BUILD, script=SCRIPT):
        """Returns exit status, output and {(section, check): verdict}."""
        done = subprocess.run([script, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False,
                              env=dict(os.environ, DEVICE=device, BUILD=build, OUT=self.folder, XZ_OPT="-0 -T0",
                                       COMPUTE_SANITIZER=self.sanitizer))
        table = os.path.join(self.folder, words[0] + ".tsv")
        rows = {}
        if os.path.exists(table):
            with open(table, encoding="utf-8") as file:
                for line in file:
                    section, check, _, _, verdict = line.rstrip("\n").split("\t")
                    rows[section, check] = verdict
        return done.returncode, done.stdout, rows

    def test_conformance_runs_every_test_and_sanitizer(self):
        status, output, rows = self.run_script("conformance")
        self.assertEqual(status, 0, output)
        for section in ("suite", "memcheck", "racecheck"):
            self.assertEqual(rows[section, "tests failed"], "ok", output)
        self.assertEqual(rows["nccl", "exit status"], "ok", output)

    def test_training_compares_losses_and_accuracies(self):
        status, output, rows = self.run_script("training")
        self.assertEqual(status, 0, output)
        for check in (("curves", "lenet: losses differ by"), ("networks", "residual: losses differ by"),
                      ("accuracy", "lenet: bf16 is below fp32 by"),
                      ("accuracy", "lenet: bf16 sums below fp32 by"),
                      ("variants", "frozen: losses differ by"), ("variants", "predict: probabilities differ by"),
                      ("exchange", "mirrored-1: losses differ by"), ("exchange", "ps-1: losses differ by"),
                      ("losses", "ps-1: test losses differ by"), ("losses", "nccl-1: test losses differ by")):
            self.assertEqual(rows[check], "ok", output)

    @unittest.skipUnless(glob.glob(f"{BUILD}/tests/**/update_bench", recursive=True), "benchmarks were not built")
    def test_packed_script_runs_the_same_checks(self):
        packed = os.path.join(self.folder, "gpu.tar.gz")
        status, output, _ = self.run_script("pack", packed)
        self.assertEqual(status, 0, output)
        subprocess.run(["tar", "-xzf", packed, "-C", self.folder], check=True)
        script = os.path.join(self.folder, "gpu", "gpu.sh")
        # The rates of `bench update` depend on this machine, so its row may have either verdict.
        for words, row, verdicts in ((("conformance", "suite", "memcheck"), ("suite", "tests failed"), {"ok"}),
                                     (("training", "curves"), ("curves", "lenet: losses differ by"), {"ok"}),
                                     (("bench", "update"), ("update", "sgd"), {"ok", "MISSED"})):
            _, output, rows = self.run_script(*words, build="/nowhere", script=script)
            self.assertIn(rows.get(row), verdicts, output)
            self.assertNotIn((words[1], f"{words[1]} did not come to its end"), rows, output)

    def test_bench_has_a_row_for_every_peer(self):
        # The limits are meant for a GPU, so the exit status is not checked.
        _, output, rows = self.run_script("bench")
        self.assertIn(("steps", "lenet-16 fp32"), rows, output)
        for mode in ("eager", "graph"):
            self.assertIn(("steps", f"lenet-16 fp32 / PyTorch {mode}"), rows, output)
        self.assertEqual(rows["large", "mobilenet-224-1 fp32"], "seen", output)
        self.assertEqual(rows["sweep", "lenet"], "seen", output)
        self.assertEqual(rows["convolutions", "lenet-16 fp32"], "seen", output)
        for section in ("steps", "large"):
            self.assertNotIn((section, f"{section} did not come to its end"), rows, output)

    def test_failed_run_gives_missed_row_and_exit_status_1(self):
        self.write("broken/deploy/tethys", "#!/bin/sh\necho the disk is full >&2\nexit 1\n")
        status, output, rows = self.run_script("training", "curves", build=os.path.join(self.folder, "broken"))
        self.assertEqual(status, 1, output)
        self.assertEqual(rows["curves", "lenet.reference"], "MISSED", output)
        self.assertIn("the disk is full", output)

    def test_different_losses_give_missed_row_and_status_1(self):
        self.write("other/deploy/tethys", f"""#!/bin/sh
for word; do case $word in --run_dir=*.curve) exec {TETHYS} "$@" --set=seed=2 ;; esac; done
exec {TETHYS} "$@"
""")
        status, output, rows = self.run_script("training", "curves", build=os.path.join(self.folder, "other"))
        self.assertEqual(status, 1, output)
        self.assertEqual(rows["curves", "lenet: losses differ by"], "MISSED", output)

    def test_signal_to_script_ends_the_program_that_runs(self):
        seen = os.path.join(self.folder, "seen")
        os.mkfifo(seen)
        self.write("slow/deploy/tethys", f"""#!/bin/sh
if [ "$1" = --version ]; then exec {TETHYS} "$@"; fi
echo $$ >{seen}
exec sleep 1000
""")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            script = subprocess.Popen([SCRIPT, "training", "curves"], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in
                                                          (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
                                      env=dict(os.environ, DEVICE="cpu", BUILD=os.path.join(self.folder, "slow"),
                                               OUT=self.folder))
            self.addCleanup(script.kill)
            with open(seen, encoding="utf-8") as pipe:
                program = int(pipe.read())
            script.send_signal(number)
            self.assertEqual(script.wait(timeout=PATIENCE), 128 + number)
            self.assertTrue(has_ended(program))

    def test_unknown_section_is_refused_with_list(self):
        status, output, _ = self.run_script("bench", "speed")
        self.assertEqual(status, 2)
        self.assertIn("update convolutions steps", output)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU here")
    def test_bench_without_gpu_is_skipped_with_reason(self):
        status, output, _ = self.run_script("bench", device="cuda")
        self.assertEqual(status, 77, output)
        self.assertIn("nothing was run: FAILED_PRECONDITION", output)


if __name__ == "__main__":
    unittest.main()
