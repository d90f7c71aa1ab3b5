"""The cluster monitor: a thread that checks whether the cluster's head answers, and which nodes there are.

Ray does not report a head that is gone: its calls wait, and after a minute it ends the process. So the thread probes
the head's port, with the first bytes of the protocol that a head speaks, and asks for nodes only after an answer. The
driver reads the latest state that the thread saw, and never waits for it.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import ray

from tileflow.errors import ClusterError

from .placement import Node, live_nodes

log = logging.getLogger("tileflow.cluster")

CONNECT_LIMIT_S = 5.0
PROBE_LIMIT_S = 1.0
DEFAULT_PORT = 10001  # of ray://HOST
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # and empty settings
SETTINGS_FRAME = 4


def probe_head(address: str, limit_s: float) -> str:
    """Return why no Ray head seems to be at ``host:port``; empty where one answers within ``limit_s`` seconds."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), limit_s) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":
                return ""  # it answers after a handshake of Ray's own certificates
            connection.settimeout(limit_s)
            connection.sendall(HTTP2_PREFACE)
            answer = connection.recv(9)
    except (OSError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    if len(answer) >= 4 and answer[3] == SETTINGS_FRAME:
        return ""
    return f"something that is no Ray answers: {answer!r}" if answer else "it hangs up"


def require_reachable(address: str) -> None:
    """Check that a head answers at ``address``, for which ``ray.init`` would wait. ``local`` and ``auto`` are not
    checked: Ray reports what is wrong with them.

    Raises ClusterError within seconds where none does.
    """
    scheme, _, place = address.rpartition("://")
    if not scheme and place in ("local", "auto"):
        return
    place = place.partition("/")[0]
    if ":" not in place:
        place = f"{place}:{DEFAULT_PORT}"
    if wrong := probe_head(place, CONNECT_LIMIT_S):
        raise ClusterError(
            "a Ray cluster must answer at its address",
            got=f"{address}: {wrong}",
            hint="is it up, and is the port its head's (6379 unless ray start was told another)? Check RAY_ADDRESS, or "
            "unset it for a Ray of this machine",
        )


def require_loopback() -> None:
    """Check that a Ray started here listens on loopback alone.

    Ray read its environment when it was imported, perhaps before this could be set. Raises ClusterError where it would
    listen on every interface.
    """
    address = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(address).is_loopback:
        raise ClusterError(
            "a local Ray must listen on loopback alone",
            got=f"Ray would listen on all interfaces, as {address}",
            hint="ray was imported before tileflow could tell it: set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before "
            "`import ray`, or import ray after tuning; a Ray that you have started yourself is used as it is",
        )


def shut_down_ray() -> None:
    """Disconnect, and end a Ray of this process's own. Does nothing where the head has gone: Ray would wait for it."""
    if ray.is_initialized() and not _head_has_gone():
        ray.shutdown()


def exit_where_the_head_has_gone(code: int) -> None:
    """End this process at once with ``code`` if its Ray's head does not answer; else return.

    Ray's own exit handler waits for the head, and aborts the process after a minute, with another code. Processes that
    Ray has started for this one end with it.
    """
    if ray.is_initialized() and _head_has_gone():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _head_has_gone() -> bool:
    """A dead head refuses at once; a busy one has a few seconds to answer."""
    return bool(probe_head(ray.get_runtime_context().gcs_address, CONNECT_LIMIT_S))


class ClusterMonitor:
    """A thread that looks at the connected cluster every ``period_s`` seconds, until closed.

    ``look``: asks which nodes there are. ``head``: the head's host and port; None for the connected cluster's.
    """

    def __init__(
        self,
        period_s: float,
        *,
        look: Callable[[], tuple[Node, ...]] = live_nodes,
        head: str | None = None,
    ) -> None:
        self._period_s = period_s
        self._look = look
        self._head = ray.get_runtime_context().gcs_address if head is None else head
        self._nodes = look()
        self._heard_at = time.monotonic()
        self._wrong = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tileflow-cluster-monitor", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that Ray believed alive at the last look. A lost node shows for some seconds."""
        return self._nodes

    @property
    def silent_s(self) -> float:
        """For how many seconds the head has not answered, 0 while it does."""
        silent = time.monotonic() - self._heard_at
        return silent if self._wrong or silent > 2 * self._period_s + PROBE_LIMIT_S else 0.0

    def require_answer(self, patience_s: float) -> None:
        """Raise ClusterError where the head has not answered for ``patience_s`` seconds."""
        silent = self.silent_s
        if silent > patience_s:
            wrong = self._wrong or "it does not say which nodes there are"
            raise ClusterError(
                "the Ray cluster's head must answer",
                got=f"{self._head}, silent for {silent:.0f} s: {wrong}",
                hint="what is known is exported; `tileflow sweep resume` goes on once the head is back",
            )

    def close(self) -> None:
        """Tell the thread to end, without waiting for a request that it may have in flight."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(self._period_s):
            wrong = probe_head(self._head, PROBE_LIMIT_S)
            if wrong and not self._wrong:
                log.warning("the Ray cluster's head at %s does not answer: %s", self._head, wrong)
            self._wrong = wrong
            if wrong:
                continue
            try:
                self._nodes = self._look()
            except Exception as error:  # the head may be going down; the next probe shows it
                self._wrong = f"{type(error).__name__}: {error}"
                continue
            self._heard_at = time.monotonic()
