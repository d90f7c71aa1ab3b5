"""What part of a shared cluster each sweep may take: the same answer wherever it is worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the registry's actor imports stays small
    from .protocol import Ordered


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """One active sweep. ``since``: the registry's number for it, smaller for an earlier one. ``classes``: those that it
    measures on. ``compilers``: the most compile workers that it can use. ``priority``: how many times as much as a
    sweep of priority 1 it is given. ``status``: what it says of itself. ``order``: what it was told. ``part``: of what
    the sweep is given, where this is one of its schedulers."""

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
    """What one sweep may start. ``gpus``: by device class."""

    compilers: int
    gpus: Mapping[str, int]


def fair_shares(entries: Sequence[SweepEntry], cpus: int, gpus: Mapping[str, int]) -> dict[str, Share]:
    """Shares by sweep, of so many CPUs and GPUs of each class.

    GPUs go by priority; where there are more sweeps than GPUs of a class, the later ones of the lowest priority wait.
    CPUs follow the GPUs that a sweep was given; one that waits for its GPUs keeps a single compile worker.
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
    """``count`` things, one at a time to whoever has the fewest for its weight, the first of equals, none beyond what
    it wants."""
    parts = [0] * len(weights)
    for _ in range(count):
        open_ones = [n for n, part in enumerate(parts) if part < wants[n]]
        if not open_ones:
            break
        parts[min(open_ones, key=lambda n: (parts[n] > 0, (parts[n] + 1) / weights[n], n))] += 1
    return parts
