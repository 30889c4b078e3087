#!/usr/bin/env python3
"""Compares how fast a file is read from a server by libtethys_remote.so and by curl, in turns.

    tests/bench/remote_bench.py [BUILD [MIB [ROUNDS]]]                      default: build/release 1024 7
    tests/bench/remote_bench.py BUILD webhdfs://HOST:PORT/PATH [ROUNDS]     a file on a running HDFS

Prints rates in MB/s and seconds of processor time a gigabyte, as medians and ranges, and the median over rounds of the
ratio of the two rates. Limit: at least 0.9 of curl's rate; exit status 1 if the reader is slower. On two processors
that other programs also used, the ratio of one call lay between 0.8 and 1.4, so repeat the benchmark on a quiet
machine. The reader saves less processor time than it gains in rate: curl does not copy a byte after receiving it, but
the reader copies the data into a block and from there to its place.

The server is nginx on a free port of loopback. Without nginx it is the server of the tests, which takes far longer for
the many ranges of the reader than for curl's one request. The ratio then says nothing about the reader, and the limit
is not judged (exit status 2)."""
import getpass
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from remote_server import Server  # pylint: disable=wrong-import-position

LIMIT = 0.9
NOT_JUDGED = 2  # An exit status.
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def start_nginx(folder):
    """Returns the process and the URL of its files."""
    port = free_port()
    with open(f"{folder}/nginx.conf", "w", encoding="utf-8") as file:
        file.write(NGINX.format(folder=folder, port=port))
    process = subprocess.Popen(["nginx", "-c", f"{folder}/nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process, f"http://127.0.0.1:{port}/file"
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                process.kill()
                sys.exit("nginx does not start")


def processor_seconds():
    """User and system time of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command, size):
    """Returns the rate of the whole process in MB/s, its seconds of processor time a gigabyte, and what it printed."""
    busy, begin = processor_seconds(), time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return size / 1e6 / (time.monotonic() - begin), (processor_seconds() - busy) / (size / 1e9), done.stdout


def run_curl(url, size):
    return run(["curl", "-s", "-L", "-o", "/dev/null", url], size)[:2]


def run_own(build, url, size):
    rate, busy, text = run([f"{build}/tests/integration/remote_reader", "--rate", f"{build}/deploy", url], size)
    assert f"bytes={size} " in text, text
    return rate, busy, float(re.search(r"MB/s=([\d.]+)", text)[1])


def judge(ratio, measures_reader):
    """Returns the line on the ratio of the rates, and the exit status."""
    if not measures_reader:
        return (f"ratio {ratio:.2f}, which says nothing about the reader: the server of the tests takes far longer for "
                f"its many ranges than for curl's one request. The limit of {LIMIT} is not judged: install nginx to "
                "measure the reader"), NOT_JUDGED
    return f"ratio {ratio:.2f}, limit {LIMIT}", 0 if ratio >= LIMIT else 1


def measure(build, url, size, rounds, url_of_curl=None, measures_reader=True):
    url_of_curl = url_of_curl or url
    run_curl(url_of_curl, size)  # The file is then in the system's cache.
    turns = [run_curl(url_of_curl, size) + run_own(build, url, size) for _ in range(rounds)]
    curl, curl_busy, own, own_busy, inside = zip(*turns)
    for name, rates in (("curl -o /dev/null", curl), ("remote_reader", own), ("remote_reader without its start", inside)):
        print(f"{name:32} {statistics.median(rates):8.0f} MB/s   ({min(rates):.0f} to {max(rates):.0f})")
    for name, busy in (("processor time of curl", curl_busy), ("of remote_reader", own_busy)):
        print(f"{name:32} {statistics.median(busy):8.2f} s/GB   ({min(busy):.2f} to {max(busy):.2f})")
    ratio = statistics.median(ours / theirs for ours, theirs in zip(own, curl))
    line, status = judge(ratio, measures_reader)
    print(line)
    return status


def measure_hdfs(build, url, rounds):
    host, path = re.fullmatch(r"webhdfs://([^/]+)(/.*)", url).groups()
    operation = f"http://{host}/webhdfs/v1{path}?user.name={getpass.getuser()}&op="
    with urllib.request.urlopen(operation + "GETFILESTATUS", timeout=30) as answer:
        size = json.load(answer)["FileStatus"]["length"]
    print(f"{url}, {size / 1e6:.0f} MB, {rounds} rounds")
    return measure(build, url, size, rounds, operation + "OPEN")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
    if len(sys.argv) > 2 and sys.argv[2].startswith("webhdfs://"):
        return measure_hdfs(build, sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7)
    size = int(sys.argv[2] if len(sys.argv) > 2 else 1024) << 20
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    folder = tempfile.mkdtemp(prefix="tethys-remote-bench-")
    try:
        os.mkdir(f"{folder}/www")
        os.chmod(folder, 0o755)
        block = os.urandom(1 << 20)
        with open(f"{folder}/www/file", "wb") as file:
            for _ in range(size >> 20):
                file.write(block)
        if shutil.which("nginx"):
            process, url = start_nginx(folder)
            try:
                print(f"nginx on loopback, a file of {size >> 20} MiB, {rounds} rounds")
                return measure(build, url, size, rounds)
            finally:
                process.terminate()
                process.wait()
        print(f"nginx is not installed: the server of the tests, a file of {size >> 20} MiB, {rounds} rounds")
        with open(f"{folder}/www/file", "rb") as file, Server({"/file": file.read()}) as server:
            return measure(build, server.url("/file"), size, rounds, measures_reader=False)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
