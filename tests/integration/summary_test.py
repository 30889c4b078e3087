"""Tests of a run's records (how it ended, its resources and cost), and of resumed comparisons."""
import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from tethys_run import JOB, PATIENCE, STRATEGIES, TETHYS, Run, TethysTest, command

LONG = ["epochs=100000", "strategy=mirrored", "workers=2"]
HEADER = ("seconds,host,process,cpu_percent,resident_bytes,network_in_bytes,network_out_bytes,disk_read_bytes,"
          "disk_write_bytes,gpu_percent,gpu_memory_bytes,gpu_power_watts")


class EndsTest(TethysTest):
    def test_interrupted_run_has_status_interrupted(self):
        with Run(LONG) as run:
            run.start().wait_for_training()
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(), 1)
            self.assertEqual(run.summary()["status"], "interrupted")

    def test_run_with_unread_output_finishes(self):
        with Run(["strategy=local", "workers=1", "data.limit_samples=1100", "epochs=100"]) as run:
            words = [TETHYS, "train", "--plain", f"--run_dir={run.directory}", run.job,
                     *(f"--set={value}" for value in run.overrides)]
            with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as launcher:
                run.launcher = launcher
                fcntl.fcntl(launcher.stdout, fcntl.F_SETPIPE_SZ, 4096)
                children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"

                def is_over():
                    with open(children, encoding="utf-8") as file:
                        return os.path.exists(run.path("summary.json")) and not file.read()
                run.log = os.devnull
                run.wait_for(is_over, "end")
                output = launcher.stdout.read()
                self.assertEqual(launcher.wait(), 0)
            self.assertEqual(len(re.findall("(?m)^epoch ", output)), 100)
            self.assertIn("test accuracy", output)

    def test_summary_of_failed_run_names_killed_chief(self):
        with Run(LONG) as run:
            run.start().wait_for_training()
            os.kill(run.process("chief"), signal.SIGKILL)
            self.assertEqual(run.finish(), 1)
            summary = run.summary()
            self.assertEqual(summary["status"], "failed")
            self.assertEqual(summary["first_failure"]["role"], "chief")
            self.assertIn("killed by signal 9", summary["first_failure"]["message"])

    def test_ending_of_a_killed_worker_is_shown_by_later_commands(self):
        with Run([*STRATEGIES["ps_sync"], "elastic.on_loss=END", "epochs=100000", "checkpoint.every_steps=5"]) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            os.kill(run.process("worker", 1), signal.SIGKILL)
            self.assertEqual(run.finish(), 1)
            summary = run.summary()
            told = r"worker 1 on \S+ was killed by signal 9 \(Killed\)"
            self.assertRegex(summary["ending"], told + ".*memory")
            self.assertEqual((summary["first_failure"]["role"], summary["first_failure"]["index"]), ("worker", 1))
            go_on = f"go on from step {run.saved_step()} with: tethys train --resume --run_dir={run.directory}"
            self.assertEqual(summary["go_on"], go_on)
            _, shown = command(["runs", "show", run.directory])
            self.assertRegex(" ".join(shown.split()), f"ended {told}.* next go on from step {run.saved_step()} with: ")
            pages = {"report.md": run.read("report.md"), "report.html": run.read("report.html"),
                     "progress.jsonl": run.read("progress.jsonl"), "runs show": shown}
            for name, text in pages.items():
                with self.subTest(name):
                    self.assertRegex(" ".join(text.split()), told)
                    self.assertIn(f"--run_dir={run.directory}", text)
                    self.assertNotRegex(text, "UNAVAILABLE|ABORTED|its session ended.*UNKNOWN")

    def test_run_whose_launcher_was_killed_says_so_and_how_to_go_on(self):
        with Run([*LONG, "checkpoint.every_steps=5"]) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            launcher = run.launcher.pid
            os.kill(launcher, signal.SIGKILL)
            run.finish()
            status, shown = command(["runs", "show", run.directory])
            self.assertEqual(status, 0, shown)
            shown = " ".join(shown.split())
            self.assertIn("state unfinished", shown)
            self.assertRegex(shown, f"ended process {launcher} on .*: it was killed, or its machine went down")
            self.assertIn(f"with: tethys train --resume --run_dir={run.directory}", shown)

    def test_run_killed_before_its_first_checkpoint_says_how_to_start_again(self):
        with Run(LONG) as run:
            run.start().wait_for_training()
            os.kill(run.launcher.pid, signal.SIGKILL)
            run.finish()
            self.assert_nothing_runs(run)
            start = (f"train from the start: no checkpoint was saved yet (the field checkpoint of the job sets how often to save); "
                     f"run: tethys train {run.directory}/job.textproto "
                     "--set=checkpoint.every_epochs=1 --set=checkpoint.min_seconds=0")
            self.assertEqual(run.start(resume=True, overrides=[]).finish(), 2, run.output)
            self.assertIn(f"{run.directory} has no checkpoint yet to go on from (", run.output)
            self.assertIn(start, run.output)
            self.assertNotIn("undamaged", run.output)
            _, shown = command(["runs", "show", run.directory])
            self.assertIn(start, " ".join(shown.split()))
            # With the flags of the printed command, the job saves a checkpoint each epoch, although job.textproto
            # contains the defaults of all fields.
            again = f"{run.root}/again"
            status, output = command(["train", f"{run.directory}/job.textproto", f"--run_dir={again}", "--set=epochs=2",
                                      "--set=checkpoint.every_epochs=1", "--set=checkpoint.min_seconds=0"])
            self.assertEqual(status, 0, output)
            self.assertEqual(len([name for name in os.listdir(f"{again}/checkpoints") if name.startswith("step-")]), 2)

    def test_advice_after_a_fault_of_the_job_names_the_users_job_file(self):
        change = "optimizer.learning_rate=1000000"
        with Run(["strategy=local", "workers=1", "epochs=3", change]) as run:
            self.assertEqual(run.start().finish(), 1, run.output)
            command_line = f"tethys train {run.job} --set=strategy=local --set=workers=1 --set=epochs=3 --set={change}"
            self.assertIn("once this problem is solved, train from the start: ", run.output)
            self.assertIn(f"run: {command_line}\n", run.output)
            _, shown = command(["runs", "show", run.directory])
            self.assertIn(command_line + "\n", shown)

    def test_resumed_run_replaces_status_and_adds_times(self):
        with Run(["checkpoint.every_steps=5", "strategy=mirrored", "workers=2", "epochs=100000"]) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            run.launcher.send_signal(signal.SIGINT)
            run.finish()
            seconds = run.summary()["timing"]["total_seconds"]
            run.run(resume=True, overrides=[f"max_steps={run.saved_step() + 3}", "price_per_hour=3600"])
            self.assertEqual(run.summary()["status"], "succeeded")
            self.assertGreater(run.summary()["timing"]["total_seconds"], seconds)
            self.assertAlmostEqual(run.summary()["cost"]["run"], run.summary()["timing"]["total_seconds"])

    def test_resumed_run_shows_why_each_earlier_attempt_ended(self):
        with Run([*STRATEGIES["ps_sync"], "elastic.on_loss=END", "epochs=100000", "checkpoint.every_steps=5"]) as run:
            run.start().wait_for(run.checkpoints, "checkpoint")
            os.kill(run.process("worker", 1), signal.SIGKILL)
            self.assertEqual(run.finish(), 1)
            saved = run.saved_step()
            run.start(resume=True, overrides=[]).wait_for(lambda: run.saved_step() > saved, "checkpoint")
            killed = r"earlier +worker 1 on \S+ was killed by signal 9"
            _, shown = command(["runs", "show", run.directory])
            self.assertRegex(shown, "state +running[^$]*" + killed)
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(), 1)
            run.run(resume=True, overrides=[f"max_steps={run.saved_step() + 3}"])
            _, shown = command(["runs", "show", run.directory])
            self.assertRegex(shown, r"state +finished\n" + killed)
            self.assertRegex(shown, r"earlier +stopped by Ctrl-C \(SIGINT\), at step ")

    def test_bulk_synchronous_servers_give_the_gradient_noise(self):
        with Run(["strategy=parameter_server", "strategy.parameter_server.servers=2", "workers=2", "epochs=1"]) as run:
            run.run()
            (noise,) = run.summary()["gradient_noise"]
            self.assertGreater(int(noise["steps"]), 0)
            self.assertGreater(noise["variance"], 0)


