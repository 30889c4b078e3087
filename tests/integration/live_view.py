"""Starts the live view of a run, and sends requests to it, for tests."""
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess

import tethys_run
from tethys_run import PATIENCE, TETHYS


class View:
    """A process `tethys watch DIRECTORY`, and its address."""

    def __init__(self, directory, flags=()):
        self.process = subprocess.Popen([TETHYS, "watch", directory, *flags], stdout=subprocess.PIPE, text=True,
                                        preexec_fn=tethys_run.heed_signals)
        self.address = self.process.stdout.readline().partition("live view: ")[2].strip()
        self.port, self.token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})", self.address).groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)

    def ask(self, path, method="GET", headers=None, token=True, address=None):
        """Returns status, headers and body of the answer. `address`: the host and port to connect to; by
        default those of the view."""
        sent = {"Authorization": f"Bearer {self.token}"} if token else {}
        sent.update(headers or {})
        connection = http.client.HTTPConnection(*(address or self.own_address()), timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    def own_address(self):
        return "127.0.0.1", int(self.port)

    def connect(self, address=None):
        return socket.create_connection(address or self.own_address(), timeout=PATIENCE)

    def state(self):
        status, _, body = self.ask("/state.json")
        assert status == 200, body
        return json.loads(body)
