"""Who works on a shared cluster: sweeps enter themselves, see each other, and take no more than their share.

The rota is one small actor of the cluster, made by whoever comes first. It only remembers: every sweep works out its
own share of CPUs and GPUs (:mod:`.share`). A sweep that has not been heard of for a while is forgotten; the rota ends
with the last one. :func:`look` and :func:`tell` ask it from any machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray

from tileflow.errors import ClusterError

from .share import Entry, Share, allot

if TYPE_CHECKING:  # what the actor imports stays small
    from .protocol import Ordered

NAME = "tileflow-rota-1"  # and the version of what is said to it
NAMESPACE = "tileflow"
FORGOTTEN_S = 20.0
ANSWER_S = 30.0


class Rota:
    """The actor. Everything it is told is small, and it answers at once."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heard: dict[str, float] = {}
        self._orders: dict[str, Ordered] = {}
        self._count = 0

    def enter(self, entry: Entry) -> list[Entry]:
        """``entry`` is working, still or anew; all that are."""
        known = self._entries.get(entry.sweep_id)
        if known is None:
            self._count += 1
        since = self._count if known is None else known.since
        order = self._orders.get(entry.sweep_id, "")
        self._entries[entry.sweep_id] = replace(entry, since=since, order=order)
        self._heard[entry.sweep_id] = time.monotonic()
        return self.entries()

    def entries(self) -> list[Entry]:
        """All that were heard of lately, the earliest first."""
        before = time.monotonic() - FORGOTTEN_S
        for sweep_id in [s for s, heard in self._heard.items() if heard < before]:
            self._forget(sweep_id)
        return sorted(self._entries.values(), key=lambda entry: entry.since)

    def order(self, sweep_id: str, order: Ordered) -> list[str]:
        """Tell the sweeps whose id begins so; their ids."""
        told = [entry.sweep_id for entry in self.entries() if entry.sweep_id.startswith(sweep_id)]
        for name in told:
            self._orders[name] = order
            self._entries[name] = replace(self._entries[name], order=order)
        return told

    def leave(self, sweep_id: str) -> None:
        """``sweep_id`` has ended."""
        self._forget(sweep_id)
        if not self.entries():
            ray.actor.exit_actor()

    def _forget(self, sweep_id: str) -> None:
        for known in (self._entries, self._heard, self._orders):
            known.pop(sweep_id, None)


class Member:
    """One sweep's side of the rota. Never waits: it reads what was answered last, and works alone until then."""

    def __init__(self, entry: Entry, period_s: float) -> None:
        self._entry = entry
        self._period_s = period_s
        self._rota: Any = None
        self._answer: Any = None
        self._asked_at = -math.inf
        self.entries: tuple[Entry, ...] = (entry,)

    @property
    def order(self) -> Ordered:
        """What this sweep was told."""
        mine = (entry.order for entry in self.entries if entry.sweep_id == self._entry.sweep_id)
        return next(mine, "")

    def share(self, cpus: int, gpus: Mapping[str, int]) -> Share:
        """This sweep's part of the cluster."""
        return allot(self.entries, cpus, gpus)[self._entry.sweep_id]

    def measure(self, device_class: str) -> None:
        """This sweep has use for the GPUs of one class more."""
        if device_class not in self._entry.classes:
            self._entry = replace(self._entry, classes=(*self._entry.classes, device_class))
            mine = self._entry.sweep_id
            self.entries = tuple(
                replace(e, classes=self._entry.classes) if e.sweep_id == mine else e for e in self.entries
            )

    def turn(self, status: Mapping[str, Any]) -> bool:
        """Say that this sweep is there, once a period. True where who works, or what was ordered, has changed."""
        changed = self._hear()
        if self._answer is None and time.monotonic() - self._asked_at >= self._period_s:
            self._asked_at = time.monotonic()
            if self._rota is None:
                self._rota = the_rota()
            self._answer = self._rota.enter.remote(replace(self._entry, status=dict(status)))
        return changed

    def _hear(self) -> bool:
        if self._answer is None or not ray.wait([self._answer], timeout=0)[0]:
            return False
        try:
            heard = tuple(ray.get(self._answer))
        except ray.exceptions.RayError:  # it ended with the sweep before this one, or with its node: another is made
            self._rota = self._answer = None
            return False
        self._answer = None
        if all(entry.sweep_id != self._entry.sweep_id for entry in heard):
            return False
        changed = _shape(heard) != _shape(self.entries)
        self.entries = heard
        return changed

    def leave(self) -> None:
        if self._rota is not None:
            self._rota.leave.remote(self._entry.sweep_id)
            self._rota = None


def _shape(entries: Sequence[Entry]) -> list[Entry]:
    """What shares depend on."""
    return [replace(entry, status={}, since=0) for entry in entries]


def the_rota() -> Any:
    """The cluster's rota, made where there is none; a node that goes takes what it knew, which all say again."""
    actor = ray.remote(Rota)
    return actor.options(
        name=NAME, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0, max_restarts=-1
    ).remote()


def find_rota() -> Any | None:
    """The cluster's rota; None where no sweep works."""
    try:
        return ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        return None


# ---- from any machine ------------------------------------------------------------------------------------------------


def look(address: str) -> list[Entry]:
    """The sweeps that work on the cluster at ``address``. Raises ClusterError where there is no cluster."""
    with _connected(address):
        rota = find_rota()
        return list(_answered(rota.entries.remote(), ())) if rota is not None else []


def tell(address: str, sweep_id: str, order: Ordered) -> list[str]:
    """Tell the sweeps on the cluster at ``address`` whose id begins so; their ids. Raises ClusterError."""
    with _connected(address):
        rota = find_rota()
        return list(_answered(rota.order.remote(sweep_id, order), ())) if rota is not None else []


def _answered(answer: Any, ended: Any) -> Any:
    """What the rota answers; ``ended`` where it ended meanwhile, with the last sweep.

    Raises ClusterError where it takes too long: it starts with the first sweep.
    """
    try:
        return ray.get(answer, timeout=ANSWER_S)
    except ray.exceptions.ActorDiedError:
        return ended
    except ray.exceptions.GetTimeoutError:
        raise ClusterError(
            f"the cluster's rota must answer within {ANSWER_S:g} s", hint="ask again; is the cluster overloaded?"
        ) from None


@contextmanager
def _connected(address: str) -> Iterator[None]:
    from .lookout import require_reachable
    from .ray_errors import ray_must_start

    with ray_must_start(address):
        if ray.is_initialized():
            yield
            return
        require_reachable(address)
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        try:
            yield
        finally:
            ray.shutdown()
