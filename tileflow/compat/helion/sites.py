"""The sites of a lowered kernel in the order in which the dialect's lists name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...config import Knob
from ...ir.attributes import site_of
from ...ir.kinds import OpKind
from ...lowered import Lowered
from ...space.knob import KnobDef
from ...space.knobs import (
    BLOCK,
    EVICTION,
    GROUP,
    LOAD_ACCESS,
    NUM_STAGES,
    NUM_WARPS,
    ORDER,
    PERSISTENT,
    REDUCTION,
    STORE_ACCESS,
    TUNABLE,
)


@dataclass(frozen=True, slots=True)
class Sites:
    """Names of knobs. ``blocks``: the loops whose size is open, and registered block sizes, by their line.

    ``reductions``: the dimensions that can be reduced in a loop. ``orders``, ``groups``, ``persistents``, ``warps``,
    ``stages``: one a launch that has such a knob. ``evictions``: the loads whose policy is open. ``accesses``: all
    loads, then all stores; those that a descriptor may serve have such a knob. ``tunables``: the kernel's own, by
    the names that it gave them.
    """

    blocks: tuple[str, ...]
    reductions: tuple[str, ...]
    orders: tuple[str, ...]
    groups: tuple[str, ...]
    persistents: tuple[str, ...]
    warps: tuple[str, ...]
    stages: tuple[str, ...]
    evictions: tuple[str, ...]
    accesses: tuple[str, ...]
    tunables: tuple[str, ...]


def sites_of(lowered: Lowered) -> Sites:
    """Work out the order of ``lowered``'s sites."""
    knobs = lowered.space.knobs

    def of(knob: KnobDef[Any]) -> tuple[str, ...]:
        return tuple(k.name for k in knobs if knob.matches(k.name))

    return Sites(
        blocks=_blocks(lowered),
        reductions=of(REDUCTION),
        orders=of(ORDER),
        groups=of(GROUP),
        persistents=of(PERSISTENT),
        warps=of(NUM_WARPS),
        stages=of(NUM_STAGES),
        evictions=of(EVICTION),
        accesses=(
            *map(LOAD_ACCESS.name, _sites(lowered, OpKind.LOAD)),
            *map(STORE_ACCESS.name, _sites(lowered, OpKind.STORE)),
        ),
        tunables=tuple(_own_name(k) for k in knobs if TUNABLE.matches(k.name)),
    )


def _sites(lowered: Lowered, kind: OpKind) -> list[str]:
    """The sites of the ops of one kind, in the order of the launches."""
    ops = (op for ir in lowered.regions for op in ir.walk() if op.kind is kind)
    return list(dict.fromkeys(site_of(op) for op in ops))


def _own_name(knob: Knob) -> str:
    return TUNABLE.own_name(knob.name)


def _blocks(lowered: Lowered) -> tuple[str, ...]:
    """By the line of the host call or of the launch; within a launch in the order of the trace, outer loops first."""
    present = {k.name for k in lowered.space.knobs if BLOCK.matches(k.name)}
    registered = {k.name: k.line for k in lowered.host_knobs if k.name in present}
    found = [(line, 0, name) for name, line in registered.items()]
    for ir in lowered.regions:
        line = lowered.host.regions[ir.region].loop.lineno
        found += [(line, n + 1, b.name) for n, b in enumerate(ir.blocks) if b.name in present - registered.keys()]
    return tuple(dict.fromkeys(name for _, _, name in sorted(found, key=lambda f: f[:2])))