class ResourcesTest(TethysTest):
    """Tests of sampling. Their jobs are long, because a process that lasts less than 0.1 s is not sampled."""

    def test_every_process_and_the_machine_are_sampled(self):
        with Run(["strategy=parameter_server", "workers=2", "epochs=50", "tuning.resources.interval_seconds=0.25"]) as run:
            run.run()
            lines = run.read("resources.csv").splitlines()
            self.assertEqual(lines[0], HEADER)
            self.assertEqual({row["gpu_percent"] for row in csv.DictReader(lines)}, {""}, "all compute on the CPU")
            processes = {row["process"] for row in csv.DictReader(lines)}
            self.assertEqual(processes, {"", "chief", "worker 0", "worker 1", "ps 0"})
            used = {line["process"]: line for line in run.summary()["resources"] if line["host"]}
            self.assertGreater(used["worker 0"]["cpu_percent"]["mean"], 0)
            self.assertGreater(used["ps 0"]["network_in_bytes_per_second"]["mean"], 0)
            self.assertGreater(used[""]["resident_bytes"]["mean"], used["ps 0"]["resident_bytes"]["mean"])

    def test_interval_of_zero_seconds_disables_sampling(self):
        with Run(["strategy=local", "epochs=1", "tuning.resources.interval_seconds=0"]) as run:
            run.run()
            self.assertFalse(os.path.exists(run.path("resources.csv")))
            self.assertEqual(run.summary()["resources"], [])

    def test_price_gives_cost_of_run_and_epoch(self):
        with Run(["strategy=local", "epochs=2", "price_per_hour=3600"]) as run:
            run.run()
            summary = run.summary()
            self.assertAlmostEqual(summary["cost"]["run"], summary["timing"]["total_seconds"])
            seconds = summary["timing"]["training_seconds"] + summary["timing"]["validation_seconds"]
            self.assertAlmostEqual(summary["cost"]["epoch"], seconds / 2)
            self.assertRegex(run.output, r"; cost \S+, \S+ an epoch, in the currency of the price, 3,600 per hour")


