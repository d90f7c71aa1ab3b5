"""Connecting to Ray and leaving it, in seconds: only where a head answers, and on loopback where it is our own.

Ray itself would wait for a head that does not answer, and abort the process after a minute.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys

import ray
from ray import exceptions

from tileflow.errors import ClusterError
from tileflow.measure.failure import MESSAGE_CHARS
from tileflow.streams import say

from .devices import visible_gpus
from .labels import labels_for
from .ray_errors import ray_must_start

CONNECT_LIMIT_S = 5.0
DEFAULT_PORT = 10001  # of ray://HOST
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # and empty settings
SETTINGS_FRAME = 4
_ANOTHER = "WrongClusterID"  # in Ray's words, of a head that was restarted without its storage


def connect(address: str | None, compilers: int | None, quiet: bool) -> None:
    """Connect this process to a cluster, or start one on loopback alone. Raises ClusterError in seconds."""
    labels, cpus = None, None
    if address == "local":
        require_loopback()
        labels, cpus = labels_for(visible_gpus()), compilers
    elif address is not None:
        require_reachable(address)
    with ray_must_start(address):
        ray.init(
            address=address,
            labels=labels,
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=not quiet,
        )


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
        for stream in (sys.stdout, sys.stderr):
            say("", stream, end="")
        os._exit(code)


def _head_has_gone() -> bool:
    """A dead head refuses at once; a busy one has a few seconds to answer. One that was started in its place answers
    too."""
    return bool(probe_head(ray.get_runtime_context().gcs_address, CONNECT_LIMIT_S) or restarted_head())


def restarted_head() -> str:
    """Return what is wrong with a head that answers; empty where it is the one that this process has joined.

    One that a supervisor has started in its place knows neither this process nor its workers. Ray ends a process that
    asks it for nodes; one that asks for names of actors is told.
    """
    try:
        ray.util.list_named_actors()
    except exceptions.RayError as error:
        if _ANOTHER in str(error):
            return "another head was started in its place, and knows nothing of this sweep's workers"
        return f"{type(error).__name__}: {str(error)[:MESSAGE_CHARS]}"
    return ""
