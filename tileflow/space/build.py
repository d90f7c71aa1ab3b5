"""IR + Target -> ConfigSpace: every knob bound to a named site, every constraint an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..config import ConfigSpace, Constraint, Direction, Knob
from ..expr import TRUE, Expr, all_of
from ..frontend.lower import HostKnob
from ..ir.graph import KernelIR
from ..ir.types import Dim
from ..passes.roll import rollable
from ..target import Target
from .access import access_constraints, access_knobs, copies_knobs, histogram_knobs, subtile_knobs
from .blocks import block_knobs, reduction_knob
from .cluster_loops import cluster_loop_constraints, cluster_loop_knob
from .clusters import cluster_constraints, cluster_parts, with_cluster_knob
from .constraints import constraints
from .extents import Extents
from .full_blocks import full_block_knobs
from .grids import flatten_constraints, grid_constraints, grid_knobs
from .knobs import SCHEDULE, TUNABLE
from .launch import launch_knobs
from .loops import loop_knobs, loops_of, spread_knobs, transposed_knobs
from .precisions import precision_knobs
from .schedules import THREE_GROUPS, of_each_schedule, refusal, schedule_constraints, schedule_knobs


def build_space(regions: Sequence[KernelIR], host_knobs: Iterable[HostKnob], target: Target) -> ConfigSpace:
    """The space of one lowered call. Regions after the first suffix their launch knobs with ``@<region>``. Several of
    one number are the ways that a tunable selects: the space has the knobs of all, and what each demands; schedules of
    warps' own only where each way has one."""
    knobs: dict[str, Knob] = {}
    for host in host_knobs:
        if host.choices:
            knobs[host.name] = TUNABLE.named(host.name, host.choices, host.choices[0])
    found: list[Constraint] = []
    pipelined = {ir.region for ir in regions if refusal(ir, target)}
    blocks = block_knobs(regions)
    for ir in regions:
        rolled = rollable(ir)
        extents = Extents(ir, rolled, cluster_parts(ir, target))
        for knob in _region_knobs(ir, blocks, rolled, extents, target, knobs, ir.region in pipelined):
            knobs[knob.name] = _either(knobs[knob.name], knob) if knob.name in knobs else knob
        own = constraints(ir, extents, knobs, target)
        found += schedule_constraints(ir, extents, own, target) if SCHEDULE.name(ir) in knobs else own
        found += access_constraints(ir, extents, target)
        found += grid_constraints(ir, knobs)
        found += flatten_constraints(ir, extents, knobs, target)
        found += cluster_constraints(ir, target)
        found += cluster_loop_constraints(ir, extents, knobs, target)
    symbols = set().union(*(c.check.symbols() for c in found)) if found else set()
    environment = tuple(sorted((n, v) for n, v in target.symbols().items() if n in symbols))
    return ConfigSpace(tuple(knobs.values()), tuple(_distinct(found)), environment)


def space_of_each(name: str, ways: Mapping[int, ConfigSpace]) -> ConfigSpace:
    """One space of what a block size that host code asked for makes of the call: ``ways``, by the choice of ``name``.

    A constraint that only some of the choices demand, since host code made sizes of it, binds those alone. Another
    choice mends it where nothing else does.
    """
    knobs: dict[str, Knob] = {}
    demanded: dict[Expr, list[tuple[int, Constraint]]] = {}
    for choice, space in ways.items():
        for knob in space.knobs:
            knobs[knob.name] = _either(knobs[knob.name], knob) if knob.name in knobs else knob
        for constraint in space.constraints:
            demanded.setdefault(constraint.check, []).append((choice, constraint))
    found = []
    for check, demands in demanded.items():
        (_, constraint), choices = demands[0], [choice for choice, _ in demands]
        if len(choices) < len(ways):
            elsewhere = all_of(Expr.sym(name).ne(choice) for choice in choices)
            directions: tuple[Direction, ...] = ("up", "down")
            repair = (*constraint.repair, *((name, direction) for direction in directions))
            constraint = replace(constraint, check=elsewhere.or_(check), repair=repair)
        found.append(constraint)
    environment = dict(item for space in ways.values() for item in space.environment)
    return ConfigSpace(tuple(knobs.values()), tuple(found), tuple(sorted(environment.items())))


def _either(first: Knob, other: Knob) -> Knob:
    """One knob of two ways: it matters where it does in either. Three groups' rows are a choice where they are one in
    both."""
    choices = tuple(c for c in first.choices if c != THREE_GROUPS or c in other.choices)
    first = replace(first, choices=choices)
    always = TRUE in (first.active, other.active)
    return replace(first, active=TRUE if always else first.active.or_(other.active))


def _distinct(found: Iterable[Constraint]) -> Iterable[Constraint]:
    """Each check once: the ways that a tunable selects share most."""
    return {c.check: c for c in found}.values()


def _region_knobs(
    ir: KernelIR,
    blocks: Mapping[str, Knob],
    rolled: dict[str, Dim],
    extents: Extents,
    target: Target,
    taken: Mapping[str, Knob],
    is_pipelined: bool,
) -> list[Knob]:
    knobs = [blocks[block.name] for block in ir.blocks if block.name not in taken]
    knobs += [reduction_knob(ir, site, dim) for site, dim in rolled.items()]
    loops = loops_of(ir, rolled)
    knobs += with_cluster_knob(ir, target, list(grid_knobs(ir, loops, target)))
    knobs += access_knobs(ir, target)
    knobs += subtile_knobs(ir, extents)
    knobs += histogram_knobs(ir)
    knobs += copies_knobs(ir)
    knobs += transposed_knobs(ir, extents, target)
    knobs += precision_knobs(ir, target)
    knobs += spread_knobs(ir)
    known = dict(taken) | {k.name: k for k in knobs}
    own = list(loop_knobs(ir, loops, extents, known, target))
    known |= {k.name: k for k in own}
    own += full_block_knobs(ir, extents, known, target)
    own += cluster_loop_knob(ir, target, known)
    knobs = [*knobs, *own, *launch_knobs(ir, loops, extents, known, target)]
    schedules = [] if is_pipelined else list(schedule_knobs(ir))
    return of_each_schedule(ir, [*knobs, *schedules], target) if schedules else knobs
