"""Several hosts on one machine: each a network namespace with a name, an address and an interface of its own.

Needs root and ``ip``. The hosts see each other over a bridge and nothing else; their files are the machine's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUBNET = "10.77.0"
_IN_HOST = 'hostname "$0" && exec "$@"'


def why_not() -> str:
    """Why there can be no hosts here; empty where there can."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "needs ip (iproute2) and unshare (util-linux)"
    probe = f"tf{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    try:
        command = ["ip", "-n", probe, "link", "add", "br0", "type", "bridge"]
        bridge = subprocess.run(command, capture_output=True, text=True)
        return f"no bridge can be made: {bridge.stderr.strip()}" if bridge.returncode else ""
    finally:
        _ip("netns", "del", probe)


@dataclass(frozen=True)
class Host:
    """``number``: the last part of its address. Beside it in the namespace's name is this process's id."""

    name: str
    number: int

    @property
    def address(self) -> str:
        return f"{SUBNET}.{self.number}"

    @property
    def _namespace(self) -> str:
        return f"tf{os.getpid()}-{self.name}"

    def start(self, command: Sequence[str], environment: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
        """A process of this host, whose name it sees as the machine's."""
        inside = ["ip", "netns", "exec", self._namespace, "unshare", "--uts", "sh", "-c", _IN_HOST, self.name, *command]
        return subprocess.Popen(inside, env=dict(environment), text=True, **options)

    def kill(self) -> None:
        """End all of its processes at once, as a loss of power does."""
        deadline = time.monotonic() + 20
        while pids := _ip("netns", "pids", self._namespace).split():
            assert time.monotonic() < deadline, pids
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)

    def plug(self, state: str) -> None:
        """``down``: its cable is pulled out; ``up``: and put back."""
        _ip("-n", self._namespace, "link", "set", "eth0", state)
        if state == "up":
            _route(self._namespace)


@contextmanager
def network(*names: str) -> Iterator[dict[str, Host]]:
    """Hosts of these names, numbered from 1, until the end, when all of their processes are killed."""
    switch = f"tf{os.getpid()}-switch"
    hosts = {name: Host(name, number) for number, name in enumerate(names, 1)}
    _ip("netns", "add", switch)
    try:
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for host in hosts.values():
            _connect(host, switch)
        yield hosts
    finally:
        for host in hosts.values():
            if Path("/run/netns", host._namespace).exists():
                host.kill()
                _ip("netns", "del", host._namespace)
        _ip("netns", "del", switch)


def _connect(host: Host, switch: str) -> None:
    inside, port = host._namespace, f"port{host.number}"
    _ip("netns", "add", inside)
    _ip("-n", inside, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
    _ip("-n", inside, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", inside, "link", "set", "lo", "up")
    _ip("-n", inside, "link", "set", "eth0", "up")
    _route(inside)
    _ip("-n", switch, "link", "set", port, "master", "br0")
    _ip("-n", switch, "link", "set", port, "up")


def _route(inside: str) -> None:
    """Nobody is at its end: Ray finds its own address by the way that a packet to the world would take."""
    _ip("-n", inside, "route", "replace", "default", "via", f"{SUBNET}.254")


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