class RunsTest(unittest.TestCase):
    def test_runs_are_listed_and_pruned_and_wrong_flags_refused(self):
        with Run(["epochs=1", "workers=1", "strategy=local"]) as run:
            run.run()
            status, output = command(["runs", "list", f"--runs={run.root}"])
            self.assertEqual(status, 0, output)
            self.assertRegex(output, r"(?m)^run +finished +local +20\d\d-.* [KM]iB$")
            kept = ["runs", "prune", f"--runs={run.root}"]
            for words, left, reason in ((["--keep=1"], True, "nothing to remove"), (["--older_than=1h"], True, "nothing to"),
                                        (["--keep=0"], True, "Would remove 1 run"), (["--keep=0", "--yes"], False, "Removing")):
                status, output = command([*kept, *words])
                self.assertEqual(status, 0, output)
                self.assertIn(reason, output)
                self.assertEqual(os.path.exists(run.directory), left)
            for words, reason in ((["prune"], "--keep=N"), (["list", "--yes"], "runs prune"), (["list", f"--runs={run.root}/nowhere"], "--runs=DIR"), (["lst"], "write list, show")):
                status, output = command(["runs", *words])
                self.assertEqual(status, 2, output)
                self.assertIn(reason, output)


    def test_running_run_is_shown_logged_and_stopped(self):
        with Run([*LONG, "checkpoint.every_steps=5"]) as run:
            run.start().wait_for_training()
            status, output = command(["runs", "show", "run", f"--runs={run.root}"])
            self.assertEqual(status, 0, output)
            self.assertIn(f"state       running, by process {run.launcher.pid} on ", output)
            # The guide (docs/guide/resume.md) finds the processes of one run with this command.
            children = subprocess.run(["pgrep", "-aP", str(run.launcher.pid)], capture_output=True, text=True, check=True)
            for process in (r" chief ", r" worker .*--index=0( |$)", r" worker .*--index=1( |$)"):
                self.assertRegex(children.stdout, f"(?m){process}")
            self.assertIn("strategy    mirrored, 2 workers, global batch ", output)
            with subprocess.Popen([TETHYS, "runs", "logs", run.directory, "--follow"], stdout=subprocess.PIPE, text=True) as follower:
                self.assertRegex(follower.stdout.readline(), r"^\[(chief|worker [01])\] ")
                status, output = command(["runs", "stop", run.directory])
                self.assertEqual(status, 0, output)
                self.assertIn("the run ended with status interrupted after ", output)
                self.assertIn(f"with: tethys train --resume --run_dir={run.directory}", output)
                self.assertEqual(run.finish(), 1)
                follower.communicate(timeout=PATIENCE)
                self.assertEqual(follower.returncode, 0)
            self.assertEqual(run.summary()["status"], "interrupted")
            self.assertIn("stopped by SIGTERM (sent by tethys runs stop", run.summary()["ending"])
            self.assertNotIn("first_failure", run.summary())
            self.assertIn("This run was interrupted after ", run.read("report.md"))
            self.assertEqual(run.read(".lock"), "")
            status, output = command(["runs", "logs", run.directory])
            self.assertEqual(status, 0, output)
            lines = output.splitlines()
            times = [line.split()[-1] for line in re.findall(r"(?m)^\[[^]]+\] [IWE] 20\d\d-\S+", output)]
            self.assertEqual(times, sorted(times))
            for process in ("worker 0", "worker 1"):
                self.assertTrue([line for line in lines if line.startswith(f"[{process}] ") and "ready after" in line])
            for words, reason in ((["stop", run.directory], "is not running"), (["show", "rum", f"--runs={run.root}"], "did you mean run?"),
                                  (["logs", run.path("checkpoints")], "contains no run"), (["show"], "runs show RUN"),
                                  (["list", "run"], "takes no RUN"), (["stop", run.directory, "--limit=5"], "--limit")):
                status, output = command(["runs", *words])
                self.assertEqual(status, 2, output)
                self.assertIn(reason, output)


    def test_run_of_a_build_that_does_not_name_its_launcher_is_stopped(self):
        with Run([*LONG, "checkpoint.every_steps=5"]) as run:
            run.start().wait_for_training()
            os.truncate(run.path(".lock"), 0)  # Older builds leave an empty file.
            status, output = command(["runs", "stop", run.directory])
            self.assertEqual(status, 0, output)
            self.assertIn(f"asked process {run.launcher.pid} to end the run ", output)
            self.assertIn("the run ended with status interrupted after ", output)
            self.assertEqual(run.finish(), 1)


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tethys-compare-")
        self.addCleanup(self.root.cleanup)
        self.job = os.path.join(self.root.name, "job.textproto")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB)
        self.directory = os.path.join(self.root.name, "comparison")

    def compare(self, *flags, max_others_cpu=100):
        return command(["compare", self.job, f"--run_dir={self.directory}", "--vary=global_batch_size=64,128", "--plain",
                        "--set=epochs=1", f"--max_others_cpu={max_others_cpu}", *flags])

    def modified(self, run):
        return os.stat(os.path.join(self.directory, run, "summary.json")).st_mtime_ns

    def mark(self, run, field, value):
        """Sets a field in the summary of a run."""
        path = os.path.join(self.directory, run, "summary.json")
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        summary[field] = value
        with open(path, "w", encoding="utf-8") as file:
            json.dump(summary, file)

    def times(self):
        """{run: (start, seconds)} by runs.csv."""
        with open(os.path.join(self.directory, "runs.csv"), encoding="utf-8") as file:
            return {row["run_dir"]: (float(row["start"]), float(row["seconds"])) for row in csv.DictReader(file)}

    def test_resumed_comparison_keeps_successful_runs_and_repeats_others(self):
        status, output = self.compare()
        self.assertEqual(status, 0, output)
        # Makes the state that the command leaves if it is killed when the first run has just ended.
        times = self.times()
        os.remove(os.path.join(self.directory, "runs.csv"))
        self.mark("job-global_batch_size=128-r0", "status", "interrupted")
        kept = self.modified("job-global_batch_size=64-r0")
        status, output = self.compare("--resume")
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("this run finished before, and is kept"), 1, output)
        self.assertEqual(self.modified("job-global_batch_size=64-r0"), kept)
        for before, after in zip(times["job-global_batch_size=64-r0"], self.times()["job-global_batch_size=64-r0"]):
            self.assertAlmostEqual(before, after, delta=2)
        self.assertTrue(os.path.exists(os.path.join(self.directory, "job-global_batch_size=128-r0.old-1")))

    def test_comparison_prints_shared_settings_once_and_times_so_far_between_rounds(self):
        status, output = self.compare("--repeats=2")
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("  optimizer "), 1, output)
        self.assertEqual(output.count("\njob: local, 1 worker\n"), 2, output)
        self.assertEqual(output.count("training times so far, whose differences may still be chance: "), 1, output)

    def test_resumed_comparison_repeats_runs_of_another_build_or_job(self):
        status, output = self.compare()
        self.assertEqual(status, 0, output)
        self.mark("job-global_batch_size=64-r0", "build_id", "other")
        self.mark("job-global_batch_size=128-r0", "job_hash", "1")
        status, output = self.compare("--resume")
        self.assertEqual(status, 0, output)
        self.assertIn("another build made this run", output)
        self.assertIn("the job has changed since this run", output)

    def test_disturbed_run_is_repeated_and_both_are_kept(self):
        self.assertEqual(self.compare()[0], 0)
        run = "job-global_batch_size=64-r0"
        self.mark(run, "others_cpu", 0.99)
        disturbed = self.modified(run)
        status, output = self.compare("--resume", max_others_cpu="98%")
        self.assertEqual(status, 0, output)
        self.assertIn("other programs used 99 % of the CPU: this run is made again", output)
        self.assertEqual(self.modified(run + ".aside"), disturbed)
        self.assertNotEqual(self.modified(run), disturbed)
        with open(os.path.join(self.directory, "runs.csv"), encoding="utf-8") as file:
            aside = [row["run_dir"] for row in csv.DictReader(file) if row["put_aside"] == "1"]
        self.assertEqual([os.path.basename(path) for path in aside], [run + ".aside"])
        with open(os.path.join(self.directory, "comparison.csv"), encoding="utf-8") as file:
            self.assertEqual([row["runs"] for row in csv.DictReader(file) if row["kind"] == "mean"], ["1", "1"])

    def test_strategies_and_workers_come_from_one_job(self):
        directory = os.path.join(self.root.name, "shapes")
        status, output = command(["compare", self.job, f"--run_dir={directory}", "--strategies=local,mirrored",
                                  "--workers=1-2", "--until=100%", "--plain", "--set=epochs=1",
                                  "--max_others_cpu=100"])
        self.assertEqual(status, 0, output)
        self.assertIn("left out: mirrored with 1 worker: that is local training", output)
        self.assertIn("Speed-up: samples per second divided by the samples per second of A (job-local)", output)
        self.assertTrue(os.path.exists(os.path.join(directory, "job-mirrored-2-r2")))
        self.assertRegex(output, r"\nVerdict\n\n  (Train with|No winner between) [AB] \((one worker alone|2 mirrored workers)\)")
        self.assertIn("A: one worker alone; B: 2 mirrored workers.", output, "the legend of the letters is missing")
        with open(os.path.join(directory, "comparison.csv"), encoding="utf-8") as file:
            letters = [(row["variant"], row["strategy"]) for row in csv.DictReader(file) if row["kind"] == "mean"]
        self.assertEqual(letters, [("A", "local"), ("B", "mirrored")])
        with open(os.path.join(directory, "report.md"), encoding="utf-8") as file:
            self.assertIn("| B: mirrored, 2 workers", file.read())

    def test_process_counts_beyond_the_hosts_slots_are_left_out_of_the_comparison(self):
        directory = os.path.join(self.root.name, "fitting")
        hosts = os.path.join(self.root.name, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("localhost slots=2\n")
        flags = [self.job, f"--run_dir={directory}", f"--hostfile={hosts}", "--strategies=mirrored", "--plain",
                 "--set=epochs=1", "--max_others_cpu=100"]
        status, output = command(["compare", *flags, "--workers=3-4"])
        self.assertEqual(status, 2, output)
        self.assertRegex(output, r"the job has 3 workers?, and the host file has slots for 2: 1 missing\. Add hosts")
        # If none of a strategy's shapes fits the hosts, the command is refused, because the strategy would be
        # missing from the comparison.
        both = [flag.replace("=mirrored", "=mirrored,ps_sync") for flag in flags]
        status, output = command(["compare", *both, "--workers=2", "--servers=1"])
        self.assertEqual(status, 2, output)
        self.assertIn("--strategies: ps_sync: ", output)
        status, output = command(["compare", *flags, "--workers=2-4"])
        self.assertEqual(status, 0, output)
        for workers, missing in ((3, 1), (4, 2)):
            self.assertRegex(output, rf"(?m)^left out: mirrored-{workers}: .*the job has {workers} workers, and the "
                                     rf"host file has slots for 2: {missing} missing$")
        self.assertEqual([name for name in os.listdir(directory) if name.endswith("-r0")], ["job-mirrored-2-r0"])

    def test_workers_without_strategies_are_refused(self):
        status, output = self.compare("--workers=1-2")
        self.assertEqual(status, 2)
        self.assertIn("--workers has an effect only with --strategies", output)

    def test_resources_of_runs_are_printed_and_written(self):
        status, output = self.compare("--set=price_per_hour=1", "--set=epochs=50")
        self.assertEqual(status, 0, output)
        self.assertIn("The machine: CPU", output)
        self.assertNotIn("Load of each machine", output)
        self.assertIn("\nVerdict\n", output)
        self.assertIn("  No winner yet: ", output)
        self.assertIn(", about ", output, "the time left is not shown")
        self.assertIn("an epoch", output)
        with open(os.path.join(self.directory, "comparison_resources.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["global_batch"] for row in rows}, {"64", "128"})
        self.assertLessEqual({"", "chief", "worker 0"}, {row["process"] for row in rows})

    def test_time_to_accuracy_is_in_table_csv_and_report(self):
        status, output = self.compare("--target_accuracy=0.05")
        self.assertEqual(status, 0, output)
        self.assertIn("Time to 5 % validation accuracy", output)
        with open(os.path.join(self.directory, "comparison.csv"), encoding="utf-8") as file:
            runs = [row for row in csv.DictReader(file) if row["kind"] == "run"]
        for run in runs:
            self.assertEqual((run["target_accuracy"], run["epochs_to_target"]), ("0.05", "1"))
            self.assertAlmostEqual(float(run["seconds_to_target"]), float(run["training_seconds"]), places=3)
        self.assertEqual(command(["report", self.directory, "--target_accuracy=1"])[0], 0)
        with open(os.path.join(self.directory, "report.md"), encoding="utf-8") as file:
            self.assertIn("No variant reached 100 % validation accuracy", file.read())

    def test_target_above_one_is_refused(self):
        status, output = self.compare("--target_accuracy=85")
        self.assertEqual(status, 2)
        self.assertIn("0.85 for 85 %", output)
        self.assertFalse(os.path.exists(self.directory))

    def test_resuming_without_a_comparison_is_refused(self):
        self.assertEqual(self.compare("--resume")[0], 2)
        self.assertEqual(command(["compare", self.job, "--resume"])[0], 2)


STUDY = """
job: "job.textproto"
set: "epochs=1"
repeats: 2
max_others_cpu: 1
factor {
  name: "batch"
  level { label: "64" set: "global_batch_size=64" }
  level { label: "128" set: "global_batch_size=128" price_per_hour: 2 }
}
claim {
  text: "Smaller batches are slower."
  measure: "training_seconds"
  more { factor: "batch" level: "64" }
  less { factor: "batch" level: "128" }
}
"""


class StudyTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tethys-study-")
        self.addCleanup(self.root.cleanup)
        self.file = self.write("study.textproto", STUDY)
        self.write("job.textproto", JOB)
        self.directory = os.path.join(self.root.name, "results")

    def write(self, name, text):
        path = os.path.join(self.root.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.directory, name), encoding="utf-8") as file:
            return file.read()

    def study(self, verb, *flags):
        return command(["study", verb, self.file, *flags])

    def test_study_makes_analyses_and_resumes_its_runs(self):
        place = f"--run_dir={self.directory}"
        status, output = self.study("run", place, "--plain")
        self.assertEqual(status, 0, output)
        rows = list(csv.DictReader(self.read("study.csv").splitlines()))
        self.assertEqual([(row["batch"], row["block"]) for row in sorted(rows, key=lambda row: row["run_dir"])],
                         [("128", "0"), ("128", "1"), ("64", "0"), ("64", "1")])
        for row in rows:
            self.assertEqual(row["cost"] != "", row["batch"] == "128")
            self.assertGreater(float(row["training_seconds"]), 0)
        self.assertIn("Smaller batches are slower.", self.read("study.html"))
        self.assertIn("## Effects on training, s", self.read("study.md"))
        self.assertIn("\\toprule", self.read("study.tex"))
        self.assertIn("left, estimated from finished runs", self.study("plan", place)[1])
        status, output = self.study("run", place)
        self.assertEqual(status, 2)
        self.assertIn("already contains results (runs.csv): go on with these results by --resume", output)
        shutil.rmtree(os.path.join(self.directory, "study-64-r1"))
        status, output = self.study("run", place, "--resume", "--plain")
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("this run finished before, and is kept"), 3, output)
        os.remove(os.path.join(self.directory, "study.html"))
        self.assertEqual(self.study("report", place)[0], 0)
        self.assertTrue(os.path.exists(os.path.join(self.directory, "study.html")))

    def test_bad_studies_are_refused_before_anything_runs(self):
        for text, message in [
                ("", "the study has no factor"),
                (STUDY.replace("global_batch_size=64", "global_bach_size=64"),
                 r"study.textproto:8:23: global_bach_size=64: .*did you mean 'global_batch_size'"),
                (STUDY.replace("global_batch_size=64", "global_batch_size=0"), r"study.textproto:8:23: global_batch_size=0: "),
                (STUDY.replace('label: "64"', 'label: "128"'), "two levels with the label 128")]:
            self.write("study.textproto", text)
            status, output = self.study("run", f"--run_dir={self.directory}")
            self.assertEqual(status, 2, output)
            self.assertRegex(output, message)
            self.assertFalse(os.path.exists(self.directory))


if __name__ == "__main__":
    unittest.main()
