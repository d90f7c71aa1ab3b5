"""The sites of a lowered kernel in the order in which the dialect's lists name them."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import Knob
from ...ir.attributes import site_of
from ...ir.kinds import OpKind
from ...lowered import Lowered


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

    def launch(name: str) -> tuple[str, ...]:
        return tuple(k.name for k in knobs if k.name.partition("@")[0] == name)

    def of(role: str) -> tuple[str, ...]:
        return tuple(k.name for k in knobs if k.role == role)

    return Sites(
        blocks=_blocks(lowered),
        reductions=of("reduction"),
        orders=launch("order"),
        groups=launch("group"),
        persistents=launch("persistent"),
        warps=launch("num_warps"),
        stages=launch("num_stages"),
        evictions=tuple(k.name for k in knobs if k.role == "access" and k.name.endswith(".eviction")),
        accesses=tuple(f"{site}.access" for kind in (OpKind.LOAD, OpKind.STORE) for site in _sites(lowered, kind)),
        tunables=tuple(_own_name(k) for k in knobs if k.role == "tunable"),
    )


def _sites(lowered: Lowered, kind: OpKind) -> list[str]:
    """The sites of the ops of one kind, in the order of the launches."""
    ops = (op for ir in lowered.regions for op in ir.walk() if op.kind is kind)
    return list(dict.fromkeys(site_of(op) for op in ops))


def _own_name(knob: Knob) -> str:
    return knob.name.removeprefix("tunable:")


def _blocks(lowered: Lowered) -> tuple[str, ...]:
    """By the line of the host call or of the launch; within a launch in the order of the trace, outer loops first."""
    present = {k.name for k in lowered.space.knobs if k.role == "block"}
    registered = {k.name: k.line for k in lowered.host_knobs if k.name in present}
    found = [(line, 0, name) for name, line in registered.items()]
    for ir in lowered.regions:
        line = lowered.host.regions[ir.region].loop.lineno
        found += [(line, n + 1, b.name) for n, b in enumerate(ir.blocks) if b.name in present - registered.keys()]
    return tuple(dict.fromkeys(name for _, _, name in sorted(found, key=lambda f: f[:2])))
