#!/usr/bin/env python3
"""Tests of jobs on machines that differ from the usual: shells that print text or are no POSIX shells, IPv6,
names that are 127.0.1.1, read-only home folders, two names of one machine. The machines are Linux namespaces
(namespaces.py). Needs root; a skipped test names the reason.

    unlike_machines_test.py TETHYS
"""
import os
import shutil
import subprocess
import unittest

from cluster_test import PROGRAM, MachinesTest, Run, of_a_job

SMALL_JOB = """
model { layer { flatten {} } layer { dense { units: 16 activation: RELU } } layer { dense { units: 10 } } }
data { synthetic { noise { shape: [8, 8, 1] } train_samples: 640 test_samples: 64 } classes: 10 }
optimizer { sgd {} learning_rate: 0.1 } global_batch_size: 80 epochs: 1 workers: 2 strategy { mirrored {} }
"""
SERVERS = ["strategy=parameter_server", "strategy.parameter_server.servers=1"]
HOSTS = "master role=worker\nslave1 role=chief,ps\nslave2 role=worker\n"
# Commands with which a start-up file prints text: with and without a line end, with colours, arbitrary bytes,
# and long texts.
GREETINGS = ["echo Welcome to $HOSTNAME", "printf 'hi '", r"printf '\033[1;32mslave1\033[0m $ '",
             "head -c 3000 /dev/urandom", "head -c 3000000 /dev/zero"]


