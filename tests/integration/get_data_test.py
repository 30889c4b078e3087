#!/usr/bin/env python3
"""Tests examples/get_data.sh with a local server that has small files."""
import hashlib
import http.server
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "get_data.sh")


def archive():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        entry = tarfile.TarInfo("batches/data.bin")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"12345"))
    return content.getvalue()


FILES = {"/train.gz": b"images" * 1000, "/labels.gz": b"labels", "/all.tar.gz": archive()}


class Handler(http.server.BaseHTTPRequestHandler):
    requests, cut, status = [], False, 200

    def do_GET(self):  # pylint: disable=invalid-name
        Handler.requests.append(self.path)
        content = FILES.get(self.path)
        if content is None or Handler.status != 200:
            self.send_error(404 if content is None else Handler.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:len(content) // 2] if Handler.cut else content)

    def log_message(self, *_):
        pass


class GetDataTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.temporary.name, "data")
        Handler.requests, Handler.cut, Handler.status = [], False, 200
        self.write_table()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.temporary.cleanup()

    def write_table(self, changed=""):
        """Rows for the server's files; the checksum of `changed` is that of other bytes of the same length."""
        lines = ["# A comment.", "small: for this test", "packed: for this test, too"]
        for path, content in FILES.items():
            name = "packed" if path.endswith(".tar.gz") else "small"
            summed = content[::-1] if path == changed else content
            url = f"http://127.0.0.1:{self.server.server_port}{path}"
            lines.append(f"{name} {len(content)} {hashlib.sha256(summed).hexdigest()} {url}")
        self.table = os.path.join(self.temporary.name, "table.txt")
        with open(self.table, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def get(self, *arguments):
        result = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False,
                                env={**os.environ, "GET_DATA_TABLE": self.table})
        return result.returncode, result.stdout + result.stderr

    def content(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def test_files_are_fetched_once(self):
        code, output = self.get("small", self.folder)
        self.assertEqual(code, 0, output)
        self.assertIn("small: for this test", output)
        self.assertEqual(self.content("train.gz"), FILES["/train.gz"])
        self.assertEqual(self.content("labels.gz"), FILES["/labels.gz"])
        self.assertEqual(sorted(Handler.requests), ["/labels.gz", "/train.gz"])
        code, output = self.get("small", self.folder)
        self.assertEqual((code, len(Handler.requests)), (0, 2), output)
        self.assertIn("train.gz is there", output)

    def test_damaged_file_is_fetched_again(self):
        self.get("small", self.folder)
        with open(os.path.join(self.folder, "labels.gz"), "wb") as file:
            file.write(b"slebal")
        code, output = self.get("small", self.folder)
        self.assertEqual(code, 0, output)
        self.assertEqual(self.content("labels.gz"), b"labels")
        self.assertEqual(len(Handler.requests), 3)

    def test_archives_are_unpacked(self):
        code, output = self.get("packed", self.folder)
        self.assertEqual(code, 0, output)
        self.assertEqual(self.content("batches/data.bin"), b"12345")

    def test_file_with_another_checksum_is_refused(self):
        self.write_table(changed="/train.gz")
        code, output = self.get("small", self.folder)
        self.assertEqual(code, 1)
        self.assertIn("/train.gz is not the expected file", output)
        self.assertEqual(os.listdir(self.folder), [])

    def test_broken_or_refused_download_is_reported(self):
        Handler.cut = True
        code, output = self.get("small", self.folder)
        self.assertEqual(code, 1)
        self.assertIn("/train.gz could not be fetched", output)
        Handler.cut, Handler.status = False, 403
        code, output = self.get("small", self.folder)
        self.assertEqual(code, 1)
        self.assertIn("403", output)
        self.assertNotIn("train.gz", os.listdir(self.folder))

    def test_unknown_or_missing_name_lists_the_known_names(self):
        for arguments in (["large", self.folder], []):
            code, output = self.get(*arguments)
            self.assertEqual(code, 1)
            self.assertIn("small packed", output)

    def test_help_says_the_use_and_the_names(self):
        code, output = self.get("--help")
        self.assertEqual(code, 0, output)
        self.assertIn("usage: get_data.sh NAME DIR", output)
        self.assertIn("small packed", output)

    def test_rows_of_get_data_txt_have_size_checksum_and_url(self):
        with open(os.path.join(os.path.dirname(SCRIPT), "get_data.txt"), encoding="utf-8") as file:
            rows = [line.split() for line in file if line[0] != "#" and ":" not in line.split()[0]]
        self.assertEqual(len(rows), 14)
        for _, size, checksum, url in rows:
            self.assertGreater(int(size), 0)
            self.assertRegex(checksum, "^[0-9a-f]{64}$")
            self.assertRegex(url, "^https?://")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])  # The path of the command, which CTest gives every such test, is not used.
