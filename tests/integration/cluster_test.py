#!/usr/bin/env python3
"""Tests of jobs on several machines, also when a process or a machine dies. The machines are simulated on this one by
Linux namespaces (namespaces.py); jobs are started by ssh from one of them. Needs root; a skipped test names the reason.

    cluster_test.py TETHYS                 runs the tests
    cluster_test.py TETHYS --soak 20       ends a job in each of WAYS_TO_DIE, 20 times; prints the longest time until
                                           its last process had ended
    cluster_test.py TETHYS --starts 20     runs a job of 16 workers on one machine, 20 times; prints how many succeeded
    cluster_test.py TETHYS --study [RATE]  runs examples/studies/001_thesis.textproto on nine machines whose links have
                                           this RATE (default 1gbit)
"""
import glob
import os
import random
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import check_journal
import namespaces
from orphans_test import BIG, BIG_JOB, FAST, FAST_JOB, OUTLIVED_SECONDS
from tethys_run import FASHION_MNIST, FULL_JOB, JOB, PATIENCE, TETHYS, build_id

# A copy of the command in a folder without a bundle; no build replaces the copy during the test.
FOLDER = tempfile.TemporaryDirectory(prefix="tethys-cluster-test-")
PROGRAM = shutil.copy(TETHYS, FOLDER.name)
BUNDLE_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/bundle.sh")
MACHINES = ["master", "slave1", "slave2", "slave3"]
HOSTS = """
master role=chief
slave1 role=worker
slave2 role=worker
slave3 role=ps,worker
"""
CHIEF_ELSEWHERE = "slave1 role=chief\nslave2 role=worker\nslave3 role=worker\nmaster role=worker"
MIRRORED = ["strategy=mirrored", "workers=3"]
SERVERS = ["strategy=parameter_server", "strategy.parameter_server.servers=1", "workers=2"]
LONG = ["epochs=100000", "evaluate_each_epoch=false"]
# A long job that ends as soon as it loses a worker.
ENDING = [*LONG, "elastic.on_loss=END"]
ALL_WORKERS = [*MIRRORED, *ENDING]
CROWD_HOSTS = "master role=chief\nslave1 slots=16 role=worker\n"
CROWD = ["strategy=mirrored", "workers=16"]
# Matches the command lines of a job's tasks, agents and launcher, and of the ssh and shells that start agents.
OF_A_JOB = re.compile(r"--(index|listen|hostfile|job_id)=")


