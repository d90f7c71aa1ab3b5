"""Probes of a head's port, and a cluster's silence. No Ray is started."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tileflow_cluster import cluster_monitor
from tileflow_cluster.cluster_monitor import ClusterMonitor
from tileflow_cluster.ray_connection import probe_head, require_reachable

from tileflow.errors import ClusterError

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """The address of something that answers so to each who connects; None: it says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                if answer is not None:
                    connection.recv(100)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        for connection in held:
            connection.close()
        server.shutdown(socket.SHUT_RDWR)


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_head_is_told_from_what_is_none() -> None:
    with listening(SETTINGS) as head:
        assert probe_head(head, 1.0) == ""
    with listening(b"HTTP/1.1 400 Bad Request\r\n") as other:
        assert "no Ray" in probe_head(other, 1.0)
    with listening(None) as frozen:
        assert "timed out" in probe_head(frozen, 0.1)
    assert "refused" in probe_head(nobody(), 1.0)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_of_nowhere_is_an_error_within_seconds(scheme: str) -> None:
    """Finding 6 of issue 17: there was no word in 150 s."""
    started = time.monotonic()
    with pytest.raises(ClusterError, match=r"must answer at its address(.|\n)*refused(.|\n)*RAY_ADDRESS"):
        require_reachable(f"{scheme}{nobody()}")
    with pytest.raises(ClusterError, match=r"must answer"):
        require_reachable("127.0.0.1:no-port")
    assert time.monotonic() - started < 5
    require_reachable("local")
    require_reachable("auto")


def test_a_silent_head_is_said_once_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_monitor, "PROBE_LIMIT_S", 0.1)
    looks: list[int] = []
    with listening(SETTINGS) as head:
        watch = ClusterMonitor(0.02, look=lambda: looks.append(1) or (), restarted=lambda: "", head=head)
        while len(looks) < 3:
            time.sleep(0.01)
        watch.require_answer(0.1)
        assert watch.silent_s == 0
    deadline = time.monotonic() + 10
    while watch.silent_s <= 0.3 and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(ClusterError, match=r"head must answer(.|\n)*sweep resume"):
        watch.require_answer(0.3)
    watch.close()


def test_a_head_that_answers_the_probe_alone_is_silent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for nodes waits for ever where a head goes just then: the driver does not wait with it."""
    monkeypatch.setattr(cluster_monitor, "PROBE_LIMIT_S", 0.1)
    hanging = threading.Event()
    first = [True]

    def look() -> tuple[()]:
        if first:
            first.clear()
        else:
            hanging.wait(20)
        return ()

    with listening(SETTINGS) as head:
        watch = ClusterMonitor(0.02, look=look, restarted=lambda: "", head=head)
        time.sleep(0.6)
        with pytest.raises(ClusterError, match="does not say which nodes"):
            watch.require_answer(0.3)
        watch.close()
        hanging.set()


def test_a_head_that_was_started_in_anothers_place_is_not_asked_for_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends a process that asks it: a sweep ended with a trace of Ray's, without tables, and with exit code 1."""
    monkeypatch.setattr(cluster_monitor, "PROBE_LIMIT_S", 0.1)
    looks: list[int] = []
    others = ["", "another head was started in its place"]
    with listening(SETTINGS) as head:
        watch = ClusterMonitor(0.02, look=lambda: looks.append(1) or (), restarted=lambda: others[0], head=head)
        while len(looks) < 3:
            time.sleep(0.01)
        others.reverse()
        time.sleep(0.2)
        asked = len(looks)
        time.sleep(0.4)
        with pytest.raises(ClusterError, match="another head was started in its place"):
            watch.require_answer(0.3)
        assert len(looks) == asked
        watch.close()


def test_ray_imported_first_is_refused_in_words() -> None:
    """Finding 7 of issue 17: a local Ray listened on all interfaces, its setting having come too late."""
    script = (
        "import os; os.environ.pop('RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER', None); import ray\n"
        "import tileflow_cluster.local\n"
        "from tileflow_cluster.ray_connection import require_loopback\n"
        "require_loopback()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "a local Ray must listen on loopback alone" in done.stderr
    done = subprocess.run(
        [sys.executable, "-c", script.replace("; import ray", "")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