class UnlikeMachinesTest(MachinesTest):
    INSTALLED = True
    NAMES = ["master", "slave1", "slave2"]

    def write(self, machine, name, text, mode=0o644):
        path = os.path.join(self.cluster[machine].home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def train(self, hosts, *overrides, flags=(), job=SMALL_JOB, name="run"):
        status, output = Run(self.cluster, list(overrides), hosts=hosts, job=job, flags=flags, name=name).finish()
        self.assertEqual(of_a_job(self.cluster), [])
        return status, output

    def assert_trains(self, hosts, *overrides, **options):
        status, output = self.train(hosts, *overrides, **options)
        self.assertEqual(status, 0, output)
        self.assertTrue(os.path.exists(self.cluster["master"].home + "/run/summary.json"))
        return output

    def assert_says(self, wanted_status, pattern, hosts, *overrides, **options):
        status, output = self.train(hosts, *overrides, **options)
        self.assertRegex(output, pattern)
        self.assertEqual(status, wanted_status, output)

    def check(self, hosts, *flags):
        self.write("master", "hosts", hosts)
        return self.cluster.run("master", [PROGRAM, "hosts", "check", "--hostfile=hosts",
                                           f"--ssh_config={self.cluster.ssh_config}", *flags])

    def set_shell(self, machine, shell):
        path = os.path.join(self.cluster[machine].folder, "passwd")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("/bin/bash", shell, 1))

    def set_hosts_file(self, machine, text):
        """Gives the machine an /etc/hosts of its own."""
        path = self.write(machine, "etc-hosts", text)
        status, output = self.cluster.run(machine, ["mount", "--bind", path, "/etc/hosts"])
        self.assertEqual(status, 0, output)

    def use_debian_names(self):
        """The own name of each machine is 127.0.1.1 in its /etc/hosts."""
        machines = self.cluster.machines.values()
        for machine in machines:
            others = [f"{other.address} {other.name}" for other in machines if other is not machine]
            self.set_hosts_file(machine.name, "\n".join(
                ["127.0.0.1 localhost", f"127.0.1.1 {machine.name}.lab {machine.name}", *others, ""]))

    # Tests of shells.

    def test_shells_that_print_a_greeting_do_no_harm(self):
        for greeting in GREETINGS:
            with self.subTest(greeting):
                for machine in ("slave1", "slave2"):
                    self.write(machine, ".bashrc", greeting + "\n")
                self.assert_trains(HOSTS, *SERVERS)
        status, output = self.check("master\nslave1\nslave2\n")
        self.assertEqual(status, 0, output)
        self.assertIn("Round trip", output)

    def test_login_shells_of_any_kind_work(self):
        shells = [path for path in map(shutil.which, ("csh", "tcsh", "fish", "zsh", "dash")) if path]
        self.assertTrue(shells, "dash at least is there")
        for shell in shells:
            with self.subTest(shell):
                for machine in ("slave1", "slave2"):
                    self.set_shell(machine, shell)
                    shutil.rmtree(self.cluster[machine].home + "/.cache", ignore_errors=True)
                self.assert_trains(HOSTS)  # Also installs the build, because its folder was removed.

    # Tests of addresses.

    def test_machines_with_ipv6_alone_train(self):
        self.make_cluster(self.NAMES, ipv6=True)
        self.assert_trains(HOSTS)
        self.assert_trains(HOSTS, *SERVERS)
        self.assert_trains("fd77::1 role=chief,ps\n[fd77::2]\nslave2 address=[fd77::3]\n", *SERVERS,
                           flags=["--tls=off"])
        status, output = self.check("master\nslave1\nslave2\n")
        self.assertEqual(status, 0, output)
        self.assertIn("fd77::2", output)
        self.assertIn("Round trip", output)

    def test_ipv4_is_chosen_where_every_machine_has_it(self):
        both = "\n".join(f"{address} {name}" for i, name in enumerate(self.NAMES)
                         for address in (f"fd77::{i + 1}", f"10.77.0.{i + 1}"))
        for i, name in enumerate(self.NAMES):
            self.set_hosts_file(name, "127.0.0.1 localhost\n" + both + "\n")
            self.cluster.run(name, ["ip", "address", "add", f"fd77::{i + 1}/64", "dev", "eth0", "nodad"])
        with open(self.cluster.ssh_config, encoding="utf-8") as file:
            config = file.read()
        for i, name in enumerate(self.NAMES):
            config = config.replace(f"HostName 10.77.0.{i + 1}\n", f"HostName {name}\n  HostKeyAlias 10.77.0.{i + 1}\n")
        with open(self.cluster.ssh_config, "w", encoding="utf-8") as file:
            file.write(config)
        _, output = self.check("master\nslave1\nslave2\n")
        self.assertNotIn("fd77", output)
        _, output = self.check("master\nslave1 address=fd77::2\nslave2\n")
        for i in range(3):
            self.assertIn(f"fd77::{i + 1} ", output)
        self.assert_says(2, "all machines of a job need addresses of one family: slave1 has no IPv4 address and slave2 no "
                            "IPv6 address", "master\nslave1 address=fd77::2\nslave2 address=10.77.0.3\n")

    def test_wrong_address_names_the_line(self):
        self.assert_says(2, "host slave1: hosts:2: address=10.77.0.99 is no address of this host, which has 10.77.0.2",
                         "master role=worker\nslave1 role=chief address=10.77.0.99\nslave2 role=worker\n")

    def test_one_machine_under_two_names_gets_a_warning(self):
        with open(self.cluster.ssh_config, encoding="utf-8") as file:
            config = file.read()
        with open(self.cluster.ssh_config, "w", encoding="utf-8") as file:
            file.write("Host slave1.lab\n  HostName 10.77.0.2\n  User root\n" + config)
        output = self.assert_trains("master role=chief\nslave1 role=worker\nslave1.lab role=worker\n")
        self.assertRegex(output, r"warning: slave1 and slave1.lab are one machine \(10.77.0.2\)")
        self.assertNotIn("one machine", self.assert_trains(HOSTS))

    # Tests of machines whose own name has the address 127.0.1.1, started without a launcher.

    def run_tasks(self, words_of, environment_of):
        """Runs a process on each machine; returns their exit statuses and outputs."""
        tasks = [self.cluster.popen(name, ["env", *environment_of(i, name), *words_of(i, name)], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for i, name in enumerate(self.NAMES)]
        outputs = [task.communicate()[0] for task in tasks]
        return [task.returncode for task in tasks], outputs

    def prepare_tasks(self):
        self.use_debian_names()
        for name in self.NAMES:
            self.write(name, "job.textproto", SMALL_JOB)
            self.write(name, "token", "0123456789abcdef0123456789abcdef job-1\n", 0o600)

    def scheduled(self, scheduler):
        return [PROGRAM, "train", "job.textproto", f"--from={scheduler}", "--token_file=token", "--run_dir=run", "--plain"]

    def test_slurm_works_where_own_names_are_loopback(self):
        self.prepare_tasks()
        statuses, outputs = self.run_tasks(lambda i, name: self.scheduled("slurm"), lambda i, name: [
            f"SLURM_PROCID={i}", "SLURM_NTASKS=3", "SLURM_JOB_NODELIST=master,slave[1-2]", f"SLURMD_NODENAME={name}",
            "SLURM_JOB_ID=77", "SLURM_STEP_ID=0"])
        self.assertEqual(statuses, [0, 0, 0], outputs)

    def test_tf_config_works_where_own_names_are_loopback(self):
        self.prepare_tasks()
        cluster = '"worker": ["master:4000", "slave1:4000", "slave2:4000"]'
        statuses, outputs = self.run_tasks(lambda i, name: self.scheduled("tf_config"), lambda i, name: [
            'TF_CONFIG={"cluster": {%s}, "task": {"type": "worker", "index": %d}}' % (cluster, i)])
        self.assertEqual(statuses, [0, 0, 0], outputs)

    def test_processes_by_hand_listen_on_the_route_to_the_chief(self):
        self.prepare_tasks()
        chief = ["chief", "--job=job.textproto", "--run_dir=run", "--listen=10.77.0.1:4000"]
        words = [chief, ["worker", "--chief=master:4000", "--index=0"],
                 ["worker", "--chief=master:4000", "--index=1", "--bind=slave2"]]
        statuses, outputs = self.run_tasks(lambda i, name: [PROGRAM, *words[i], "--token_file=token"], lambda i, name: [])
        self.assertEqual(statuses, [0, 0, 0], outputs)
        status, output = self.cluster.run("master", [PROGRAM, *chief[:-1], "--listen=master:4000", "--token_file=token"])
        self.assertEqual(status, 1, output)
        self.assertIn("--listen=master:4000: master has the loopback address 127.0.1.1", output)
        status, output = self.cluster.run("slave1", [PROGRAM, *words[1], "--bind=127.0.0.1", "--token_file=token"])
        self.assertEqual(status, 2, output)
        self.assertIn("--bind: 127.0.0.1 resolves to this machine only", output)

    # Tests of folders and files.

    def test_build_goes_where_the_host_file_says(self):
        home = self.cluster["slave1"].home
        shutil.rmtree(home + "/.cache")
        self.cluster.run("slave1", ["mount", "--bind", home, home])
        self.cluster.run("slave1", ["mount", "-o", "remount,bind,ro", home])
        self.assert_says(2, r"host slave1: this build cannot be copied to this host: \S+/.cache/tethys cannot be written .*"
                            r"name another folder by folder=PATH in hosts:2", HOSTS)
        folder = self.cluster["slave1"].folder + "/scratch"
        os.makedirs(folder + "/mine")
        os.utime(folder + "/mine", (0, 0))
        output = self.assert_trains(HOSTS.replace("role=chief,ps", f"role=chief,ps folder={folder}"))
        self.assertIn("copying", output)
        self.assertEqual(sorted(os.listdir(folder)), sorted([self.build, "mine", "runs"]))

    def test_hosts_check_installs_the_build_on_request(self):
        for name in ("slave1", "slave2"):
            shutil.rmtree(self.cluster[name].home + "/.cache")
        status, output = self.check("slave1\nslave2\n")
        self.assertEqual(status, 0, output)
        self.assertIn("slave1, slave2: their links were not measured, because this build is not installed there yet: install it with --install",
                      output)
        status, output = self.check("slave1\nslave2\n", "--install")
        self.assertEqual(status, 0, output)
        self.assertIn("Round trip", output)

    def test_missing_data_is_reported_once_with_the_ways_out(self):
        for name in ("x", "y"):
            self.write("master", f"{name}.csv", "1,2,0\n3,4,1\n" * 40)
        job = SMALL_JOB.replace("synthetic { noise { shape: [8, 8, 1] } train_samples: 640 test_samples: 64 } classes: 10",
                                'csv { train: "x.csv" test: "y.csv" } classes: 2').replace("80", "8").replace("10", "2")
        pattern = (r"hosts slave1, slave2: data file x.csv: No such file or directory\n +hosts slave1, slave2: data file "
                   r"y.csv: .*\n +Copy .* home directory there\), or write chief://PATH")
        self.assert_says(2, pattern, HOSTS, job=job)
        status, output = self.cluster.run("master", [PROGRAM, "advise", "job.textproto", "--hostfile=hosts",
                                                     f"--ssh_config={self.cluster.ssh_config}"])
        self.assertRegex(output, pattern)
        self.assertNotIn("calibrat", output)
        self.assertEqual(status, 1)
        self.assert_trains(HOSTS.replace("master role=worker", "master role=chief").replace("role=chief,ps", "role=worker"),
                           job=job.replace('"x.csv"', '"chief://x.csv"').replace('"y.csv"', '"chief://y.csv"'))


if __name__ == "__main__":
    unittest.main(verbosity=2)
