"""What serves a call, tried in order until something accepts it: rows with their binaries, then what ``on_miss`` says.

A *server* is what can launch every region of a kernel under one config: a row's binaries, or what was compiled now. A
*plan* is the servers for the calls with one key. Host code asks the config for block sizes and may size its allocations
by them, so that servers which answer alike form one *attempt*: within it each region is launched by the first server
that accepts it, and no region is launched twice. Another attempt begins anew, where nothing was launched yet.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..config import Config
from ..errors import MissError, OutOfResources
from ..lazy_dataclass import dataclass
from ..locks import Lock
from . import observe
from .abi import Binary
from .dispatch import RuntimeContext, unmatched
from .launch import Launcher
from .miss_record import Missed, miss
from .observe import Served
from .problem import Problem
from .registry import on_miss
from .table_lookup import Hit, hits, reject

MOST_SERVERS = 64  # of one attempt


class Server(Protocol):
    """Launches a kernel's regions under one config. ``step`` and ``reason`` say what it is to who counts calls."""

    config: Config
    step: str
    reason: str

    def launchers(self, region: int) -> Sequence[Launcher]:
        """The variants of a region, in order. Raises OutOfResources where the device has too little for them."""
        ...

    def failed(self, error: OutOfResources) -> None:
        """The device had too little for it after all: it is not asked again."""
        ...


class RowServer:
    """A row's binaries on one device. Launchers are made once, machine code is loaded when it is launched first."""

    def __init__(self, hit: Hit, kernel: str, binaries: Mapping[int, Sequence[Binary]], make: MakeLauncher) -> None:
        self.config, self.step, self.reason = hit.config, hit.step, hit.reason
        self._hit, self._kernel, self._binaries, self._make = hit, kernel, binaries, make
        self._made: dict[int, tuple[Launcher, ...]] = {}
        self._lock = Lock()

    def launchers(self, region: int) -> Sequence[Launcher]:
        """The variants of a region, made when they are asked for first. Raises OutOfResources where the device has too
        little for them."""
        found = self._made.get(region)
        if found is None:
            with self._lock:
                if region not in self._made:
                    self._made[region] = tuple(map(self._make, self._binaries.get(region, ())))
                found = self._made[region]
        return found

    def failed(self, error: OutOfResources) -> None:
        """Reject the row: the device had too little for it."""
        reject(self._hit, self._kernel, str(error))


MakeLauncher = Callable[[Binary], Launcher]


@dataclass(slots=True, eq=False)
class BuiltServer:
    """What was compiled in this process."""

    config: Config
    by_region: Mapping[int, Sequence[Launcher]]
    step: str = "compiled"
    reason: str = ""

    def launchers(self, region: int) -> Sequence[Launcher]:
        """The variants of a region; none where it was not compiled."""
        return self.by_region.get(region, ())

    def failed(self, error: OutOfResources) -> None:
        """Nothing goes in its place."""


class Attempt(RuntimeContext):
    """The host context of calls with one key: servers that answer host code alike.

    ``launched``: whether the call that made it has launched something; it is that call's alone. ``counter``: of the
    server that launched first; ``served`` gives a server's. ``again``: the servers for such calls, asked anew once all
    that are known declined. ``make``: what makes a server for one launch, once no other takes it. ``around``: what host
    code is wrapped in; None where it runs as it is.
    """

    __slots__ = ("_again", "_asked", "_make", "_served", "_servers", "around", "launched")

    def __init__(
        self,
        first: Server,
        asked: Asked,
        again: Callable[[], Iterator[Server]],
        served: Callable[[Server], Any],
        make: MakeServer | None = None,
        around: Around | None = None,
    ) -> None:
        super().__init__(first.config, {})
        self.around = around
        self._servers: tuple[Server, ...] = (first,)
        self._asked, self._again, self._served, self._make = asked, again, served, make
        self.launched = False

    def accepting(
        self,
        region: int,
        frame: Mapping[str, Any],
        begins: tuple[int, ...],
        ends: tuple[int, ...],
        given: tuple[Any, ...] = (),
    ) -> tuple[Launcher, Sequence[Launcher]]:
        """The first variant whose guards hold, which has launched, and those before it, which declined."""
        declined: list[Launcher] = []

        def servers() -> Iterator[Server]:
            yield from self._in_order()
            made = self._make and self._make(Declined(region, frame, begins, ends, given, declined))
            if made:
                self._servers = (*self._servers[-MOST_SERVERS:], made)
                yield made

        for server in servers():
            try:
                for launcher in server.launchers(region):
                    if launcher(frame, begins, ends):
                        if not self.launched:
                            self.launched, self.counter = True, self._served(server)
                        return launcher, declined
                    declined.append(launcher)
            except OutOfResources as error:
                server.failed(error)
                self._servers = tuple(s for s in self._servers if s is not server)
                if isinstance(server, BuiltServer):
                    raise
        raise unmatched(region, frame, begins, ends, declined)

    def _in_order(self) -> Iterator[Server]:
        known = self._servers
        yield from known
        mine = self._asked(known[0].config)
        for server in self._again():
            if server not in known and self._asked(server.config) == mine:
                self._servers = (*self._servers, server)
                yield server