class Run:
    """A `tethys train` on the machine called master."""

    def __init__(self, cluster, overrides, hosts=HOSTS, flags=(), job=JOB, program=PROGRAM, name="run"):
        self.cluster = cluster
        self.home = cluster["master"].home
        self.directory = os.path.join(self.home, name)
        self.log = os.path.join(self.home, f"{name}.output")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.write("hosts", hosts)
        self.write("job.textproto", job)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = cluster.popen(
                "master", [program, "train", "--plain", f"--run_dir={name}", "--hostfile=hosts",
                           f"--ssh_config={cluster.ssh_config}", "job.textproto", *flags,
                           *(f"--set={value}" for value in overrides)], stdout=log, stderr=subprocess.STDOUT)

    def write(self, name, text):
        with open(os.path.join(self.home, name), "w", encoding="utf-8") as file:
            file.write(text)

    def output(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def finish(self):
        """Waits for the end; returns exit status and output."""
        status = self.process.wait(timeout=PATIENCE)
        return status, self.output()

    def wait_for(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the run ended, or {PATIENCE} s passed, before: {what}:\n{self.output()}")
            time.sleep(0.01)

    def wait_for_training(self):
        self.wait_for(lambda: "started in" in self.output() and "\nepoch " in self.output(), "epoch")
        return self

    def read(self, *parts):
        with open(os.path.join(self.directory, *parts), encoding="utf-8") as file:
            return file.read()


def of_a_job(cluster):
    """"machine: command line" of every process of a job, its launcher and its ssh connections included."""
    return [f"{machine.name}: {line}" for machine in cluster.machines.values()
            for line in machine.processes().values() if OF_A_JOB.search(line) and "nsenter" not in line]


def wait_until_nothing_runs(cluster):
    """Waits until no process of a job is left; returns how long that took, in seconds."""
    begin = time.monotonic()
    while of_a_job(cluster):
        if time.monotonic() - begin > PATIENCE:
            raise AssertionError("these processes of jobs still run:\n" + "\n".join(of_a_job(cluster)))
        time.sleep(0.01)
    return time.monotonic() - begin


def kill_launcher(cluster):
    cluster["master"].kill(" train --plain", signal.SIGKILL)


def interrupt_launcher(cluster):
    for pid, line in cluster["master"].processes().items():
        if " train --plain" in line and "nsenter" not in line:
            os.kill(pid, signal.SIGINT)


def kill_launcher_of_a_stopped_worker(cluster):
    cluster["slave2"].kill("tethys worker ", signal.SIGSTOP)
    kill_launcher(cluster)


def kill_agent(cluster):
    cluster["slave2"].kill("tethys worker ", signal.SIGSTOP)
    cluster["slave2"].kill("tethys agent ")


def kill_connections(cluster):
    cluster["master"].kill("ssh -T")


def kill_sshd(cluster):
    cluster["slave2"].kill("sshd")


WAYS_TO_DIE = [kill_launcher, kill_launcher_of_a_stopped_worker, interrupt_launcher, kill_connections, kill_sshd,
               kill_agent]


class MachinesTest(unittest.TestCase):
    """Base of test classes, with a cluster for each test."""
    INSTALLED = False  # Whether all machines have this build from the beginning.
    NAMES = MACHINES

    @classmethod
    def setUpClass(cls):
        reason = namespaces.why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.build = build_id()

    def setUp(self):
        self.cluster = None
        self.make_cluster(self.NAMES)
        self.addCleanup(lambda: self.cluster.close())

    def make_cluster(self, names, **options):
        """Replaces the cluster by a new one."""
        if self.cluster:
            self.cluster.close()
        self.cluster = namespaces.Cluster(names, rate="1gbit", **options)
        for machine in self.cluster.machines.values():
            if self.INSTALLED:
                machine.install(PROGRAM, self.build)

    def run_job(self, overrides, **options):
        run = Run(self.cluster, overrides, **options)
        status, output = run.finish()
        self.assertEqual(status, 0, output)
        self.assertEqual(of_a_job(self.cluster), [])
        self.assertEqual(check_journal.check(run.read("journal")), 9003)
        return run

    def assert_refused(self, pattern, overrides=None, **options):
        """Checks that nothing is started and that the error matches `pattern`."""
        status, output = Run(self.cluster, overrides or MIRRORED, **options).finish()
        self.assertRegex(output, pattern)
        self.assertEqual(status, 2, output)
        self.assertFalse(os.path.exists(os.path.join(self.cluster["master"].home, "run")))

    def program_of_host(self, name, program, script):
        """Replaces a program on one machine by a shell script, for commands that ssh runs there."""
        home = self.cluster[name].home
        os.makedirs(home + "/bin", exist_ok=True)
        with open(f"{home}/bin/{program}", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script + "\n")
        os.chmod(f"{home}/bin/{program}", 0o755)
        with open(home + "/.bashrc", "w", encoding="utf-8") as file:
            file.write(f"PATH={home}/bin:$PATH\n")


class InstallationTest(MachinesTest):
    """Jobs on machines that lack this build."""

    def test_mirrored_and_server_jobs_finish_over_ssh(self):
        mirrored = self.run_job(MIRRORED)
        self.assertIn("ready", mirrored.read("log", "worker-2.log"))
        self.assertIn("lack this build", mirrored.output())
        servers = self.run_job(SERVERS)
        self.assertIn("ready", servers.read("log", "ps-0.log"))
        self.assertNotIn("lack this build", servers.output())

    def test_unpacked_bundle_installs_itself_on_other_hosts(self):
        folder = tempfile.mkdtemp(dir=FOLDER.name)
        bundle = os.path.join(folder, "bundle.tar.gz")
        subprocess.run([BUNDLE_SCRIPT, os.path.abspath(TETHYS), bundle], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, BUNDLE_LEVEL="1"))
        subprocess.run(["tar", "-xzf", bundle, "-C", folder], check=True)
        run = self.run_job(MIRRORED, program=os.path.join(folder, "tethys"))
        self.assertRegex(run.output(), "copying .*/.cache/tethys/bundles/.*.tar.gz to 3 hosts that lack this build")
        self.assertTrue(glob.glob(self.cluster["slave1"].home + "/.cache/tethys/*/lib/tethys"))

    def test_machines_without_libraries_take_part(self):
        """The machines lack the libraries and xz; the launcher makes the bundle by itself, once."""
        program = shutil.copy(TETHYS, tempfile.mkdtemp(dir=FOLDER.name))
        for name in ("slave1", "slave2", "slave3"):
            for library in glob.glob("/usr/lib/*-linux-gnu/lib*.so*"):
                if re.search(r"/lib(dnnl|grpc|protobuf|absl)", library) and not os.path.islink(library):
                    self.cluster.run(name, ["mount", "--bind", "/dev/null", library])
            self.program_of_host(name, "xz", "echo no xz >&2; exit 127")
        status, _ = self.cluster.run("slave1", [program, "--version"])
        self.assertNotEqual(status, 0)
        output = self.run_job(SERVERS, program=program).output()
        self.assertRegex(output, "making the bundle .*/tethys-bundle.tar.gz: .*\ncopying .* to 3 hosts that lack this build")
        self.assertTrue(os.path.exists(os.path.dirname(program) + "/tethys-bundle.tar.gz"))
        self.assertNotRegex(self.run_job(SERVERS, program=program).output(), "making|copying")

    def test_host_without_disk_space_is_refused(self):
        self.program_of_host("slave3", "df", "echo heading; echo disk 2000 1900 100 95% /")
        self.assert_refused("host slave3: 0 MiB are free at .*, and this build needs [0-9]+ MiB")

    def test_host_that_runs_out_of_space_is_named(self):
        home = self.cluster["slave3"].home
        os.makedirs(home + "/.cache")
        self.cluster.run("slave3", ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", home + "/.cache"])
        self.program_of_host("slave3", "df", "exit 1")
        self.assert_refused("host slave3: this build could not be copied to this host: .*No space left on device")

    def test_host_of_another_architecture_is_refused(self):
        self.program_of_host("slave1", "uname", "echo aarch64")
        self.assert_refused("host slave1: the architecture of this host is aarch64, and this build is for x86_64")


class ClusterTest(MachinesTest):
    """Jobs on machines that have this build."""
    INSTALLED = True

    def test_one_connection_starts_sixteen_processes(self):
        run = self.run_job(CROWD, hosts=CROWD_HOSTS)
        for worker in range(16):
            self.assertIn("ready", run.read("log", f"worker-{worker}.log"))

    def test_log_lines_on_terminal_name_task_and_machine(self):
        output = self.run_job(MIRRORED, flags=["--log_to_terminal"]).output()
        for worker, machine in enumerate(["slave1", "slave2", "slave3"]):
            self.assertRegex(output, rf"(?m)^\[worker {worker} on {machine}\] I .* ready after ")

    def test_results_of_remote_chief_are_fetched(self):
        run = self.run_job(MIRRORED, hosts=CHIEF_ELSEWHERE)
        for name in ("summary.json", "steps.csv", "resources.csv", "checkpoints"):
            self.assertTrue(os.path.exists(os.path.join(run.directory, name)), name)
        self.assertEqual(os.listdir(self.cluster["slave1"].home + "/.cache/tethys/runs"), [])

    def test_interrupt_as_the_run_ends_does_not_stop_the_fetch(self):
        mark = self.cluster["slave1"].home + "/fetching"
        # The first command that packs the results on slave1 hangs.
        self.program_of_host("slave1", "tar", f"""case "$*" in *-cf*) if mkdir {mark} 2> /dev/null; then
            exec sleep 3600; fi;; esac; exec /bin/tar "$@" """)
        run = Run(self.cluster, MIRRORED, hosts=CHIEF_ELSEWHERE)
        run.wait_for(lambda: os.path.exists(mark), "fetch of the results")
        interrupt_launcher(self.cluster)
        status, output = run.finish()
        self.assertEqual(status, 0, output)
        self.assertRegex(output, "interrupted, but the run has ended: still fetching its results from slave1:")
        self.assertTrue(os.path.exists(os.path.join(run.directory, "summary.json")))

    def test_unfetchable_results_fail_the_run_and_are_kept(self):
        small = self.cluster["master"].home + "/small"
        run_dir = small + "/run"
        command = [PROGRAM, "train", "--plain", f"--run_dir={run_dir}", f"--ssh_config={self.cluster.ssh_config}"]
        os.mkdir(small)
        self.cluster.run("master", ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small])
        status, output = Run(self.cluster, MIRRORED, hosts=CHIEF_ELSEWHERE, name=run_dir).finish()
        self.assertEqual(status, 1, output)
        where = f"slave1:{self.cluster['slave1'].home}/.cache/tethys/runs/run-[0-9a-f]+"
        self.assertRegex(output, f"(?s)tethys train: the job is done, but cannot fetch the results from {where}: "
                                 ".*No space left on device")
        self.assertRegex(output, f"the results of the run are still in {where}; .*--resume .*--run_dir={run_dir}")
        # A new run in the same directory must not replace the results that are still on slave1.
        self.cluster.run("master", ["mv", run_dir, "other"])
        status, output = self.cluster.run("master", [
            *command, "--hostfile=hosts", "job.textproto", *(f"--set={value}" for value in MIRRORED)])
        self.assertEqual(status, 2, output)
        self.assertRegex(output, f"{where} holds results of an earlier run that were never fetched to its run directory "
                                 f"{run_dir}")
        # Once the disk has free space, --resume fetches the results first, whichever machine the next chief runs on.
        self.cluster.run("master", ["mount", "-o", "remount,size=100m", small])
        self.cluster.run("master", ["mv", "other", run_dir])
        status, output = self.cluster.run("master", [*command, "--resume", "--set=epochs=4"])
        self.assertEqual(status, 0, output)
        self.assertRegex(output, f"fetching the results that an earlier attempt left in {where}")
        _, journal = self.cluster.run("master", ["cat", run_dir + "/journal"])
        self.assertEqual(check_journal.check(journal), 4 * 3001)
        self.assertEqual(os.listdir(self.cluster["slave1"].home + "/.cache/tethys/runs"), [])

    def test_run_with_remote_chief_resumes_after_launcher_dies(self):
        hosts = CHIEF_ELSEWHERE
        saving = MIRRORED + ["epochs=100000", "checkpoint.every_epochs=1"]
        run = Run(self.cluster, saving, hosts=hosts)
        run.wait_for(lambda: "\nsaved " in run.output(), "checkpoint")
        kill_launcher(self.cluster)
        wait_until_nothing_runs(self.cluster)
        run.finish()
        self.assertFalse(os.path.exists(os.path.join(run.directory, "checkpoints")))
        saved = glob.glob(self.cluster["slave1"].home + "/.cache/tethys/runs/*/checkpoints/step-*")
        epochs = max(int(path.rpartition("-")[2]) for path in saved) // 24 + 3
        status, output = self.cluster.run("master", [
            PROGRAM, "train", "--plain", "--resume", "--run_dir=run", "--hostfile=hosts", f"--set=epochs={epochs}",
            f"--ssh_config={self.cluster.ssh_config}"])
        self.assertEqual(status, 0, output)
        self.assertEqual(check_journal.check(run.read("journal")), epochs * 3001)

    def test_no_process_is_left_however_the_job_dies(self):
        for die in WAYS_TO_DIE:
            with self.subTest(die.__name__):
                self.make_cluster(MACHINES)
                run = Run(self.cluster, SERVERS + ENDING).wait_for_training()
                die(self.cluster)
                wait_until_nothing_runs(self.cluster)
                self.assertNotEqual(run.finish()[0], 0)

    def test_killed_worker_is_named_with_its_machine(self):
        for machine in MACHINES:  # Virtual machines cloned from one image have the same host name.
            self.cluster.run(machine, ["hostname", "vm"])
        run = Run(self.cluster, ALL_WORKERS).wait_for_training()
        self.cluster["slave2"].kill("tethys worker ")
        status, output = run.finish()
        self.assertEqual(status, 1)
        self.assertIn("worker 1 on slave2 was killed by signal 9 (Killed)", output)
        self.assertIn("the chief reports: lost worker 1 on slave2: ", output)
        self.assertRegex(output, r"run: tethys train .*--hostfile=hosts --ssh_config=")
        self.assertNotIn(" vm", output)
        wait_until_nothing_runs(self.cluster)

    def test_killed_machine_is_named(self):
        run = Run(self.cluster, ALL_WORKERS).wait_for_training()
        self.cluster["slave2"].stop()
        _, output = run.finish()
        self.assertRegex(output, "worker 1 on slave2 lost its ssh connection \\(|worker 1[^\n]*(silent|broke|closed)")
        wait_until_nothing_runs(self.cluster)

    def test_jobs_in_lock_step_go_on_without_a_killed_machine(self):
        for job, left in ((MIRRORED, "2 of 3"), (SERVERS, "1 of 2")):
            with self.subTest(left=left):
                self.make_cluster(MACHINES)
                run = Run(self.cluster, job + LONG).wait_for_training()
                self.cluster["slave2"].stop()
                run.wait_for(lambda: f"{left} workers go on" in run.output(), "next group of workers")
                epochs = run.output().count("\nepoch ")
                run.wait_for(lambda: run.output().count("\nepoch ") > epochs + 1, "epoch of the next group")
                interrupt_launcher(self.cluster)
                status, output = run.finish()
                self.assertEqual(status, 1)
                self.assertIn("worker 1 on slave2", output)
                wait_until_nothing_runs(self.cluster)

    def test_lost_server_starts_the_job_again_on_its_machines(self):
        saving = ["epochs=15", "evaluate_each_epoch=false", "checkpoint.every_steps=20", "checkpoint.min_seconds=0"]
        hosts = "slave1 role=chief\nslave2 role=worker\nslave3 role=ps,worker\nmaster role=worker"
        run = Run(self.cluster, [*SERVERS, *saving, "max_restarts=1", "timeouts.worker_silence=10"], hosts=hosts)
        run.wait_for(lambda: "\nsaved " in run.output(), "checkpoint")
        self.cluster["slave3"].kill("tethys ps ")
        status, output = run.finish()
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"ps 0 on slave3 was killed by signal 9[^\n]*\nall processes start again from ")
        self.assertEqual(check_journal.check(run.read("journal")), 15 * 3001)
        wait_until_nothing_runs(self.cluster)

    def test_lost_chief_of_another_machine_is_replaced_there(self):
        hosts = "slave1 role=chief\nslave2 role=worker\nslave3 role=ps,worker\nmaster role=worker"
        run = Run(self.cluster, [*SERVERS, *LONG, "max_restarts=2", "timeouts.worker_silence=10"], hosts=hosts)
        run.wait_for_training()
        for number in (1, 2):
            self.cluster["slave1"].kill("tethys chief ")
            run.wait_for(lambda: run.output().count("the new chief goes on") == number, "new chief")
        epochs = run.output().count("\nepoch ")
        run.wait_for(lambda: run.output().count("\nepoch ") > epochs + 1, "epoch under the new chief")
        self.assertNotIn("start again", run.output())
        interrupt_launcher(self.cluster)
        run.finish()
        wait_until_nothing_runs(self.cluster)

    def test_machines_come_and_go_by_the_host_file(self):
        run = Run(self.cluster, [*MIRRORED, "workers=2", *LONG], hosts="master role=chief\nslave1\nslave2\n")
        run.wait_for_training()

        def scale(*flags):
            return self.cluster.run("master", [PROGRAM, "scale", "run", *flags])
        status, output = scale("--workers=3")
        self.assertEqual(status, 2, output)
        self.assertRegex(output, "hosts.*3 workers")
        run.write("hosts", "master role=chief\nslave1\nslave2\nslave3\n")
        status, output = scale("--workers=3")
        self.assertEqual(status, 0, output + run.output())
        self.assertRegex(output, "^3 workers go on from step ")
        run.write("hosts", "master role=chief\nslave1\nslave3\n")  # slave2 is drained.
        status, output = scale("--workers=2")
        self.assertEqual(status, 0, output + run.output())
        self.assertEqual([line for line in of_a_job(self.cluster) if line.startswith("slave2: ")], [])
        self.assertEqual(len([line for line in of_a_job(self.cluster) if re.search(r"slave[13]: .*tethys worker ", line)]),
                         2, of_a_job(self.cluster))
        interrupt_launcher(self.cluster)
        self.assertEqual(run.finish()[0], 1)
        wait_until_nothing_runs(self.cluster)

    def test_cut_off_machine_is_named_and_no_task_outlives_its_link(self):
        """The tasks of the first job's cut-off machine wait for their chief while the other jobs run."""
        self.make_cluster([*MACHINES, "slave4"])
        run = Run(self.cluster, ALL_WORKERS + ["timeouts.silence=6", "timeouts.step=15"], name="mirrored",
                  hosts=HOSTS.replace("slave2", "slave4")).wait_for_training()
        self.cluster["slave4"].cut_off()
        _, output = run.finish()
        self.assertRegex(output, "tethys train: (lost )?worker 1 on slave4")
        saving = Run(self.cluster, [*BIG, "strategy.parameter_server.servers=1"], name="saving", job=BIG_JOB,
                     hosts="master role=chief\nslave2 role=worker\nslave3 role=ps")
        saving.wait_for(lambda: "started in" in saving.output(), "start")
        fast = Run(self.cluster, FAST, hosts="master role=chief\nslave1 role=worker", job=FAST_JOB, name="fast")
        fast.wait_for(lambda: "started in" in fast.output(), "start")
        saving.wait_for(lambda: glob.glob(saving.directory + "/checkpoints/*.tmp/*.safetensors"), "save")
        self.cluster["master"].cut_off()
        self.assertLess(wait_until_nothing_runs(self.cluster), OUTLIVED_SECONDS)
        for run in (saving, fast):
            self.assertEqual(run.finish()[0], 1)

    def test_machine_killed_during_launch_is_named(self):
        run = Run(self.cluster, MIRRORED + LONG)
        run.wait_for(lambda: self.cluster["slave2"].processes() and "run directory" in run.output(), "launch")
        self.cluster["slave2"].stop()
        _, output = run.finish()
        self.assertRegex(output, "slave2|worker 1")
        wait_until_nothing_runs(self.cluster)

    def test_host_without_address_is_refused(self):
        self.assert_refused("nowhere.invalid: no address is known .*address=",
                            hosts=HOSTS.replace("slave1", "nowhere.invalid"))

    def test_host_without_sshd_is_refused(self):
        self.cluster["slave2"].kill("sshd")
        self.cluster["slave3"].kill("sshd")
        self.assert_refused(r"(?s)host slave2: ssh: .*Connection refused \(try: ssh -F \S+ -o BatchMode=yes slave2 true\)"
                            "\n +host slave3: ssh: ")

    def test_refused_ssh_key_is_reported(self):
        with open(self.cluster.root + "/user_key.pub", "w", encoding="utf-8"):
            pass
        self.assert_refused(r"host slave1: ssh: .*Permission denied")

    def test_host_with_wrong_clock_gets_a_warning(self):
        self.program_of_host("slave1", "date", "echo 86400.5")
        run = self.run_job(MIRRORED)
        self.assertRegex(run.output(), "warning: slave1: the clock of this host is [0-9.]+ s behind")

    def test_missing_or_different_data_is_reported(self):
        self.cluster.run("slave1", ["mount", "-t", "tmpfs", "tmpfs", "/usr/share/datasets"])
        other = self.cluster["slave3"].home + "/other"
        with open(other, "w", encoding="utf-8") as file:
            file.write("not these")
        self.cluster.run("slave3", ["mount", "--bind", other, FASHION_MNIST + "/t10k-labels-idx1-ubyte.gz"])
        self.assert_refused(r"(?s)host slave1: data file .*: No such file.*"
                            r"host slave3: data file .*/t10k-labels-idx1-ubyte.gz has 9 bytes there and \d+ here",
                            job=FULL_JOB)

    def test_second_launcher_on_run_directory_is_refused(self):
        run = Run(self.cluster, MIRRORED + LONG).wait_for_training()
        status, output = self.cluster.run("master", [
            PROGRAM, "train", "--resume", "--run_dir=run", "--hostfile=hosts", f"--ssh_config={self.cluster.ssh_config}"])
        self.assertEqual(status, 2)
        self.assertIn("in use", output)
        interrupt_launcher(self.cluster)
        run.finish()


