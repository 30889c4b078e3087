#!/usr/bin/env python3
"""Tests of jobs under mutual TLS, and of clients without a certificate that connect to a running job."""
import os
import re
import socket
import ssl
import subprocess
import unittest

from tethys_run import PATIENCE, Run, SANITIZED, STRATEGIES, TETHYS, TethysTest

TLS = ["--tls=on"]


def doors(pid):
    """The ports on which a process listens for other processes of its job."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if match:
            inodes.add(match.group(1))
    rows = []
    for table in ("tcp", "tcp6"):  # gRPC also accepts IPv4 connections on IPv6 sockets.
        with open(f"/proc/{pid}/net/{table}", encoding="utf-8") as file:
            rows += [line.split() for line in file.readlines()[1:]]
    return [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes]


def knock_without_certificate(port):
    """The answer to a TLS 1.3 client without a certificate, as bytes or as an error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as bare, context.wrap_socket(bare) as secure:
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return secure.recv(1000)
    except OSError as error:
        return error


def knock_without_tls(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as bare:
            bare.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return bare.recv(1000)
    except OSError as error:
        return error


def is_refusal(heard):
    """Whether the answer is an error, end of stream, or just a TLS alert (RFC 8446: record type 21)."""
    return isinstance(heard, OSError) or heard == b"" or (heard[0] == 21 and len(heard) == 7)


class TlsTest(TethysTest):
    def test_jobs_with_and_without_tls_are_bit_equal(self):
        for name in ("mirrored", "ps_sync"):
            with self.subTest(strategy=name), Run(STRATEGIES[name]).run() as bare, \
                    Run(STRATEGIES[name], flags=TLS).run() as secure:
                self.assert_same_bits(secure, bare)
                self.assertEqual(secure.samples_used(), bare.samples_used())

    def test_mirrored_workers_exchange_gradients_over_tls(self):
        over_tcp = ["strategy=mirrored", "tuning.transport=TCP", "workers=3"]
        with Run(over_tcp).run() as bare, Run(over_tcp, flags=TLS).run() as secure:
            self.assert_same_bits(secure, bare)

    def test_asynchronous_jobs_train_under_tls(self):
        with Run(STRATEGIES["ps_async"], flags=TLS).run() as run:
            self.assertEqual(run.samples_used(), 3 * 3001)

    def test_clients_without_certificate_are_refused_at_every_port(self):
        with Run([*STRATEGIES["ps_async"], "epochs=100000"], flags=TLS).start() as run:
            run.wait_for_training()
            for role in ("chief", "ps"):
                ports = doors(run.process(role))
                self.assertTrue(ports, f"the {role} listens nowhere")
                for port in ports:
                    for knock in (knock_without_certificate, knock_without_tls):
                        heard = knock(port)
                        self.assertTrue(is_refusal(heard), f"{role}, {knock.__name__}: {heard!r}")
                log = f"{role}-0.log"
                run.wait_for(lambda: "peer did not return a certificate" in run.read("log", log), f"word in {log}")
            step = run.read("journal").count("\nused ")
            run.wait_for(lambda: run.read("journal").count("\nused ") > step + 100, "further steps")

    @unittest.skipIf(SANITIZED, "a sanitizer's library must be loaded before any other")
    def test_processes_end_without_exit_handlers(self):
        witness = os.path.abspath(os.path.join(os.path.dirname(TETHYS), "../tests/integration/libexit_witness.so"))
        said = "exit handlers have run"
        ended = subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": witness}, capture_output=True, text=True,
                               check=True, timeout=PATIENCE)
        self.assertIn(said, ended.stderr, "the preloaded library does not report exit handlers")
        failing = [*STRATEGIES["mirrored"], "optimizer.learning_rate=1000000"]
        for overrides, status in ((STRATEGIES["ps_sync"], 0), (failing, 1)):
            with self.subTest(overrides=overrides), Run(overrides, flags=TLS) as run:
                run.prefix = ["env", f"LD_PRELOAD={witness}"]
                self.assertEqual(run.start().finish(), status, run.output)
                logs = {name: run.read("log", name) for name in os.listdir(run.path("log"))}
                self.assertGreaterEqual(len(logs), 4)
                for name, text in {"output": run.output, **logs}.items():
                    self.assertNotIn(said, text, name)
        for words in (["--version"], ["plan", "no-such-file"], ["runs", "list"]):
            ended = subprocess.run([TETHYS, *words], env={**os.environ, "LD_PRELOAD": witness}, capture_output=True,
                                   text=True, check=False, timeout=PATIENCE)
            self.assertNotIn(said, ended.stderr, words)
            self.assertTrue(ended.stdout + ended.stderr, words)

    def test_no_private_key_is_left_in_files(self):
        with Run(STRATEGIES["ps_sync"], flags=TLS).run() as run:
            for folder, _, names in os.walk(run.root):
                for name in names:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assertNotIn(b"PRIVATE KEY", file.read(), name)


if __name__ == "__main__":
    unittest.main()
