#!/usr/bin/env python3
"""Tests of `tethys calibrate` and of the commands that use a calibration, with real processes. Times are not
judged here."""
import csv
import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

from tethys_run import PATIENCE, TETHYS, FolderTest, command, heed_signals


BUSY = "--max_others_cpu=100"  # Tests share the machine with other programs.


def logs_of_children(parent):
    """{pid: file} of the children of `parent` whose standard error goes to a file below its scratch folder."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{path}/stat", encoding="utf-8") as file:
                of = int(file.read().rpartition(")")[2].split()[1])
            log = os.readlink(f"{path}/fd/2")
        except OSError:
            continue
        if of == parent and log.startswith("/tmp/tethys-scratch-"):
            found[int(path.split("/")[2])] = log
    return found


def scratch_folders(parent):
    return {"/".join(log.split("/")[:3]) for log in logs_of_children(parent).values()}


class CalibrateTest(FolderTest):
    def tethys(self, *arguments):
        return command(arguments, cwd=self.folder)

    def test_a_calibration_is_kept_and_predicts(self):
        status, output = self.tethys("calibrate", self.job, "--seconds=5", BUSY)
        self.assertEqual(status, 0, output)
        path = output.split("kept in ")[1].strip()
        self.addCleanup(os.remove, path)
        self.assertIn("/.cache/tethys/calibration/", path)
        with open(path, encoding="utf-8") as file:
            calibration = json.load(file)
        computer = calibration["computer"][0]
        self.assertEqual(computer["host"], ["localhost"])
        self.assertEqual([int(time["batch"]) for time in computer["time"]],
                         sorted(int(time["batch"]) for time in computer["time"]))
        transports = {cost["transport"] for cost in calibration["exchange"]}
        self.assertEqual(transports, {"local", "shared_memory", "servers"})
        ran = [(anchor["strategy"], anchor["workers"], anchor.get("servers", 0)) for anchor in calibration["anchor"]]
        for shape in (("local", 1, 0), ("mirrored", 2, 0), ("ps_sync", 1, 1)):
            self.assertIn(shape, ran)

        status, output = self.tethys("plan", self.job, "--set=strategy=mirrored", "--set=workers=2")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"Prediction \(calibrated \d+ seconds? ago, while other programs used \d+ % of the CPU;")
        # The long table of variables comes last, and only if the flags ask for it.
        self.assertLess(output.index("Prediction ("), output.index("elements of the arena"))
        self.assertNotIn("elements of the arena", self.tethys("plan", self.job, "--brief")[1])
        self.assertRegex(output, r"step +[\d.]+ .s \(")

        status, output = self.tethys("plan", self.job, "--set=strategy=mirrored", "--workers=1-2,4", "--set=price_per_hour=2")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\nworkers +step +samples/s +epoch +total +cost\n +1 .*\n +2 .*\n +4 .*\nCosts are in the ")
        status, output = self.tethys("plan", self.job, "--workers=1,two")
        self.assertEqual(status, 2, output)
        self.assertIn("--workers=1,two: 'two' is not a number from 1 to 4096", output)
        status, output = self.tethys("plan", self.job, "--set=strategy=local", "--workers=1,3")
        self.assertEqual(status, 2, output)
        self.assertIn("--workers: 3 workers: ", output)

        study = self.write("study.textproto", f"""name: "s" job: "{self.job}" repeats: 3 factor {{ name: "strategy"
            level {{ label: "local" }} level {{ label: "mirrored" set: "strategy=mirrored" set: "workers=2" }} }}""")
        status, output = self.tethys("study", "plan", study)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"2 combinations, 3 runs each: 6 runs\nabout [\d:]+, predicted from calibrations\n")

        supposed = "--what_if=hosts=4,slots=1,link=1gbit,delay=50us"
        status, output = self.tethys("plan", self.job, "--set=strategy=mirrored", "--set=workers=4", supposed)
        self.assertEqual(status, 0, output)
        self.assertIn("Supposed: 4 hosts (the additional hosts like localhost), 1 slot on each, links of 1 Gbit/s", output)
        self.assertRegex(output, r"what-if-4 .*worker")
        self.assertRegex(" ".join(output.split()), r"validity .*predicted by the model alone, not verified by any run")
        for words, message in (("link=10", "10gbit"), ("hosts=6", "no link was measured"), ("host=6", "the settings are hosts")):
            status, output = self.tethys("plan", self.job, f"--what_if={words}")
            self.assertEqual(status, 2, output)
            self.assertIn(message, output)

        status, output = self.tethys("train", self.job, "--plain", "--run_dir=run")
        self.assertEqual(status, 0, output)
        with open(f"{self.folder}/run/summary.json", encoding="utf-8") as file:
            predicted = json.load(file)["prediction"]
        self.assertGreater(predicted["step"]["value"], 0)
        with open(f"{self.folder}/run/prediction.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["prediction"]["step"], predicted["step"])

        # If other programs disturbed the calibration, plan says so, and advise gives no answer unless
        # --max_others_cpu allows it.
        calibration["computer"][0].update(foreign=0.86, steal=0)
        for anchor in calibration["anchor"]:
            anchor["others_cpu"] = 0
        disturbed = self.write("disturbed.json", json.dumps(calibration))
        status, output = self.tethys("plan", self.job, f"--calibration={disturbed}")
        self.assertEqual(status, 0, output)
        self.assertIn("while other programs used 86 % of the CPU; 90 % intervals", " ".join(output.split()))
        self.assertIn("so this prediction may be far off, probably too long: calibrate again when these "
                      "programs have ended", " ".join(output.split()))
        status, output = self.tethys("advise", self.job, f"--calibration={disturbed}", "--verify=0", "--out=no.textproto")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, "no answer from the calibration made .* ago: other programs used 86 % of the CPU meanwhile")
        self.assertFalse(os.path.exists(f"{self.folder}/no.textproto"))
        status, output = self.tethys("advise", self.job, f"--calibration={disturbed}", "--verify=0", "--out=no.textproto", BUSY)
        self.assertEqual(status, 0, output)
        self.assertIn("while other programs used 86 % of the CPU, so predictions may be far off", " ".join(output.split()))

        # Another model has no calibration, and a named calibration of another model is refused.
        other = "--set=model.layer[1].dense.units=8"
        status, output = self.tethys("plan", self.job, other)
        self.assertIn("no calibration is stored", output)
        self.assertIn(f"run tethys calibrate {self.job} '{other}'", " ".join(output.split()))
        status, output = self.tethys("plan", self.job, other, f"--calibration={path}")
        self.assertEqual(status, 2, output)
        self.assertIn("was measured with another model", output)

        # A calibration without TLS does not apply to a job with TLS.
        status, output = self.tethys("plan", self.job, "--tls=on")
        self.assertEqual(status, 0, output)
        self.assertIn("no calibration is stored", output)
        for flags, message in ((["--tls=on", f"--calibration={path}"], "this job runs with it"),
                               (["--tls=maybe"], "--tls=maybe: must be on or off")):
            status, output = self.tethys("plan", self.job, *flags)
            self.assertEqual(status, 2, output)
            self.assertIn(message, output)
        status, output = self.tethys("plan", self.job, "--tls=off", f"--calibration={path}")
        self.assertEqual(status, 0, output)

    def test_advise_writes_a_job_file_that_trains(self):
        calibration = f"{self.folder}/calibration.json"
        status, output = self.tethys("calibrate", self.job, "--seconds=5", BUSY, f"--out={calibration}")
        self.assertEqual(status, 0, output)
        best = f"{self.folder}/best.textproto"
        advise = ["advise", self.job, f"--calibration={calibration}", f"--out={best}", "--seconds=10", BUSY,
                  "--set=strategy=parameter_server", "--set=strategy.parameter_server.servers=1", "--set=workers=3"]
        status, output = self.tethys(*advise, "--verify=3")
        self.assertEqual(status, 0, output)
        self.assertRegex(output.replace("\n", " "),
                         r" Run (local|mirrored|ps_sync).* samples/s, measured in brief runs\)")
        self.assertIn("Asynchronous training computes gradients from stale", output)
        # With one machine there are no links, and no other hosts.
        changes = output.split("What would change the answer, according to the model:\n")[1].split("\n\n")[0]
        self.assertRegex(changes, "^  (Speed of computing, |The model cannot say what would change the answer: )")
        self.assertNotRegex(output, "(?i)links|hosts")
        status, trained = self.tethys("train", best, "--plain", "--run_dir=run")
        self.assertEqual(status, 0, trained)
        with open(f"{self.folder}/run/summary.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["global_batch"], "64")

        # Hosts that --what_if supposes are neither contacted nor measured.
        status, output = self.tethys(*advise, "--what_if=hosts=4,slots=1,cores=8,link=1gbit,delay=50us,price=1")
        self.assertEqual(status, 0, output)
        self.assertIn("no run can check them, because the machines do not exist", output.replace("\n", " "))
        self.assertNotIn("verifying", output)
        self.assertIn("\n  Links (the slowest now: 1 Gbit/s): ", output)
        self.assertIn("\n  Speed of computing, as a multiple of the present speed: ", output)
        self.assertIn("\n  Hosts (now 4): ", output)
        self.assertIn("predicted, not verified", output.replace("\n", " "))

        # A probe trains the first epochs of the job, at the job's learning rates.
        self.assertIn("and the job has no validation samples", self.tethys(*advise, "--probe_epochs=1")[1])
        advise += ["--set=data.validation_samples=512", "--set=epochs=3", "--set=optimizer.schedule=linear_decay"]
        status, output = self.tethys(*advise, "--verify=0", "--probe_epochs=2")
        self.assertEqual(status, 0, output)
        self.assertIn("Unknown: ", output)
        rows = re.findall(r"(?m)^(\w+) +\d+ +\d+ +(\d\.\d{4}) +(\d\.\d{4}) .*unknown$", output)
        self.assertIn(rows[0][0], ("local", "mirrored", "ps_sync"))
        self.assertEqual([row[0] for row in rows[1:]], ["ps_async", "ps_stale_3"])
        status, trained = self.tethys("train", best, "--plain", "--run_dir=whole")
        self.assertEqual(status, 0, trained)
        with open(f"{self.folder}/whole/epochs.csv", encoding="utf-8") as file:
            losses = [float(epoch["validation_loss"]) for epoch in csv.DictReader(file)]
        for probed, loss in zip(rows[0][1:], losses):
            self.assertAlmostEqual(float(probed), loss, delta=2e-4)
        for flags, message in ((["--probe_epochs=0"], "a whole number from 1"), (["--probe_epochs=4"], "trains 3 epochs"),
                               (["--probe_epochs=1", "--what_if=speed=2"], "trains on real machines")):
            status, output = self.tethys(*advise, *flags)
            self.assertEqual(status, 2, output)
            self.assertIn(message, output)

        # No shape meets this deadline; the answer names the shape that comes nearest.
        status, output = self.tethys(*advise, "--deadline=1s", "--verify=0", "--set=epochs=100000",
                                     "--set=strategy.parameter_server.consistency=asynchronous",
                                     "--set=max_restarts=2")
        self.assertEqual(status, 0, output)
        self.assertIn("Nothing meets the deadline of 1 s;", output)
        for flag, message in (("--deadline=soon", "30s or 30m or 30h"), ("--budget=-1", "an amount above 0")):
            status, output = self.tethys(*advise, "--verify=0", flag)
            self.assertNotEqual(status, 0, output)
            self.assertIn(message, output)

        # A budget needs a price. With --verify, one candidate is verified.
        status, output = self.tethys(*advise, "--verify=0", "--budget=5")
        self.assertEqual(status, 2, output)
        self.assertIn("the price per hour on this machine is not known", output)
        status, output = self.tethys(*advise, "--verify=1", "--budget=5", "--set=price_per_hour=1")
        self.assertEqual(status, 0, output)
        self.assertRegex(output.replace("\n", " "), r" Run .* for the whole job, cost .*, measured in brief runs\)")

        # A job that `tethys train` refuses is refused before anything is measured.
        status, output = self.tethys(*advise, "--set=initial.checkpoint=no-run")
        self.assertEqual(status, 2, output)
        self.assertIn("no-run", output)

        status, output = self.tethys("advise", self.job, "--calibration=missing.json")
        self.assertNotEqual(status, 0, output)
        self.assertIn("missing.json", output)

    def test_runs_that_contradict_a_calibration_lead_to_a_new_one(self):
        status, output = self.tethys("calibrate", self.job, "--seconds=5", BUSY)
        self.assertEqual(status, 0, output)
        path = output.split("kept in ")[1].strip()
        self.addCleanup(os.remove, path)
        with open(path, encoding="utf-8") as file:
            calibration = json.load(file)
        made = calibration["made"]
        # Makes the calibrated computer a thousand times as slow. The computer also counts as undisturbed, so
        # that the intervals are narrow.
        calibration["computer"][0].update(foreign=0, steal=0)
        for anchor in calibration["anchor"]:
            anchor["others_cpu"] = 0
        for time_of in calibration["computer"][0]["time"]:
            for part in ("step", "forward", "backward", "update"):
                time_of[part] = 1000 * time_of[part]
        advise = ["advise", self.job, "--verify=1", "--seconds=10", "--out=best.textproto", BUSY]
        named = self.write("slow.json", json.dumps(calibration))
        status, output = self.tethys(*advise, f"--calibration={named}")
        self.assertEqual(status, 0, output)
        self.assertRegex(" ".join(output.split()), r"The brief runs contradict the predictions of 1 of 1 candidates, because "
                                                   r"the measured values lie outside the predicted intervals: \S.* samples/s where [\d,]+ \([\d,]+ to [\d,]+\) were")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(calibration, file)
        status, output = self.tethys(*advise)
        self.assertEqual(status, 0, output)
        self.assertIn("the throughput of most brief runs lies outside the intervals predicted from the stored calibration: calibrating again", output)
        with open(path, encoding="utf-8") as file:
            self.assertGreater(json.load(file)["made"], made)

    def advise_and_kill(self, run, *flags):
        """Kills a process of the brief run with this number; returns exit status and output."""
        with subprocess.Popen([TETHYS, "advise", self.job, "--seconds=10", BUSY, *flags], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
                              preexec_fn=heed_signals) as process:
            self.addCleanup(process.kill)
            deadline = time.monotonic() + PATIENCE
            while not (hit := [pid for pid, log in logs_of_children(process.pid).items() if f"/run-{run}/" in log]):
                self.assertLess(time.monotonic(), deadline, f"advise does not start run {run}")
            os.kill(hit[0], signal.SIGKILL)
            output, _ = process.communicate(timeout=PATIENCE)
            return process.returncode, output

    def test_candidate_whose_brief_run_fails_is_put_aside(self):
        calibration = f"--calibration={self.folder}/calibration.json"
        status, output = self.tethys("calibrate", self.job, "--seconds=5", BUSY, f"--out={self.folder}/calibration.json")
        self.assertEqual(status, 0, output)
        status, output = self.advise_and_kill(1, calibration, "--verify=2", "--out=best.textproto")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"Candidates that are not considered, because a brief run of them failed:\n  the brief run of (local|mirrored|ps_sync)")
        self.assertRegex(output.replace("\n", " "), r" Run (local|mirrored|ps_sync).*, measured in brief runs\)")
        status, output = self.advise_and_kill(1, calibration, "--verify=1", "--out=none.textproto")
        self.assertEqual(status, 1, output)
        self.assertIn("no candidate can run on these machines: the brief run of ", output)
        self.assertFalse(os.path.exists(f"{self.folder}/none.textproto"))

    def test_interrupted_calibration_or_sweep_leaves_no_files(self):
        for verb, until, flags in (("calibrate", "measuring steps", ["--seconds=60", "--out=calibration"]),
                                   ("calibrate", "running mirrored", ["--seconds=30", "--out=calibration", BUSY]),
                                   ("sweep", "Batches", ["--seconds=60"])):
            with subprocess.Popen([TETHYS, verb, self.job, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, cwd=self.folder,
                                  preexec_fn=heed_signals) as process:
                self.addCleanup(process.kill)
                self.assertTrue(any(line.startswith(until) for line in process.stdout), f"{verb}: no '{until}'")
                deadline = time.monotonic() + PATIENCE
                while not (folders := scratch_folders(process.pid)):
                    self.assertLess(time.monotonic(), deadline, f"{verb} starts no process")
                process.send_signal(signal.SIGINT)
                status = process.wait(timeout=PATIENCE)
            self.assertIn(status, (1, -signal.SIGINT))
            self.assertEqual([folder for folder in folders if os.path.exists(folder)], [])
        self.assertFalse(os.path.exists(f"{self.folder}/calibration"))

    def test_what_cannot_be_calibrated_is_refused(self):
        for flags, message in ((["--seconds=1"], "--seconds"),
                               (["--hostfile=none"], "none"),
                               (["--set=workers=0"], "workers"),
                               (["--hostfile=" + self.write("hosts", "nowhere.invalid slots=2\n")], "nowhere.invalid")):
            status, output = self.tethys("calibrate", self.job, *flags)
            self.assertNotEqual(status, 0, output)
            self.assertIn(message, output)
            self.assertNotIn("kept in", output)


if __name__ == "__main__":
    heed_signals()
    unittest.main()