def soak(rounds):
    """Ends jobs in each of WAYS_TO_DIE at random moments of training."""
    worst = {die: 0.0 for die in WAYS_TO_DIE}
    for round_number in range(rounds):
        for die in WAYS_TO_DIE:
            with namespaces.Cluster(MACHINES, rate="1gbit") as cluster:
                run = Run(cluster, random.choice([SERVERS, MIRRORED]) + ENDING).wait_for_training()
                time.sleep(random.uniform(0, 1))
                die(cluster)
                worst[die] = max(worst[die], wait_until_nothing_runs(cluster))
                run.process.kill()
                run.finish()
        print(f"round {round_number + 1}:", ", ".join(f"{die.__name__} {worst[die]:.2f} s" for die in WAYS_TO_DIE),
              flush=True)
    return 0 if max(worst.values()) <= 5 else 1


def starts(rounds):
    """Starts 16 workers on one machine, whose sshd accepts at most ten unauthenticated connections at a time."""
    good = 0
    for round_number in range(rounds):
        with namespaces.Cluster(["master", "slave1"]) as cluster:
            status, output = Run(cluster, CROWD, hosts=CROWD_HOSTS).finish()
            left = of_a_job(cluster)
        good += status == 0 and not left
        print(f"round {round_number + 1}: {good} good", flush=True)
        if status != 0 or left:
            print(output, left)
    return 0 if good == rounds else 1


