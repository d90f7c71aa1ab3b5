"""IR + Target -> ConfigSpace: every knob bound to a named site, every constraint an object."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..config import ConfigSpace, Constraint, Knob
from ..expr import TRUE, Expr, any_of
from ..frontend.lower import HostKnob
from ..ir.graph import KernelIR
from ..ir.types import Value, itemsize
from ..passes.roll import rollable
from ..target import Target
from .access import access_constraints, access_knobs
from .constraints import constraints
from .extents import Extents, block_of

MAX_BLOCK = 1 << 14
MIN_REDUCTION_BLOCK = 128


def build_space(regions: Sequence[KernelIR], host_knobs: Iterable[HostKnob], target: Target) -> ConfigSpace:
    """The space of one lowered call. Regions after the first suffix their launch knobs with ``@<region>``. Several of
    one number are the ways that a tunable selects: the space has the knobs of all, and what each demands."""
    knobs: dict[str, Knob] = {}
    for host in host_knobs:
        if host.choices:
            knobs[host.name] = Knob(host.name, host.name, host.choices, "tunable", host.choices[0])
    found: list[Constraint] = []
    for ir in regions:
        rolled = rollable(ir)
        own = _region_knobs(ir, rolled, target, knobs)
        knobs.update({k.name: k for k in own if k.name not in knobs or knobs[k.name].active != TRUE})
        extents = Extents(ir, rolled)
        found += constraints(ir, extents, knobs, target, suffixed(ir, "num_warps"), suffixed(ir, "num_stages"))
        found += access_constraints(ir, extents, target)
    symbols = set().union(*(c.check.symbols() for c in found)) if found else set()
    environment = tuple(sorted((n, v) for n, v in target.symbols().items() if n in symbols))
    return ConfigSpace(tuple(knobs.values()), tuple(_distinct(found)), environment)


def suffixed(ir: KernelIR, knob: str) -> str:
    """The name of a launch knob of this region."""
    return f"{knob}@{ir.region}" if ir.region else knob


def _distinct(found: Iterable[Constraint]) -> Iterable[Constraint]:
    return {c.name: c for c in found}.values()


def _region_knobs(ir: KernelIR, rolled: dict[str, Expr], target: Target, taken: dict[str, Knob]) -> list[Knob]:
    knobs = [k for k in _blocks(ir) if k.name not in taken]
    knobs += [_reduction(ir, site, extent) for site, extent in rolled.items()]
    knobs += _grid(ir)
    knobs += access_knobs(ir, target)
    knobs += _launch(ir, rolled, target)
    return knobs


def _powers(low: int, high: int) -> tuple[int, ...]:
    """The powers of two from ``low`` to ``high``; at least one."""
    first = 1 << max(low - 1, 0).bit_length()
    return tuple(1 << n for n in range(first.bit_length() - 1, max(high, first).bit_length()))


def _blocks(ir: KernelIR) -> list[Knob]:
    """Block sizes: powers of two up to what covers the loop, with the floor that products need."""
    floors = _floors(ir)
    knobs = []
    for block in ir.blocks:
        low = max(block.low, floors.get(block.name, 1))
        choices = _powers(low, min(max(block.high, low), MAX_BLOCK))
        middle = choices[min(len(choices) - 1, 5)]
        knobs.append(Knob(block.name, block.name, choices, "block", middle))
    return knobs


def _floors(ir: KernelIR) -> dict[str, int]:
    """The smallest sizes of a product: 16 each way, 32 inside for 8-bit operands and scaled ones."""
    floors: dict[str, int] = {}
    for op in ir.walk():
        if op.kind not in ("dot", "dot_scaled"):
            continue
        a, b = op.inputs[:2]
        assert isinstance(a, Value) and isinstance(b, Value)
        inner = 32 if itemsize(a.type.dtype) == 1 or op.kind == "dot_scaled" else 16
        for dim, least in ((a.dims[-2], 16), (a.dims[-1], inner), (b.dims[-1], 16)):
            name, factor = block_of(dim.extent)
            floors[name] = max(floors.get(name, 1), least // factor)
    return floors


def _reduction(ir: KernelIR, site: str, extent: Expr) -> Knob:
    """0: in one piece. Else the block of a loop."""
    size = ir.hint(extent)
    blocks = [b for b in _powers(MIN_REDUCTION_BLOCK, MAX_BLOCK) if b < size]
    return Knob(site, site, (0, *reversed(blocks)), "reduction", 0)


def _grid(ir: KernelIR) -> list[Knob]:
    """Order of the axes, grouping for the L2 cache, programs per multiprocessor of a persistent grid."""
    axes = len(ir.grid)
    knobs = [Knob(suffixed(ir, "persistent"), "grid", (0, 1, 2, 4, 8), "grid", 0)]
    if axes > 1:
        orders = tuple(",".join(map(str, p)) for p in itertools.permutations(range(axes)))
        knobs.append(Knob(suffixed(ir, "order"), "grid", orders, "order", orders[0]))
        knobs.append(Knob(suffixed(ir, "group"), "grid", (1, 2, 4, 8, 16, 32), "group", 1))
    return knobs


def _launch(ir: KernelIR, rolled: dict[str, Expr], target: Target) -> list[Knob]:
    """Warps, and stages of a software pipeline where there is a loop."""
    most = 1024 // target.warp_size
    warps = Knob(suffixed(ir, "num_warps"), "launch", _powers(1, most), "launch", 4)
    has_loop = any(op.kind == "for" for op in ir.walk())
    active = TRUE if has_loop else any_of(Expr.sym(site).ne(0) for site in rolled)
    depth = (1, 2, 3, 4, 5, 6) if target.vendor == "nvidia" else (1, 2, 3)
    stages = Knob(suffixed(ir, "num_stages"), "launch", depth, "launch", 2, active)
    return [warps, stages]
