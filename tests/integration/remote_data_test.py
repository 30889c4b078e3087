#!/usr/bin/env python3
"""Tests data on other machines with servers on loopback: what is read, and how every misbehaviour of a server ends.

The second argument is the program remote_reader; without libtethys_remote.so the tests are skipped."""
import concurrent.futures
import os
import socket
import subprocess
import sys
import tempfile
import unittest

READER = sys.argv.pop(2)

import remote_server as faults  # pylint: disable=wrong-import-position
from remote_server import DataNode, NameNode, S3, Server  # pylint: disable=wrong-import-position
from tethys_run import JOB, PATIENCE, Run, TETHYS, TethysTest, command  # pylint: disable=wrong-import-position

LIBRARIES = os.path.dirname(os.path.abspath(TETHYS))
CONTENT = bytes(range(256)) * 20000 + b"end"  # Three blocks, the last of which is short.


def crc32c(content):
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    crc = 0xffffffff
    for byte in content:
        crc = table[(crc ^ byte) & 0xff] ^ (crc >> 8)
    return f"{crc ^ 0xffffffff:08x}"


CHECK = crc32c(CONTENT)


def setUpModule():  # pylint: disable=invalid-name
    if not os.path.exists(os.path.join(LIBRARIES, "libtethys_remote.so")):
        raise unittest.SkipTest("this build has no libtethys_remote.so (libcurl4-openssl-dev)")