def study(rate):
    """Runs study 1 on nine machines; further arguments are flags of `tethys study`."""
    examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")
    results = os.path.abspath("runs/study1-" + time.strftime("%Y%m%d-%H%M%S"))
    own_place = [] if any(flag.startswith("--run_dir") for flag in sys.argv[1:]) else [f"--run_dir={results}"]
    with namespaces.Cluster(["master", *(f"slave{i}" for i in range(1, 9))], rate=rate) as cluster:
        return subprocess.run(
            cluster.command("master", [
                PROGRAM, "study", "run", f"{examples}/studies/001_thesis.textproto", "--plain", *own_place,
                f"--hostfile={examples}/okeanos/hosts", f"--ssh_config={cluster.ssh_config}", *sys.argv[1:]]),
            env=cluster["master"].environment(), check=False).returncode


if __name__ == "__main__":
    MODE = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in ("--soak", "--starts", "--study") else None
    ARGUMENT = sys.argv.pop(1) if MODE and len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
    if MODE == "--soak":
        sys.exit(soak(int(ARGUMENT or 20)))
    if MODE == "--starts":
        sys.exit(starts(int(ARGUMENT or 20)))
    if MODE == "--study":
        sys.exit(study(ARGUMENT or "1gbit"))
    unittest.main(verbosity=2)
