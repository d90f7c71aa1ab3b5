"""Who works on a shared cluster: sweeps enter themselves, see each other, and take no more than their share.

The rota is one small actor of the cluster, made by whoever comes first. It only remembers: every sweep works out its
own share of CPUs and GPUs by :func:`allot`, which gives the same answer to all of them. A sweep that has not been heard
of for a while is forgotten; the rota ends with the last one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:  # what an actor of a few numbers imports stays small
    from .protocol import Ordered

NAME = "tileflow-rota-1"  # and the version of what is said to it
NAMESPACE = "tileflow"
FORGOTTEN_S = 20.0
MOST_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """One sweep. ``since``: the rota's number for it, smaller for who came earlier. ``classes``: those that it measures
    on; ``compilers``: the most compile workers that it has use for. ``priority``: how many times as much as a sweep of
    priority 1 it is given. ``status``: what it says of itself. ``order``: what it was told."""

    sweep_id: str
    classes: tuple[str, ...]
    compilers: int
    priority: int = 1
    since: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)
    order: Ordered = ""


@dataclass(frozen=True, slots=True)
class Share:
    """What one sweep may start. ``gpus``: by device class."""

    compilers: int
    gpus: Mapping[str, int]


def allot(entries: Sequence[Entry], cpus: int, gpus: Mapping[str, int]) -> dict[str, Share]:
    """Shares by sweep, of so many CPUs and GPUs of each class.

    GPUs go by priority; where there are more sweeps than GPUs of a class, the later ones of the lowest priority wait.
    CPUs follow the GPUs that a sweep was given; one that waits for its GPUs keeps a single compile worker.
    """
    working = sorted((e for e in entries if not e.order), key=lambda e: (-e.priority, e.since))
    given: dict[str, dict[str, int]] = {entry.sweep_id: {} for entry in entries}
    for name, count in gpus.items():
        wanting = [entry for entry in working if name in entry.classes]
        parts = _divide(count, [e.priority for e in wanting], [count] * len(wanting))
        for entry, part in zip(wanting, parts, strict=True):
            given[entry.sweep_id][name] = part
    weights, wants = [], []
    for entry in working:
        held = sum(given[entry.sweep_id].values())
        waits = bool(entry.classes) and not held
        weights.append(held or entry.priority)
        wants.append(min(entry.compilers, 1 if waits else cpus))
    slots = dict(zip([e.sweep_id for e in working], _divide(cpus, weights, wants), strict=True))
    return {e.sweep_id: Share(slots.get(e.sweep_id, 0), given[e.sweep_id]) for e in entries}


def _divide(count: int, weights: Sequence[int], wants: Sequence[int]) -> list[int]:
    """``count`` things, one at a time to whoever has the fewest for its weight, the first of equals, none beyond what
    it wants."""
    parts = [0] * len(weights)
    for _ in range(count):
        open_ones = [n for n, part in enumerate(parts) if part < wants[n]]
        if not open_ones:
            break
        parts[min(open_ones, key=lambda n: (parts[n] > 0, (parts[n] + 1) / weights[n], n))] += 1
    return parts


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
    ).remote()  # fmt: skip


def find_rota() -> Any | None:
    """The cluster's rota; None where no sweep works."""
    try:
        return ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        return None