@dataclass(frozen=True, slots=True, eq=False)
class Declined:
    """A launch that no variant takes: what it would launch with, and the variants that declined. ``given``: the
    arguments of ``tile``."""

    region: int
    frame: Mapping[str, Any]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    given: tuple[Any, ...]
    variants: Sequence[Launcher]


MakeServer = Callable[[Declined], Server | None]
Around = Callable[[Callable[..., Any]], Callable[..., Any]]
Asked = Callable[[Config], tuple[Any, ...]]  # a config's answers to host code


def asked_of(sites: Iterable[str]) -> Asked:
    """What host code that asks at ``sites`` (the variables that it assigns) gets of a config."""
    blocks = {f"block:{site}" for site in sites}
    if not blocks:
        return lambda config: ()
    return lambda config: tuple(i for i in config.items if i[0] in blocks or i[0].startswith("tunable:"))


def servers_of_rows(
    kernel: str, semantic_hash: str, problem: Problem, device: str | None, make: MakeLauncher | None, place: object
) -> Iterator[tuple[Hit, Server | None]]:
    """The rows that may serve a call, in order, with what launches them; None where a row has no machine code for it.

    ``make``: a launcher of a binary, None where no machine code runs; ``place``: tells devices and kernels apart whose
    launchers differ.
    """
    for hit in hits(kernel, semantic_hash, problem, device):
        key = (place, id(hit.row), hit.exact)
        server = hit.servers.get(key)
        if server is None:
            binaries = None if make is None else hit.binaries()
            if binaries is None or make is None:
                yield hit, None
                continue
            server = hit.servers.setdefault(key, RowServer(hit, kernel, binaries, make))
        yield hit, server


# ---- misses -------------------------------------------------------------------------------------------------------


class MissedCalls:
    """The counter of calls that no row serves: they count as calls and as misses. The lookup counted the first one."""

    __slots__ = ("_ahead", "_missed", "_served")

    def __init__(self, served: Served, missed: Missed) -> None:
        self._served, self._missed, self._ahead = served, missed, 1

    @property
    def calls(self) -> int:
        """How many calls the server served."""
        return self._served.calls

    @calls.setter
    def calls(self, calls: int) -> None:
        """Count calls, of which each counts as a miss too, except the one that the lookup has counted."""
        self._missed.calls += calls - self._served.calls - self._ahead
        self._ahead = 0
        self._served.calls = calls


def no_row(
    kernel: str, problem: Problem, device: str | None, tried: Sequence[str], memory: Sequence[Mapping[str, int]] = ()
) -> Missed:
    """Count and record a miss; it is said once for each kernel. ``tried``: why what might have served it did not;
    ``memory``: which arguments share memory, of :func:`.recorded.memory_of`."""
    reason = tried[-1] if tried else "no table has a row for it"
    observe.say_once(logging.WARNING, kernel, "miss", f"no row serves {problem.key} on {device or 'a CPU'}: {reason}")
    return miss(kernel, problem, device, reason, json.dumps(memory) if memory else "")


def refused(kernel: str, problem: Problem, device: str | None, why: str) -> MissError:
    """The error where nothing may serve a call."""
    return MissError(
        "a call must be served by a row, a compiler or the reference",
        got=f"{problem.key} on {device}: {why}",
        where=kernel,
        hint="tune it, put a default into the bundle (`tileflow bundle build`), or load with another "
        f"on_miss than {on_miss(kernel)!r}",
    )


# ---- decisions ----------------------------------------------------------------------------------------------------

_decided = [0]
_decided_lock = Lock()


def decide(kernel: str, problem: Problem, step: str, config: Config) -> None:
    """Add to the digest of decisions how calls with a key are served. In any order: ranks meet shapes differently."""
    text = f"{kernel} {problem.key} {step} {config.key}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    with _decided_lock:
        _decided[0] = (_decided[0] + number) % (1 << 256)


def decisions() -> str:
    """A digest of how each key was served so far: 64 hex digits, equal for ranks that decided alike. See also
    :func:`tileflow.runtime.registry.digest`, of what they decide from."""
    return f"{_decided[0]:064x}"


def forget_decisions() -> None:
    """Begin the digest of decisions anew."""
    with _decided_lock:
        _decided[0] = 0
