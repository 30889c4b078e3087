#!/usr/bin/env python3
"""Tests of wrong input. Wrong jobs and data are refused before any process starts (exit status 2). A failure during a
run ends the run with a reason (exit status 1). Unauthenticated clients do not affect a run."""
import gzip
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

from tethys_run import JOB, PATIENCE, Run, STRATEGIES, TETHYS, TethysTest, command


def idx(values, *shape, magic=0x08):
    return struct.pack(">HBB", 0, magic, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)


class RefusedJobTest(TethysTest):
    """Wrong jobs end with status 2, and no process is started."""

    def assert_refused(self, *fragments, overrides=(), job=JOB, flags=()):
        with Run(overrides, job=job, flags=flags) as run:
            status = run.start().finish()
            self.assertEqual(status, 2, run.output)
            for fragment in fragments:
                self.assertIn(fragment, run.output)
            self.assertEqual(run.processes(), {})
            self.assertFalse(os.path.exists(run.path("journal")))

    def test_unknown_field_is_refused(self):
        self.assert_refused("job.textproto:", "epoch", "epochs", job=JOB.replace("epochs:", "epoch:"))

    def test_field_of_wrong_type_is_refused(self):
        self.assert_refused("job.textproto:", job=JOB.replace("epochs: 3", 'epochs: "three"'))

    def test_job_with_both_batch_fields_is_refused(self):
        self.assert_refused("job.textproto:", "batch", job=JOB + "batch_size_per_worker: 4\n")

    def test_unknown_strategy_is_refused(self):
        self.assert_refused("job.textproto:", "horovod", "mirrored", job=JOB + "strategy { horovod {} }\n")
        self.assert_refused("strategy", "mirrored", overrides=["strategy=horovod"])

    def test_values_out_of_range_are_refused(self):
        for override in ("workers=0", "workers=-1", "workers=1000000", "global_batch_size=0", "epochs=-1",
                         "data.classes=0", "optimizer.learning_rate=0", "optimizer.learning_rate=nan",
                         "optimizer.sgd.momentum=1", "timeouts.step=0", "checkpoint.keep=0",
                         "model.layer[1].dense.units=0", "model.layer[1].dense.units=99999999999"):
            with self.subTest(override=override):
                self.assert_refused(override.split("=", maxsplit=1)[0].rpartition(".")[2], overrides=[override])

    def test_pattern_without_files_is_refused_with_its_place(self):
        for pattern in ("none-*.bin", "nowhere/batch_*.bin"):
            with self.subTest(pattern):
                self.assert_refused("job.textproto:", f"no file matches {pattern}", job=(
                    f'model {{ lenet {{}} }} data {{ cifar {{ train: "{pattern}" }} classes: 10 }} '
                    "optimizer { sgd {} learning_rate: 0.1 } global_batch_size: 4 epochs: 1"))

    def test_more_shards_than_rows_are_refused(self):
        self.assert_refused("dense_2", "only 10 rows", overrides=[
            "strategy=parameter_server", "workers=2", "tuning.partitioner.fixed.shards=11"])

    def test_chief_port_in_use_is_refused(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            self.assert_refused(str(port), "--chief_port", flags=[f"--chief_port={port}"])

    def test_run_directory_in_use_is_refused(self):
        with Run([*STRATEGIES["mirrored"], "epochs=10000"]) as run:
            run.start()
            run.wait_for_training()
            for more in ([], ["--resume"]):
                status, output = command(["train", run.job, f"--run_dir={run.directory}", *more])
                self.assertEqual(status, 2, output)
                self.assertIn(run.directory, output)

    def test_run_directory_of_earlier_run_is_refused(self):
        with Run(["strategy=local", "epochs=1"]).run() as run:
            status, output = command(["train", run.job, f"--run_dir={run.directory}"])
            self.assertEqual(status, 2, output)
            self.assertIn("--resume", output)


class RefusedDataTest(TethysTest):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tethys-data-")
        self.addCleanup(shutil.rmtree, self.root)
        self.images = idx(range(250), 10, 5, 5)
        self.labels = idx(range(10), 10)

    def assert_refused(self, *fragments):
        for name, data in (("images", self.images), ("labels", self.labels)):
            if data is not None:
                with open(os.path.join(self.root, name), "wb") as file:
                    file.write(data)
        job = re.sub(r"idx \{.*?\}", f'idx {{ train_images: "{self.root}/images" train_labels: "{self.root}/labels" }}',
                     JOB, flags=re.DOTALL).replace("validation_samples: 1000", "").replace("limit_samples: 3001", "")
        with Run(["global_batch_size=2", "epochs=1"], job=job) as run:
            status = run.start().finish()
            if not fragments:
                return self.assertEqual(status, 0, run.output)
            self.assertEqual(status, 2, run.output)
            for fragment in fragments:
                self.assertIn(fragment, run.output)
            self.assertFalse(os.path.exists(run.path("journal")))
        return None

    def test_job_with_valid_data_files_trains(self):
        self.assert_refused()

    def test_missing_image_file_is_refused(self):
        self.images = None
        self.assert_refused("images", "No such file")

    def test_empty_image_file_is_refused(self):
        self.images = b""
        self.assert_refused("images")

    def test_truncated_image_file_is_refused(self):
        self.images = self.images[:-7]
        self.assert_refused("images", "7")

    def test_header_with_sizes_beyond_file_is_refused(self):
        self.images = idx(b"", 0xFFFFFFFF, 0xFFFF, 0xFFFF)
        self.assert_refused("images")
        self.images = gzip.compress(idx(range(250), 4000000000, 28, 28))
        self.assert_refused("images")

    def test_image_file_with_wrong_magic_is_refused(self):
        self.images = b"\x89PNG" + self.images
        self.assert_refused("images")
        self.images = idx(range(250), 10, 5, 5, magic=0x0D)
        self.assert_refused("images")

    def test_corrupt_gzip_file_is_refused(self):
        packed = bytearray(gzip.compress(self.images))
        packed[-6] ^= 0x40  # A bit of gzip's checksum.
        self.images = bytes(packed)
        self.assert_refused("images")

    def test_fewer_labels_than_images_are_refused(self):
        self.labels = idx(range(9), 9)
        self.assert_refused("10", "9", "labels")

    def test_label_beyond_the_classes_is_refused(self):
        self.labels = idx([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], 10)
        self.assert_refused("labels", "10")


class RunningJobTest(TethysTest):
    def test_non_finite_loss_ends_run_and_names_step(self):
        for name, overrides in STRATEGIES.items():
            with self.subTest(strategy=name), Run([*overrides, "optimizer.learning_rate=1000000"]) as run:
                self.assertEqual(run.start().finish(), 1, run.output)
                self.assertRegex(run.output, r"(nan|inf|not finite)")
                self.assertRegex(run.output, r"worker \d")
                self.assertRegex(run.output, r"step \d")
                self.assert_nothing_runs(run)

    def test_reason_of_a_failure_is_printed_once(self):
        for name, overrides in STRATEGIES.items():
            with self.subTest(strategy=name), Run([*overrides, "optimizer.learning_rate=1000000"]) as run:
                self.assertEqual(run.start().finish(), 1, run.output)
                self.assertEqual(len(re.findall(r"(?<!--set=)optimizer\.learning_rate", run.output)), 1, run.output)
                self.assertEqual(len(re.findall(r"(nan|NaN|inf\b)", run.output)), 1, run.output)
                self.assertNotRegex(run.output, r"\[\d+, \+\d+\)|exited with status|go on from")
                self.assertIn("once this problem is solved, train from the start", run.output)

    def test_killed_worker_is_named_once(self):
        with Run([*STRATEGIES["ps_sync"], "elastic.on_loss=END", "epochs=10000"]) as run:
            run.start()
            run.wait_for_training()
            os.kill(run.process("worker", 1), signal.SIGKILL)
            self.assertEqual(run.finish(), 1, run.output)
            self.assertEqual(len(re.findall("worker 1 on .* was killed by signal 9", run.output)), 1, run.output)
            self.assertEqual(len(re.findall("no checkpoint was saved yet|go on from step", run.output)), 1, run.output)

    def test_unauthenticated_clients_do_not_affect_the_run(self):
        for name in ("mirrored", "ps_async"):
            with self.subTest(strategy=name), Run([*STRATEGIES[name], "epochs=20"]) as run:
                run.start()
                run.wait_for_training()
                with run.held("worker", 0):
                    addresses = re.findall(r"^member .* (\S+):(\d+)$", run.read("journal"), re.MULTILINE)
                    chief = re.search(r"--chief=(\S+):(\d+)", " ".join(run.processes().values()))
                    for host, port in [*addresses, chief.groups()]:
                        self.send_garbage(host, int(port))
                for secret in ("0" * 32 + " job", "not a token", ""):
                    uninvited = subprocess.run([TETHYS, "worker", f"--chief={chief[1]}:{chief[2]}", "--index=0"],
                                               input=secret + "\n", capture_output=True, text=True, timeout=PATIENCE,
                                               check=False)
                    self.assertNotEqual(uninvited.returncode, 0)
                self.assertEqual(run.finish(), 0, run.output)
                self.assertEqual(run.samples_used(), 20 * 3001)

    def send_garbage(self, host, port):
        for garbage in (b"", b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096),
                        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(512)):
            with socket.create_connection((host, port)) as stranger:
                try:
                    stranger.sendall(garbage)
                except OSError:
                    pass  # The process has already closed the connection.

    def test_damaged_checkpoints_are_refused(self):
        with Run(["strategy=local", "epochs=1"]).run() as run:
            model = os.path.join(run.checkpoints()[-1], "model.safetensors")
            with open(model, "rb") as file:
                good = file.read()
            for what, data in (("truncated", good[:-5]),
                               ("flipped", good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])):
                with self.subTest(what=what):
                    with open(model, "wb") as file:
                        file.write(data)
                    status, output = command(["evaluate", run.job, f"--checkpoint={run.checkpoints()[-1]}"])
                    self.assertEqual(status, 2, output)
                    self.assertIn("model.safetensors", output)
                    status, output = command(["train", "--resume", f"--run_dir={run.directory}", "--set=epochs=2"])
                    self.assertEqual(status, 2, output)

    def test_checkpoint_of_another_model_is_refused(self):
        with Run(["strategy=local", "epochs=1"]).run() as run:
            status, output = command(["train", "--resume", f"--run_dir={run.directory}",
                                      "--set=model.layer[1].dense.units=64"])
            self.assertEqual(status, 2, output)
            self.assertIn("dense_1/weights", output)

    def test_evaluate_names_missing_device(self):
        with Run(["strategy=local", "epochs=1"]).run() as run:
            for device, status, says in (("tpu", 2, "--device: 'tpu' is no device; write cpu or cuda"),
                                         ("cuda", 1, "NVIDIA driver|libtethys_cuda.so|is missing on this host")):
                with self.subTest(device=device):
                    if device == "cuda" and os.path.exists("/dev/nvidiactl"):
                        self.skipTest("this machine has a GPU")
                    refused, output = command(["evaluate", run.job, f"--device={device}",
                                               f"--checkpoint={run.checkpoints()[-1]}"])
                    self.assertEqual(refused, status, output)
                    self.assertRegex(output, says)

    def test_full_disk_fails_saves_but_training_completes(self):
        with Run([*STRATEGIES["ps_sync"], "checkpoint.every_epochs=1", "checkpoint.keep=10"]) as run:
            checkpoints = run.path("checkpoints")
            os.makedirs(checkpoints)
            # The file system can hold one checkpoint (0.8 MB, momentum included) but not two.
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tethys-test", checkpoints],
                                     capture_output=True, text=True, check=False)
            if mounted.returncode != 0:
                self.skipTest(f"a small disk needs the right to mount one: {mounted.stderr}")
            try:
                self.assertEqual(run.start().finish(), 1, run.output)
                self.assertIn("was not saved", run.output)
                self.assertIn("epoch 3/3", run.output)
                self.assertEqual(run.output.count("the final checkpoint was not saved"), 1, run.output)
                kept = run.checkpoints()
                self.assertEqual(len(kept), 1)
                status, output = command(["evaluate", run.job, f"--checkpoint={kept[0]}"])
                self.assertEqual(status, 0, output)
                self.assert_nothing_runs(run)
            finally:
                subprocess.run(["umount", checkpoints], check=True)


class RefusedCheckTest(unittest.TestCase):
    def test_hosts_check_needs_readable_host_file(self):
        for arguments, message in ((["check"], "--hostfile"), (["list", "--hostfile=x"], "tethys hosts check"),
                                   (["check", "--hostfile=/no/such/file"], "/no/such/file")):
            with self.subTest(arguments=arguments):
                status, output = command(["hosts", *arguments])
                self.assertEqual(status, 2, output)
                self.assertIn(message, output)


if __name__ == "__main__":
    unittest.main()
