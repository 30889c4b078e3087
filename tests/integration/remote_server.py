"""Servers on loopback for the tests of data on other machines: HTTP with ranges, WebHDFS and S3, which
misbehave when a test wants them to.

    with Server(files={"/data": content}) as server:
        server.faults["/data"] = cut
        server.url("/data")                    # http://127.0.0.1:PORT/data

A fault is a function of a request's handler, called in place of serving the file; it returns True if the file is to be
served after all.
"""
import functools
import hashlib
import hmac
import http.server
import json
import re
import ssl
import sys
import threading
import urllib.parse


@functools.cache
def checksum(content):
    """Cached, because a file that is read in many ranges is requested as often."""
    return hashlib.md5(content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_):
        pass

    def do_HEAD(self):  # pylint: disable=invalid-name
        self.handle_request()

    def do_GET(self):  # pylint: disable=invalid-name
        self.handle_request()

    def handle_request(self):
        path = urllib.parse.urlsplit(self.path).path
        with self.server.owner.lock:
            self.server.owner.requests.append((self.command, self.path, dict(self.headers)))
        try:
            fault = self.server.owner.faults.get(path)
            if fault is None or fault(self):
                self.server.owner.serve(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def range(self, size):
        """The first and the last byte of the requested range, or None if no range is requested."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        return found and (int(found[1]), min(int(found[2]), size - 1))


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores connection errors, because readers hang up in the middle of answers and handshakes; any
        other error is a mistake in a test."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Server:
    """An HTTP server of files in memory; with `tls`, a pair (certificate, key), under TLS."""

    def __init__(self, files=(), tls=None):
        self.files, self.faults, self.requests = dict(files), {}, []
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.http = Listener(("127.0.0.1", 0), Handler)
        self.http.owner = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            # The handshake runs in the request's thread, not in the thread that accepts connections.
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "https" if tls else "http"
        self.host = f"127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()

    def url(self, path):
        return f"{self.scheme}://{self.host}{path}"

    def etag(self, content):
        return f'"{checksum(content)}"'

    def serve(self, handler):
        content = self.files.get(urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path))
        if content is None:
            handler.answer(404, b"no such file")
            return
        etag = self.etag(content)
        if handler.headers.get("If-Match", etag) != etag:
            handler.answer(412)
            return
        wanted = handler.range(len(content))
        if wanted is None or handler.command == "HEAD":
            handler.answer(200, content, ETag=etag, Content_Length=str(len(content)))
            return
        first, last = wanted
        handler.answer(206, content[first:last + 1], ETag=etag, Content_Range=f"bytes {first}-{last}/{len(content)}")


# ------------------------------------------------------------------------------------------------ faults


def status(code, times=None):
    """Answers with `code`; after `times` such answers the file is served."""
    left = [times]

    def fault(handler):
        if left[0] == 0:
            return True
        if left[0] is not None:
            left[0] -= 1
        handler.answer(code, b"in words")
        return False
    return fault


def redirect(location, code=302):
    def fault(handler):
        handler.answer(code, Location=location)
        return False
    return fault


def on_get(fault):
    """The fault, for GET only."""
    return lambda handler: handler.command == "HEAD" or fault(handler)


def first_times(fault, times, then=None):
    """The fault for the first requests; for later ones the fault `then` or, without it, the file."""
    left = [times]

    def limited(handler):
        if left[0] == 0:
            return then is None or then(handler)
        left[0] -= 1
        return fault(handler)
    return limited


def send_part(handler):
    """Announces the whole range, and sends half of it."""
    content = handler.server.owner.files[handler.path]
    first, last = handler.range(len(content))
    handler.send_response(206)
    handler.send_header("ETag", handler.server.owner.etag(content))
    handler.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
    handler.send_header("Content-Length", str(last + 1 - first))
    handler.end_headers()
    handler.wfile.write(content[first:(first + last) // 2])
    handler.wfile.flush()


def cut(handler):
    send_part(handler)
    handler.close_connection = True
    return False


def stall(handler):
    """Sends half of the range and then nothing, until the server ends."""
    send_part(handler)
    handler.server.owner.stopping.wait()
    handler.close_connection = True
    return False


def say_nothing(handler):
    """Sends no byte, until the server ends."""
    handler.server.owner.stopping.wait()
    handler.close_connection = True
    return False


def ignore_range(handler):
    content = handler.server.owner.files[handler.path]
    handler.answer(200, content, ETag=handler.server.owner.etag(content))
    return False


def shift_range(handler):
    """Sends the right bytes under the wrong Content-Range."""
    content = handler.server.owner.files[handler.path]
    first, last = handler.range(len(content))
    handler.answer(206, content[first:last + 1], Content_Range=f"bytes {first + 1}-{last + 1}/{len(content)}")
    return False


def send_more(handler):
    """Sends bytes beyond the requested range, without announcing a length, until the reader hangs up."""
    content = handler.server.owner.files[handler.path]
    first, last = handler.range(len(content))
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
    handler.send_header("Connection", "close")
    handler.end_headers()
    while True:  # Until the reader hangs up.
        handler.wfile.write(content)


def require(header, value):
    """The fault that answers 401 to a request whose header `header` is not `value`."""
    def fault(handler):
        if handler.headers.get(header) == value:
            return True
        handler.answer(401)
        return False
    return fault


# ----------------------------------------------------------------------------------------------- WebHDFS


class DataNode(Server):
    """Sends ranges of files by offset and length."""

    def serve(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        content = self.files[urllib.parse.unquote(url.path)]
        offset = int(query["offset"])
        handler.answer(200, content[offset:offset + int(query["length"])], Connection="close")
        handler.close_connection = True


class NameNode(Server):
    """Serves /webhdfs/v1 over the files of its DataNodes, and redirects readers to the DataNodes in turn."""

    def __init__(self, datanodes, **options):
        super().__init__(**options)
        self.datanodes, self.opens = list(datanodes), 0
        self.exceptions = []  # Names of exceptions with which the next requests are answered.
        self.standby = False

    def refuse(self, handler, code, exception, message):
        handler.answer(code, json.dumps({"RemoteException": {
            "exception": exception, "javaClassName": "org.apache." + exception, "message": message}}).encode())

    def serve(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        path = urllib.parse.unquote(url.path)[len("/webhdfs/v1"):]
        query = dict(urllib.parse.parse_qsl(url.query))
        if self.standby:
            self.refuse(handler, 403, "StandbyException", "Operation category READ is not supported in state standby")
        elif self.exceptions:
            self.refuse(handler, 403, self.exceptions.pop(0), "not now")
        elif query["op"] == "LISTSTATUS":
            names = [name[len(path) + 1:] for name in self.files if name.startswith(path.rstrip("/") + "/")]
            found = [{**self.file_status(f"{path}/{name}"), "pathSuffix": name} for name in names]
            handler.answer(200, json.dumps({"FileStatuses": {"FileStatus": found}}).encode())
        elif path not in self.files:
            self.refuse(handler, 404, "FileNotFoundException", f"File does not exist: {path}")
        elif query["op"] == "GETFILESTATUS":
            handler.answer(200, json.dumps({"FileStatus": self.file_status(path)}).encode())
        else:
            self.open(handler, path, query)

    def file_status(self, path):
        content = self.files[path]
        return {"pathSuffix": "", "type": "FILE", "length": len(content), "replication": 1, "owner": "hdfs",
                "modificationTime": int(checksum(content)[:10], 16), "fileId": 16385}

    def open(self, handler, path, query):
        excluded = query.get("excludedatanodes", "").split(",")
        with self.lock:
            self.opens += 1
            hosts = [host for host in self.datanodes if host.split(":")[0] not in excluded]
            host = hosts[self.opens % len(hosts)] if hosts else None
        if host is None:
            self.refuse(handler, 403, "IOException", "No active nodes contain this block")
            return
        handler.answer(307, Location=f"http://{host}{urllib.parse.quote(path)}?offset={query['offset']}"
                                     f"&length={query['length']}")


# --------------------------------------------------------------------------------------------------- S3


class S3(Server):
    """Serves /BUCKET/KEY to those who sign their requests (AWS signature, version 4), and lists keys, one a page."""

    def __init__(self, access_key, secret_key, region, **options):
        super().__init__(**options)
        self.access_key, self.secret_key, self.region = access_key, secret_key, region

    def serve(self, handler):
        if not self.signed(handler):
            handler.answer(403, b"SignatureDoesNotMatch")
            return
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query))
        if query.get("list-type") == "2":
            self.list(handler, query)
        else:
            super().serve(handler)

    def list(self, handler, query):
        bucket = urllib.parse.urlsplit(handler.path).path
        keys = sorted(name[len(bucket):] for name in self.files if name.startswith(bucket + query["prefix"]))
        at = int(query.get("continuation-token", "0+").rstrip("+"))
        more = f"<NextContinuationToken>{at + 1}+</NextContinuationToken>" if at + 1 < len(keys) else ""
        contents = "".join(f"<Contents><Key>{urllib.parse.quote(key)}</Key></Contents>" for key in keys[at:at + 1])
        handler.answer(200, ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/'
                             f'2006-03-01/">{more}{contents}</ListBucketResult>').encode())

    def signed(self, handler):
        """Computes the signature as the specification says, and compares it."""
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([^,]+), Signature=([0-9a-f]+)", handler.headers.get("Authorization", ""))
        if not found or found[1] != self.access_key or found[3] != self.region:
            return False
        url = urllib.parse.urlsplit(handler.path)
        query = "&".join(sorted(url.query.split("&"))) if url.query else ""
        names = found[4].split(";")
        headers = "".join(f"{name}:{handler.headers[name].strip()}\n" for name in names)
        request = "\n".join([handler.command, url.path, query, headers, found[4],
                             handler.headers["x-amz-content-sha256"]])
        scope = f"{found[2]}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"], scope,
                          hashlib.sha256(request.encode()).hexdigest()])
        key = b"AWS4" + self.secret_key.encode()
        for part in (found[2], self.region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.compare_digest(found[5], hmac.new(key, text.encode(), hashlib.sha256).hexdigest())

