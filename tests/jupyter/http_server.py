"""A server on this machine for pages without a notebook around them."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with whole bodies, and logs nothing."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def get(self) -> None:
        self.send_error(501)

    def post(self) -> None:
        self.send_error(501)

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def answering(handler: type[Handler]) -> Iterator[str]:
    """The address of a server whose requests the handler answers, each in a thread."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    looks_up = {"poll_interval": 0.02}  # how often it asks whether it is over: each test waits for that
    thread = threading.Thread(target=server.serve_forever, kwargs=looks_up, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