def closed_port():
    """HOST:PORT where nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def make_certificate(folder, name):
    """A certificate that is its own authority; `name` is DNS:... or IP:... Returns the paths of it and its key."""
    certificate, key = os.path.join(folder, f"{len(os.listdir(folder))}.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=tethys test", "-addext", f"subjectAltName={name}", "-out", certificate,
                    "-keyout", key], check=True, capture_output=True)
    return certificate, key


class RemoteTest(TethysTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tethys-remote-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def serve(self, server):
        self.addCleanup(server.__exit__)
        return server

    def secrets(self, text):
        path = os.path.join(self.folder, "secrets")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, url, secrets="", quiet=2):
        done = subprocess.run([READER, LIBRARIES, url, secrets, str(quiet)], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_was_read(self, status, output):
        self.assertEqual(status, 0, output)
        self.assertIn(f"bytes={len(CONTENT)} crc32c={CHECK}", output)

    def assert_read(self, url, **options):
        self.assert_was_read(*self.read(url, **options))

    def assert_was_refused(self, status, output, pattern):
        self.assertEqual(status, 1, output)
        self.assertRegex(output, pattern)

    def assert_refused(self, url, pattern, **options):
        self.assert_was_refused(*self.read(url, **options), pattern)

    # ------------------------------------------------------------------------------------------ HTTP

    def test_file_is_read_in_few_requests(self):
        server = self.serve(Server({"/a b": CONTENT}))
        self.assert_read(server.url("/a%20b"))
        self.assertEqual([command for command, _, _ in server.requests], ["HEAD", "GET", "GET", "GET"])

    def test_transient_failures_are_survived(self):
        for fault in (faults.status(503, 2), faults.status(429, 1), faults.on_get(faults.first_times(faults.cut, 2)),
                      faults.status(405, 1), faults.redirect("/other")):
            server = self.serve(Server({"/a": CONTENT, "/other": CONTENT}))
            server.faults["/a"] = fault
            self.assert_read(server.url("/a"))

    def test_stall_is_survived_and_then_named(self):
        # If an answer has begun, libcurl takes seconds to call it silent. So only one of the four tries
        # begins an answer, and the two readers wait at the same time.
        passing, staying = self.serve(Server({"/a": CONTENT})), self.serve(Server({"/a": CONTENT}))
        passing.faults["/a"] = faults.on_get(faults.first_times(faults.stall, 1))
        staying.faults["/a"] = faults.on_get(faults.first_times(faults.stall, 1, then=faults.say_nothing))
        with concurrent.futures.ThreadPoolExecutor() as readers:
            survives = readers.submit(self.read, passing.url("/a"), quiet=1)
            gives_up = readers.submit(self.read, staying.url("/a"), quiet=1)
        self.assert_was_read(*survives.result())
        self.assert_was_refused(*gives_up.result(),
                                rf"{staying.url('/a')}: {staying.host} is silent.*tried 4 times")

    def test_permanent_failures_are_named(self):
        for fault, pattern in (
                (faults.status(401), "answers 401.*file of secrets"), (faults.status(403), "answers 403.*forbidden"),
                (faults.status(404), "answers 404.*correct the URL"), (faults.status(500), "answers 500.*tried 4 times"),
                (faults.on_get(faults.cut), "cut the connection.*tried 4 times"),
                (faults.on_get(faults.ignore_range), "ignores ranges"),
                (faults.on_get(faults.shift_range), "bytes 0 to 2097151 were requested"),
                (faults.on_get(faults.send_more), "sent more than 2097152 bytes"),
                (faults.redirect("/a"), "circle"), (faults.redirect("file:///etc/passwd"), "not followed"),
                (faults.redirect("ftp://127.0.0.1/a"), "not followed")):
            with self.subTest(pattern=pattern):
                server = self.serve(Server({"/a": CONTENT}))
                server.faults["/a"] = fault
                self.assert_refused(server.url("/a"), f"{server.url('/a')}: .*{pattern}")
        self.assert_refused(f"http://{closed_port()}/a", "no server answers at 127.0.0.1:.*tried 4 times")

    def test_file_that_changes_is_named(self):
        for heeds_conditions in (True, False):
            server = self.serve(Server({"/a": CONTENT}))

            def change(handler, server=server, heeds_conditions=heeds_conditions):
                if handler.command == "GET" and handler.headers["Range"].startswith("bytes=2097152-"):
                    server.files["/a"] = CONTENT[:-1] + b"!"
                if not heeds_conditions:
                    del handler.headers["If-Match"]
                return True
            server.faults["/a"] = change
            self.assert_refused(server.url("/a"), f"{server.url('/a')} was changed while it was read")

    def test_secrets_are_sent_to_their_servers_only(self):
        server, other = self.serve(Server({"/a": CONTENT})), self.serve(Server({"/a": CONTENT}))
        server.faults["/a"] = faults.require("Authorization", "Bearer a-token")
        secrets = self.secrets(f'place {{ url_prefix: "{server.url("/")}" bearer_token: "a-token" }}')
        self.assert_refused(server.url("/a"), "401")
        self.assert_read(server.url("/a"), secrets=secrets)
        server.faults["/b"] = faults.redirect(other.url("/a"))
        self.assert_read(server.url("/b"), secrets=secrets)
        self.assertTrue(other.requests)
        self.assertFalse([headers for _, _, headers in other.requests if "Authorization" in headers])
        server.faults["/a"] = faults.require("Authorization", "Basic dTpwYXNz")
        secrets = self.secrets(f'place {{ url_prefix: "{server.url("/")}" password {{ user: "u" password: "pass" }} }}')
        self.assert_read(server.url("/a"), secrets=secrets)
        os.chmod(secrets, 0o644)
        self.assert_refused(server.url("/a"), "mode 0644", secrets=secrets)

    def test_certificates_are_checked(self):
        right, key = make_certificate(self.folder, "IP:127.0.0.1")
        server = self.serve(Server({"/a": CONTENT}, tls=(right, key)))
        secrets = self.secrets(f'place {{ url_prefix: "{server.url("/")}" ca_file: "{os.path.basename(right)}" }}')
        self.assert_read(server.url("/a"), secrets=secrets)
        self.assert_refused(server.url("/a"), f"the certificate of {server.host} is refused")
        plain = self.serve(Server({"/a": CONTENT}))
        server.faults["/a"] = faults.redirect(plain.url("/a"))
        self.assert_refused(server.url("/a"), "without TLS", secrets=secrets)
        self.assertFalse(plain.requests)
        wrong, key = make_certificate(self.folder, "DNS:other.example")
        server = self.serve(Server({"/a": CONTENT}, tls=(wrong, key)))
        secrets = self.secrets(f'place {{ url_prefix: "{server.url("/")}" ca_file: "{wrong}" }}')
        self.assert_refused(server.url("/a"), f"the certificate of {server.host} is refused", secrets=secrets)

    # --------------------------------------------------------------------------------------- WebHDFS

    def cluster(self, files, datanodes=2):
        """A NameNode and its DataNodes."""
        nodes = [self.serve(DataNode(files)) for _ in range(datanodes)]
        return self.serve(NameNode([node.host for node in nodes], files=files)), nodes

    def test_webhdfs_reads_from_the_active_namenode(self):
        name, _ = self.cluster({"/data/part a": CONTENT})
        standby = self.serve(NameNode([]))
        standby.standby = True
        self.assert_read(f"webhdfs://{name.host}/data/part a")
        self.assert_read(f"webhdfs://{standby.host},{name.host}/data/part *")
        self.assert_read(f"webhdfs://{closed_port()},{name.host}/data/part a")
        name.exceptions += ["SafeModeException", "RetriableException"]
        self.assert_read(f"webhdfs://{name.host}/data/part a")

    def test_webhdfs_failures_are_named(self):
        name, nodes = self.cluster({"/data/a": CONTENT}, datanodes=1)
        standby = self.serve(NameNode([]))
        standby.standby = True
        self.assert_refused(f"webhdfs://{standby.host}/data/a", f"StandbyException.*tried {standby.host} for", quiet=1)
        self.assert_refused(f"webhdfs://{name.host}/data/b", "404.*FileNotFoundException")
        self.assert_refused(f"webhdfs://{name.host}/data/b*", "no file matches")
        nodes[0].__exit__()
        self.assert_refused(f"webhdfs://{name.host}/data/a", "127.0.0.1.*tried 4 times")
        name.datanodes = [f"user:password@{closed_port()}"]
        self.assert_refused(f"webhdfs://{name.host}/data/a", "not followed")

    def test_webhdfs_dead_datanode_is_survived(self):
        name, nodes = self.cluster({"/data/a": CONTENT}, datanodes=1)
        name.datanodes = [f"localhost:{closed_port().split(':')[1]}", nodes[0].host]
        self.assert_read(f"webhdfs://{name.host}/data/a")

    def test_webhdfs_file_that_changes_is_named(self):
        name, nodes = self.cluster({"/data/a": CONTENT}, datanodes=1)

        def change(_):
            name.files["/data/a"] = CONTENT + b"more"
            return True
        nodes[0].faults["/data/a"] = change
        self.assert_refused(f"webhdfs://{name.host}/data/a", "was changed while it was read")

    # -------------------------------------------------------------------------------------------- S3

    def test_s3_requests_are_signed(self):
        server = self.serve(S3("AKEY", "hidden/key", "eu-central-1",
                               files={"/bucket/d/a b.rec": CONTENT, "/bucket/d/c.rec": CONTENT, "/bucket/e": b"x"}))
        place = 'place {{ url_prefix: "s3://bucket/" s3 {{ access_key: "AKEY" secret_key: "{}" region: "eu-central-1" ' \
                'endpoint: "' + server.url("") + '" }} }}'
        secrets = self.secrets(place.format("hidden/key"))
        self.assert_read("s3://bucket/d/a b.rec", secrets=secrets)
        status, output = self.read("s3://bucket/d/*.rec", secrets=secrets)
        self.assertEqual((status, output.count(CHECK)), (0, 2), output)
        self.assert_refused("s3://bucket/d/a b.rec", "403", secrets=self.secrets(place.format("another")))

    # --------------------------------------------------------------------------------------- training

    def records(self):
        """JOB's samples as TFRecord files: {name: content}, and the job's source for files named by `place`."""
        job, out = os.path.join(self.folder, "job.textproto"), os.path.join(self.folder, "records")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB)
        status, output = command(["data", "convert", job, "--to=tfrecord", "--files=2", "--raw", f"--out={out}"])
        self.assertEqual(status, 0, output)
        files = {}
        for name in sorted(os.listdir(out)):
            if name.endswith(".tfrecord"):
                with open(os.path.join(out, name), "rb") as file:
                    files[name] = file.read()
        return out, files

    def job_with(self, source):
        begin = JOB.index("  idx {")
        return JOB[:begin] + source + f'  cache_dir: "{self.folder}/cache"\n' + JOB[JOB.index("  validation_samples"):]

    def test_remote_records_train_the_same_bits_as_local_ones(self):
        folder, files = self.records()

        def job(place):
            lines = "".join(f'{"train" if name.startswith("train") else "test"}: "{place}/{name}" ' for name in files)
            return self.job_with(f"  tfrecord {{ {lines} shape: [28, 28] }}\n")
        web = self.serve(Server({f"/d/{name}": content for name, content in files.items()}))
        name, _ = self.cluster({f"/d/{name}": content for name, content in files.items()})
        for path in list(web.files):
            web.faults[path] = faults.require("Authorization", "Bearer a-token")
        secrets = self.secrets(f'place {{ url_prefix: "{web.url("/")}" bearer_token: "a-token" }}')
        overrides = ["strategy=mirrored", "workers=2", "epochs=1"]
        with Run(overrides, job=job(folder)).run() as local:
            for place, cache in ((web.url("/d"), "NONE"), (web.url("/d"), "DISK"), (f"webhdfs://{name.host}/d", "NONE")):
                with self.subTest(place=place, cache=cache):
                    with Run([*overrides, f"data.cache={cache}"], job=job(place), flags=[f"--secrets={secrets}"]).run() as remote:
                        self.assert_same_bits(remote, local)
                        self.assertEqual(remote.summary()["test"], local.summary()["test"])
                        self.assertNotIn("a-token", "".join(
                            content.decode(errors="replace") for content in remote.contents().values()))

    def test_gzipped_idx_is_read_from_a_server(self):
        with open("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", "rb") as file:
            labels = file.read()
        with open("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz", "rb") as file:
            images = file.read()
        server = self.serve(Server({"/labels": labels, "/images": images}))
        job = os.path.join(self.folder, "data.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f'data {{ idx {{ train_images: "{server.url("/images")}" train_labels: "{server.url("/labels")}" }} '
                       "classes: 10 }\n")
        status, output = command(["data", "show", job])
        self.assertEqual(status, 0, output)
        self.assertIn("10,000", output)

    def test_url_with_a_password_is_refused_and_not_shown(self):
        source = '  tfrecord { train: "http://u:hunter2@127.0.0.1/a" }\n'
        with Run(job=self.job_with(source)) as run:
            self.assertEqual(run.start().finish(), 2, run.output)
            self.assertIn("data.tfrecord.train has a user name or password before the host", run.output)
            self.assertNotIn("hunter2", run.output)


if __name__ == "__main__":
    unittest.main()
