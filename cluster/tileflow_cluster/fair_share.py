"""The share of a shared cluster that each sweep may use. It is computed from the entries alone, so all sweeps agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the registry's actor imports stays small
    from .protocol import Ordered


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """One active sweep.

    ``since``: the registry's number for it, smaller for an earlier one. ``classes``: the device classes it measures on.
    ``compilers``: the most compile workers that it can use. ``priority``: its weight; a sweep of priority 2 gets twice
    the share of one of priority 1. ``status``: what it reports of itself. ``order``: what it was told to do. ``part``:
    its part of the sweep's share, where it is one of several schedulers of the sweep.
    """

    sweep_id: str
    classes: tuple[str, ...]
    compilers: int
    priority: int = 1
    since: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)
    order: Ordered = ""
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """How many workers one sweep may start. ``gpus``: by device class."""

    compilers: int
    gpus: Mapping[str, int]


def fair_shares(entries: Sequence[SweepEntry], cpus: int, gpus: Mapping[str, int]) -> dict[str, Share]:
    """Return the share of every sweep by id, out of so many CPUs, and GPUs of each class.

    GPUs are divided by priority. Where there are more sweeps than GPUs of a class, the later ones of the lowest
    priority wait. CPUs are divided as the GPUs were; a sweep that waits for its GPUs keeps a single compile worker.
    """
    working = sorted((e for e in entries if not e.order), key=lambda e: (-e.priority, e.since))
    given: dict[str, dict[str, int]] = {entry.sweep_id: {} for entry in entries}
    for name, count in gpus.items():
        wanting = [entry for entry in working if name in entry.classes]
        parts = _divide(count, [e.priority * e.part for e in wanting], [count] * len(wanting))
        for entry, part in zip(wanting, parts, strict=True):
            given[entry.sweep_id][name] = part
    weights: list[float] = []
    wants: list[int] = []
    for entry in working:
        held = sum(given[entry.sweep_id].values())
        waits = bool(entry.classes) and not held
        weights.append(held or entry.priority * entry.part)
        wants.append(min(entry.compilers, 1 if waits else cpus))
    slots = dict(zip([e.sweep_id for e in working], _divide(cpus, weights, wants), strict=True))
    return {e.sweep_id: Share(slots.get(e.sweep_id, 0), given[e.sweep_id]) for e in entries}


def _divide(count: int, weights: Sequence[float], wants: Sequence[int]) -> list[int]:
    """Give out ``count`` things one at a time, each to whoever has the fewest for its weight, up to what it wants.

    Ties go to the first.
    """
    parts = [0] * len(weights)
    for _ in range(count):
        open_ones = [n for n, part in enumerate(parts) if part < wants[n]]
        if not open_ones:
            break
        parts[min(open_ones, key=lambda n: (parts[n] > 0, (parts[n] + 1) / weights[n], n))] += 1
    return parts
