"""Tests of the live view: `tethys watch` during and after real runs, and malicious callers."""
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import unittest

import tethys_run
from live_view import View
from tethys_run import PATIENCE, Run, TethysTest, command

# The system's Python, which has the package python3-prometheus-client.
SYSTEM_PYTHON = "/usr/bin/python3"
READ_METRICS = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
print(json.dumps({family.name: [[s.name, s.labels, s.value] for s in family.samples]
                  for family in text_string_to_metric_families(sys.stdin.read())}))
"""
ENDLESS = ["strategy=parameter_server", "workers=2", "epochs=100000"]


def views_of(directory):
    """The pids of live views of a run."""
    return [pid for pid, line in tethys_run.processes_of(directory).items() if f" watch {directory}" in f"{line} "]


class DashboardTest(TethysTest):
    def start(self, run):
        run.start().wait_for_output("/?token=")
        run.wait_for(lambda: views_of(run.directory), "live view")
        self.assertIn(run.read("watch.url").strip(), run.so_far())
        with open(f"/proc/{views_of(run.directory)[0]}/stat", encoding="utf-8") as file:
            self.assertEqual(file.read().rpartition(")")[2].split()[16], "10")  # The niceness.

    def test_dashboard_ends_with_its_run(self):
        with Run(ENDLESS, flags=["--dashboard"]) as run:
            self.start(run)
            run.wait_for_training()
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(), 1)
            self.assertEqual(views_of(run.directory), [])
            self.assertFalse(os.path.exists(run.path("watch.url")))

    def test_dashboard_of_a_killed_launcher_ends(self):
        with Run(ENDLESS, flags=["--dashboard"]) as run:
            self.start(run)
            run.launcher.kill()
            run.launcher.wait()
            self.assert_nothing_runs(run)


class WatchTest(TethysTest):
    def test_view_follows_a_run_and_shows_it_afterwards(self):
        with Run(ENDLESS) as run:
            run.start().wait_for_training()
            with View(run.directory) as view:
                seen = []

                def two_workers_step():
                    seen[:] = [task for task in view.state().get("task", []) if task["pulse"]["role"] == "worker" and
                               int(task["pulse"].get("step", 0)) > 0 and "compute_seconds" in task["pulse"]]
                    return len(seen) == 2
                run.wait_for(two_workers_step, "pulse")
                self.assertEqual([task["health"] for task in seen], ["ok", "ok"])

                def step():  # Absent until the chief has reported one, which may be after a worker's first step.
                    return int(view.state()["progress"].get("step", 0))
                before = step()
                run.wait_for(lambda: step() > before, "later step")
                self.check_metrics(view)
                run.launcher.send_signal(signal.SIGINT)
                run.finish()
                self.assertEqual(view.state()["phase"], "STOPPED")
                self.assertEqual(view.end(), 0)
            self.assertFalse(os.path.exists(run.path("watch.url")))
            with View(run.directory) as view:
                self.assertEqual(view.state()["phase"], "STOPPED")

    def check_metrics(self, view):
        status, headers, body = view.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("openmetrics-text; version=1.0.0", headers["Content-Type"])
        done = subprocess.run([SYSTEM_PYTHON, "-c", READ_METRICS], input=body, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stderr}\n(needs python3-prometheus-client)\n{body}")
        metrics = json.loads(done.stdout)
        self.assertEqual([labels["worker"] for _, labels, value in metrics["tethys_worker_up"] if value == 1], ["0", "1"])
        self.assertGreater(metrics["tethys_steps"][0][2], 0)
        counts = {name: value for name, labels, value in metrics["tethys_step_duration_seconds"]
                  if labels.get("le", "+Inf") == "+Inf"}
        self.assertGreater(counts["tethys_step_duration_seconds_count"], 0)
        self.assertEqual(counts["tethys_step_duration_seconds_bucket"], counts["tethys_step_duration_seconds_count"])

    def test_view_opens_only_with_its_token_and_its_own_host_name(self):
        with Run(["strategy=local", "epochs=1"]) as run, View(run.run().directory) as view:
            mode = os.stat(run.path("watch.url")).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600)
            self.assertEqual(run.read("watch.url").strip(), view.address)
            for path in ["/", "/state.json", "/metrics", "/?token=" + "0" * 32, "/?token=" + view.token[:-1], "/state.json?token=" + view.token]:
                self.assertEqual(view.ask(path, token=False)[0], 403, path)
            status, headers, _ = view.ask("/?token=" + view.token, token=False)
            self.assertEqual((status, headers["Location"]), (303, "/"))
            self.assertIn("HttpOnly; SameSite=Strict", headers["Set-Cookie"])
            cookie = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
            status, headers, body = view.ask("/", headers=cookie, token=False)
            self.assertEqual(status, 200)
            nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", headers["Content-Security-Policy"]).group(1)
            self.assertEqual(len(re.findall("<script", body)), len(re.findall(rf'<script[^>]* nonce="{nonce}"', body)))
            self.assertEqual((headers["X-Content-Type-Options"], headers["Cache-Control"], headers["Referrer-Policy"]),
                             ("nosniff", "no-store", "no-referrer"))
            self.assertNotEqual(view.ask("/")[1]["Content-Security-Policy"], headers["Content-Security-Policy"])
            for host in ["evil.example", f"evil.example:{view.port}", "127.0.0.1", f"127.0.0.1:{view.port}.evil.example",
                         f"localhost.evil.example:{view.port}"]:
                self.assertEqual(view.ask("/state.json", headers={"Host": host})[0], 421, host)
            self.assertEqual(view.ask("/state.json", headers={"Host": f"localhost:{view.port}"})[0], 200)
            self.assertEqual(view.ask("/other")[0], 404)
            self.assertEqual(view.ask("/", method="POST")[0], 405)
            status, headers, body = view.ask("/state.json", method="HEAD")
            self.assertEqual((status, body), (200, ""))
            self.assertGreater(int(headers["Content-Length"]), 100)

    def test_metrics_address_serves_metrics_to_the_token_only(self):
        with Run(["strategy=local", "epochs=1"]) as run:
            token = os.path.join(run.run().root, "token")
            with open(token, "w", encoding="utf-8") as file:
                file.write("a-token-of-24.letters~+/\n")
            os.chmod(token, 0o600)
            flags = ["--metrics_address=127.0.0.2:0", f"--metrics_token_file={token}"]
            with View(run.directory, flags) as view:
                right = {"Authorization": "Bearer a-token-of-24.letters~+/"}
                line = view.process.stdout.readline()
                port = re.fullmatch(rf"metrics: http://127\.0\.0\.2:(\d+)/metrics, with the token in {token}\n", line).group(1)
                other = ("127.0.0.2", int(port))
                status, headers, body = view.ask("/metrics", headers=right, token=False, address=other)
                self.assertEqual(status, 200)
                self.assertIn("openmetrics-text", headers["Content-Type"])
                self.assertTrue(body.endswith("# EOF\n"))
                for headers in ({}, {"Authorization": "Bearer a-token-of-24.letters~+"}, {"Authorization": f"Bearer {view.token}"},
                                {"Cookie": f"tethys_{view.port}={view.token}"}):
                    status, answered, body = view.ask("/metrics", headers=headers, token=False, address=other)
                    self.assertEqual((status, answered["WWW-Authenticate"]), (401, "Bearer"), headers)
                    self.assertNotIn("tethys_steps", body)
                for path in ("/", "/state.json", "/?token=" + view.token):
                    self.assertEqual(view.ask(path, headers=right, token=False, address=other)[0], 404, path)
                # The token for metrics gives access to metrics only. Silent callers on the address for
                # metrics do not prevent other callers from using the address of the view.
                self.assertEqual(view.ask("/metrics", headers=right, token=False)[0], 403)
                with contextlib.ExitStack() as stack:
                    for _ in range(20):
                        stack.enter_context(contextlib.closing(view.connect(other)))
                    self.assertEqual(view.ask("/state.json")[0], 200)
            os.chmod(token, 0o644)
            for wrong, message in ((flags, "chmod 600"), (flags[:1], "needs --metrics_token_file"),
                                   (flags[1:], "--metrics_address=HOST:PORT, which is missing"),
                                   (["--metrics_address=here", flags[1]], "--metrics_address")):
                status, output = command(["watch", run.directory, *wrong])
                self.assertEqual(status, 2, output)
                self.assertIn(message, output)
            os.chmod(token, 0o600)
            status, output = command(["train", run.job, f"--run_dir={run.root}/other", *flags])
            self.assertEqual(status, 2)
            self.assertIn("add --dashboard", output)

    def test_view_compares_run_with_prediction_and_refuses_a_damaged_prediction(self):
        with Run([*ENDLESS, "strategy.parameter_server.consistency=asynchronous"]) as run:
            run.start().wait_for_training()
            # A rate that no machine reaches, so that the comparison is the same everywhere.
            with open(run.path("prediction.json"), "w", encoding="utf-8") as file:
                json.dump({"prediction": {"samples_per_second": {"value": 2e15, "low": 1e15, "high": 3e15}},
                           "batch_per_worker": 8}, file)
            with View(run.directory) as view:
                run.wait_for(lambda: "comparison" in view.state(), "comparison")
                compared = view.state()["comparison"]
                self.assertRegex(compared["text"], r"^100 % slower than predicted: [\d,]+ samples/s, predicted 1,000,")
                self.assertNotIn("within", compared)
                self.assertIn("tethys_predicted_samples_per_second", view.ask("/metrics")[2])
                counts = [int(count) for count in view.state()["staleness_count"]]
                self.assertGreater(sum(counts), 0)
                machine = view.state()["machine"][0]
                self.assertGreater(machine["cores"], 0)
                self.assertGreater(machine["job_cpu_percent"], 0)
            with open(run.path("prediction.json"), "w", encoding="utf-8") as file:
                file.write("{")
            status, output = command(["watch", run.directory])
            self.assertEqual(status, 2)
            self.assertIn("prediction.json is damaged", output)

    def test_bad_callers_do_not_keep_others_out(self):
        with Run(["strategy=local", "epochs=1"]) as run, View(run.run().directory) as view:
            with contextlib.closing(view.connect()) as endless:
                endless.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20000)
                self.assertTrue(endless.recv(100).startswith(b"HTTP/1.1 431 "))
            # Connections that send nothing are closed after some seconds, and other callers can then connect.
            with contextlib.ExitStack() as stack:
                silent = [stack.enter_context(contextlib.closing(view.connect())) for _ in range(20)]
                self.assertEqual(view.ask("/state.json")[0], 200)
                self.assertEqual(silent[0].recv(1), b"")
            for _ in range(2000):
                with contextlib.closing(view.connect()) as caller:
                    caller.sendall(b"GET")
            for _ in range(1000):
                self.assertEqual(view.ask("/nothing")[0], 404)
            self.assertEqual(view.ask("/state.json")[0], 200)
            self.assertLess(len(os.listdir(f"/proc/{view.process.pid}/fd")), 64)

    def test_readable_events_of_a_damaged_file_are_shown(self):
        with Run(["strategy=local", "epochs=1"]) as run:
            with open(run.run().path("progress.jsonl"), "ab") as file:
                file.write(b'nonsense\n{"later_event":{}}\n{"note":"saved"}\n{"note":"to')
            with View(run.directory) as view:
                state = view.state()
                self.assertEqual((state["phase"], state["unreadable"], state["note"][-1]), ("SUCCEEDED", "2", "saved"))

    def test_directory_without_a_run_is_refused(self):
        with Run(["strategy=local", "epochs=1"]) as run:
            empty = os.path.join(run.root, "empty")
            os.mkdir(empty)
            status, output = command(["watch", empty])
            self.assertEqual(status, 2)
            self.assertIn("holds no run", output)
            with open(run.run().path("progress.jsonl"), "w", encoding="utf-8") as file:
                file.write('{"later_event":{}}\n')
            status, output = command(["watch", run.directory])
            self.assertEqual(status, 2)
            self.assertIn("of another version", output)
            os.remove(run.path("progress.jsonl"))
            status, output = command(["watch", run.directory])
            self.assertEqual(status, 2)
            self.assertIn("tethys report", output)
            with open(run.path("job.textproto"), "a", encoding="utf-8") as file:
                file.write("later_field: 1\n")
            with open(run.path("progress.jsonl"), "w", encoding="utf-8") as file:
                file.write('{"note":"saved"}\n')
            status, output = command(["watch", run.directory])
            self.assertEqual(status, 2)
            self.assertIn("later_field", output)


if __name__ == "__main__":
    unittest.main()
