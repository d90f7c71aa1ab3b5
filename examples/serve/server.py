"""The server: ``POST /generate`` and ``GET /metrics`` on loopback.

A request is JSON, ``{"prompt": [1, 2, 3], "most_tokens": 16, "k": 50, "p": 0.9, "seed": 0}``; so is its answer,
``{"tokens": [...]}``. It checks nobody's identity, so it listens where nobody else can reach it. The
sequence of a client that closes its connection ends with the step that it is in.
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from concurrent.futures import Future, wait
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tileflow.runtime.metrics import CONTENT_TYPE, openmetrics, register_counter, register_gauge

from .engine import Engine, EngineClosedError, Request

LOOPBACK = "127.0.0.1"
MOST_BYTES = 1 << 20
MOST_S = 600.0
SILENT_S = 30.0  # of a client amid its request
LOOK_S = 0.1  # between looks whether a client that waits is still there
_FIELDS = {"prompt", "most_tokens", "k", "p", "seed"}


class _Listener(ThreadingHTTPServer):
    request_queue_size = 1024  # clients that connect at once; of more than the library's 5 some were reset


class Server:
    """An HTTP server on loopback with its engine's thread. ``port``: 0 for any that is free."""

    def __init__(self, engine: Engine, port: int = 0) -> None:
        self.engine = engine
        handler = type("Handler", (_Handler,), {"engine": engine})
        self._http = _Listener((LOOPBACK, port), handler)
        self._threads = [threading.Thread(target=t, daemon=True) for t in (engine.run, self._http.serve_forever)]

    @property
    def address(self) -> str:
        """The URL that it answers at."""
        return f"http://{LOOPBACK}:{self._http.server_address[1]}"

    def start(self) -> None:
        """Start the threads of the engine and of the server."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until the server is closed."""
        self._threads[1].join()

    def close(self) -> None:
        """Stop the server, then the engine, and wait for their threads."""
        self._http.shutdown()
        self._http.server_close()
        self.engine.close()
        for thread in self._threads:
            thread.join()


def show_engine(engine: Engine) -> None:
    """Put the engine's numbers beside the runtime's; once a process, since names are taken once."""
    register_gauge("serve_running", "Sequences in the batch.", lambda: engine.running)
    register_gauge("serve_waiting", "Requests that wait for pages or a place.", lambda: engine.waiting)
    register_gauge("serve_free_pages", "Pages of the cache that nobody has.", lambda: engine.cache.free)
    register_gauge("serve_graphs", "CUDA graphs, one for each size of a batch.", lambda: engine.stepper.graphs)
    register_counter("serve_steps", "Steps of the model.", lambda: engine.steps)
    register_counter("serve_tokens", "Tokens made.", lambda: engine.tokens)


class _GoneError(ConnectionError):
    """The client has gone."""


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    timeout = SILENT_S

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True  # the client has gone

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self._answer(404, {"error": "GET /metrics or POST /generate"})
            return
        self._send(200, CONTENT_TYPE, openmetrics().encode())

    def do_POST(self) -> None:
        if self.path != "/generate":
            self._answer(404, {"error": "GET /metrics or POST /generate"})
            return
        try:
            done = self.engine.submit(self._request())
        except (ValueError, TypeError, RecursionError) as error:  # the last of brackets in brackets
            self._answer(400, {"error": str(error)})
            return
        try:
            self._answer(200, {"tokens": self._wait(done)})
        except _GoneError:
            raise  # nobody is there to be told
        except EngineClosedError as error:
            self._answer(503, {"error": str(error)})
        except Exception as error:  # of the step that it was part of
            self._answer(500, {"error": f"{type(error).__name__}: {error}"})

    def _wait(self, done: Future[list[int]]) -> list[int]:
        """Return the tokens. Raises ConnectionError where the client goes, and TimeoutError; its sequence ends then."""
        until = time.monotonic() + MOST_S
        try:
            while not wait([done], LOOK_S).done and time.monotonic() < until:
                self._require_client()
            return done.result(0)
        finally:
            done.cancel()

    def _require_client(self) -> None:
        """Raises ConnectionError where the client has closed its side, by which it says that it reads no answer."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            is_readable = bool(selector.select(0))
        if is_readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _GoneError("the client has gone")

    def _request(self) -> Request:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MOST_BYTES:  # below 0 the body would be read until the client goes
            raise ValueError(f"a request must have at most {MOST_BYTES} bytes")
        data: Any = json.loads(self.rfile.read(length))
        if not isinstance(data, dict) or not {"prompt", "most_tokens"} <= data.keys() <= _FIELDS:
            raise ValueError(f"a request must have prompt and most_tokens, of {', '.join(sorted(_FIELDS))}")
        prompt = data["prompt"]
        if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
            raise ValueError("prompt must be a list of integers")
        numbers: dict[str, Any] = {"most_tokens": int, "k": int, "p": (int, float), "seed": int}
        given = {name: data[name] for name in numbers if name in data}
        if wrong := [n for n, value in given.items() if isinstance(value, bool) or not isinstance(value, numbers[n])]:
            raise ValueError(f"{', '.join(wrong)} must be numbers")
        return Request(**data)

    def _answer(self, status: int, data: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(data).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the metrics page counts."""
