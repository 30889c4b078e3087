#!/usr/bin/env python3
"""Tests of jobs whose processes a scheduler starts, on this machine."""
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from tethys_run import JOB, PATIENCE, TETHYS, command, heed_signals, processes_of

# A loopback address for this process alone: other processes cannot take a port between its choice and its use.
OWN_HOST = "127.{}.{}.{}".format(*struct.pack(">I", os.getpid())[1:])


def free_port():
    with socket.socket() as probe:
        probe.bind((OWN_HOST, 0))
        return probe.getsockname()[1]


class SchedulerTest(unittest.TestCase):
    """Tests of jobs whose processes are all started by the same command, as by a scheduler."""

    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tethys-scheduled-")
        self.addCleanup(self.root.cleanup)
        self.job = os.path.join(self.root.name, "job.textproto")
        self.positional = [self.job]
        self.token = os.path.join(self.root.name, "token")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB)
        with open(os.open(self.token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("0123456789abcdef0123456789abcdef job-1\n")

    def start(self, scheduler, environment, overrides, *flags):
        in_file = "TETHYS_TOKEN" not in environment
        process = subprocess.Popen(
            [TETHYS, "train", *self.positional, f"--from={scheduler}", "--plain",
             *([f"--token_file={self.token}"] if in_file else []),
             f"--run_dir={self.root.name}/run", "--set=epochs=1", *(f"--set={value}" for value in overrides),
             *([f"--chief_port={self.port}"] if scheduler == "slurm" else []), *flags],
            env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, preexec_fn=heed_signals)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def start_slurm(self, tasks, overrides, *flags):
        self.port = free_port()
        variables = {"SLURM_NTASKS": str(tasks), "SLURM_JOB_NODELIST": OWN_HOST, "SLURMD_NODENAME": OWN_HOST}
        return [self.start("slurm", {**variables, "SLURM_PROCID": str(i)}, overrides, *flags) for i in range(tasks)]

    def finish(self, processes):
        for process in processes:
            output, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, output)
        with open(f"{self.root.name}/run/summary.json", encoding="utf-8") as file:
            return json.load(file)

    def tf_task(self, cluster, kind, index):
        return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}

    def test_tf_config_with_chief_workers_and_server_trains(self):
        cluster = {"chief": [f"{OWN_HOST}:{free_port()}"], "worker": ["127.0.0.1:1", "127.0.0.1:2"],
                   "ps": ["127.0.0.1:3"]}
        tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
        summary = self.finish([self.start("tf_config", self.tf_task(cluster, *task), ["strategy=parameter_server"])
                               for task in tasks])
        self.assertEqual((summary["status"], summary["workers"], summary["servers"]), ("succeeded", 2, 1))

    def test_tf_config_without_chief_trains(self):
        cluster = {"worker": [f"{OWN_HOST}:{free_port()}", "127.0.0.1:2"]}
        summary = self.finish([self.start("tf_config", self.tf_task(cluster, "worker", index), ["strategy=mirrored"])
                               for index in range(2)])
        self.assertEqual((summary["status"], summary["workers"]), ("succeeded", 2))

    def test_slurm_variables_start_a_job(self):
        self.port = free_port()
        variables = {"SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": OWN_HOST, "SLURMD_NODENAME": OWN_HOST}
        summary = self.finish([self.start("slurm", {**variables, "SLURM_PROCID": str(i)}, ["strategy=mirrored"])
                               for i in range(3)])
        self.assertEqual((summary["status"], summary["workers"]), ("succeeded", 2))

    def test_resume_without_checkpoint_starts_the_job(self):
        self.port = free_port()
        variables = {"SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": OWN_HOST, "SLURMD_NODENAME": OWN_HOST}
        summary = self.finish([self.start("slurm", {**variables, "SLURM_PROCID": str(i)}, ["strategy=local"], "--resume")
                               for i in range(2)])
        self.assertEqual((summary["status"], len(summary["attempt"])), ("succeeded", 1))

    def test_resume_without_job_takes_the_stored_job(self):
        self.finish(self.start_slurm(4, ["strategy=parameter_server"]))
        self.positional = []
        summary = self.finish(self.start_slurm(5, ["epochs=2"], "--resume"))
        self.assertEqual((summary["status"], len(summary["attempt"])), ("succeeded", 2))
        self.assertEqual((summary["workers"], summary["servers"]), (3, 1))

    def test_resume_without_job_and_run_is_refused(self):
        self.positional = []
        for process in self.start_slurm(2, [], "--resume"):
            output, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 2, output)
            self.assertIn("job.textproto does not exist", output)

    def test_refused_job_ends_every_process_with_the_reason(self):
        self.finish(self.start_slurm(3, ["strategy=mirrored"]))
        outputs = []
        # With this start timeout, a worker that the refusal does not end would try to reach the chief for
        # longer than this test waits.
        processes = self.start_slurm(3, ["strategy=mirrored", f"timeouts.start={2 * PATIENCE}"])
        for process in processes:
            outputs.append(process.communicate(timeout=PATIENCE)[0])
            self.assertIn("already contains a run", outputs[-1])
        self.assertEqual([process.returncode for process in processes], [2, 1, 1], outputs)

    def test_lines_on_a_shared_terminal_name_the_process(self):
        processes = self.start_slurm(3, ["strategy=mirrored"])
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        self.assertIn("test accuracy", outputs[0])
        self.assertEqual(outputs[1:], ["", ""])
        processes = self.start_slurm(3, ["strategy=mirrored"], "--resume", "--log_to_terminal", "--set=epochs=2")
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        for worker, output in enumerate(outputs[1:]):
            self.assertIn("ready after", output)
            for line in output.splitlines():
                self.assertTrue(line.startswith(f"[worker {worker} on "), output)

    def test_signal_to_all_processes_saves_a_checkpoint(self):
        self.port = free_port()
        variables = {"SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": OWN_HOST, "SLURMD_NODENAME": OWN_HOST}
        processes = [self.start("slurm", {**variables, "SLURM_PROCID": str(i)},
                                ["strategy=mirrored", "epochs=100000", "checkpoint.every_epochs=0"]) for i in range(3)]
        journal = pathlib.Path(self.root.name, "run", "journal")
        deadline = time.monotonic() + PATIENCE
        while not (journal.exists() and "\nused " in journal.read_text(encoding="utf-8")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        everybody = [*processes_of(f"{self.root.name}/run"), *(process.pid for process in processes)]
        for pid in everybody:
            os.kill(pid, signal.SIGTERM)
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        self.assertIn("by the same command on every machine, with --resume", outputs[0])
        with open(f"{self.root.name}/run/summary.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["status"], "interrupted")

    def test_token_readable_by_others_is_refused(self):
        os.chmod(self.token, 0o644)
        cluster = {"worker": [f"{OWN_HOST}:{free_port()}"]}
        output, _ = self.start("tf_config", self.tf_task(cluster, "worker", 0), []).communicate(timeout=PATIENCE)
        self.assertIsNotNone(re.search(r"mode 0644.*chmod 600", output), output)

    def ranks(self, count, overrides, **variables):
        """Starts the ranks that torchrun starts on one machine."""
        return [self.start("torchrun", {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
                                        "MASTER_ADDR": OWN_HOST, **variables},
                           overrides) for rank in range(count)]

    def test_all_ranks_of_torchrun_train_with_a_token_of_the_environment(self):
        port = str(free_port())
        status, line = command(["token", "ranks"])
        self.assertEqual(status, 0, line)
        processes = self.ranks(3, ["strategy=parameter_server"], MASTER_PORT=port, TETHYS_TOKEN=line)
        summary = self.finish(processes)
        self.assertEqual((summary["status"], summary["workers"], summary["servers"]), ("succeeded", 2, 1))
        token = line.split()[0]
        for path in pathlib.Path(self.root.name, "run").rglob("*"):
            if path.is_file():
                self.assertNotIn(token.encode(), path.read_bytes(), path)

    def refusal(self, scheduler, environment, overrides=(), flags=()):
        process = self.start(scheduler, environment, overrides, *flags)
        output, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 2, output)
        self.assertFalse(os.path.exists(f"{self.root.name}/run"))
        return output

    def test_wrong_tokens_in_the_environment_are_refused_without_showing_them(self):
        pod = {"JOB_COMPLETION_INDEX": "1"}
        for token in ("", "secretword", "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdeg secretword",
                      "0123456789abcdef secretword", "0123456789abcdef0123456789abcdef a secretword"):
            with self.subTest(token):
                output = self.refusal("kubernetes", {**pod, "TETHYS_TOKEN": token})
                self.assertIn("TETHYS_TOKEN: ", output)
                self.assertIn("as `tethys token` prints them", output)
                self.assertNotIn("secretword", output)
                self.assertNotIn("0123456789abcdef", output)

    def test_missing_token_is_refused(self):
        environment = {key: value for key, value in os.environ.items() if key != "TETHYS_TOKEN"}
        done = subprocess.run([TETHYS, "train", self.job, "--from=torchrun"], env=environment, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--from needs the job's token, the same on every machine: --token_file=FILE, or TETHYS_TOKEN",
                      done.stderr)

    def test_places_that_the_job_has_not_are_refused(self):
        pods = ["workers=2", "strategy=parameter_server"]
        torch = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        for scheduler, environment, overrides, message in (
                ("kubernetes", {"JOB_COMPLETION_INDEX": "4"}, pods,
                 "JOB_COMPLETION_INDEX: is 4, but the job has a chief, 1 server and 2 workers"),
                ("kubernetes", {"JOB_COMPLETION_INDEX": ""}, pods, "JOB_COMPLETION_INDEX: is empty"),
                ("torchrun", {**torch, "WORLD_SIZE": ""}, [], "WORLD_SIZE: is empty"),
                ("torchrun", {**torch, "RANK": "2"}, [], "RANK: is 2, but WORLD_SIZE is 1"),
                ("torchrun", torch, ["strategy=parameter_server"], "1 server and 1 worker need 2: start more ranks"),
                ("nomad", {}, [], "--from=nomad: must be one of slurm|kubernetes|torchrun|tf_config")):
            with self.subTest(message):
                self.assertIn(message, self.refusal(scheduler, environment, overrides))

    def test_pod_without_a_job_file_is_refused(self):
        self.positional = []
        self.assertIn("--from needs JOB on every machine", self.refusal("kubernetes", {"JOB_COMPLETION_INDEX": "0"}))


if __name__ == "__main__":
    unittest.main()
