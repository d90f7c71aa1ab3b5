"""Knobs of the grid: which program works on which tiles, in which order.

A flat grid numbers its programs; one of several axes asks the hardware for each. A persistent grid starts a few
programs a multiprocessor, which walk over the tiles. Where a device is made of several dies, each with a cache of its
own, neighbours may be given to the same one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from ..config import Constraint, Knob
from ..expr import TRUE, Expr, any_of
from ..ir.attributes import ReduceAttrs, TileAttrs, site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.reach import meets_itself
from ..ir.types import Value, is_float
from ..passes.cluster_loops import EXTREMA
from ..target import Target
from .extents import Extents
from .knobs import DESCENDING, FLATTEN, GRID, GROUP, LOAD_ACCESS, ORDER, PERSISTENT, WALK, XCD
from .loops import Loop, grouped

MOST_AXES = 3
MOST_PROGRAMS = (1 << 16) - 1  # along the second and third axis of a launch


def grid_knobs(ir: KernelIR, loops: list[Loop], target: Target) -> Iterator[Knob]:
    """Programs per multiprocessor of a persistent grid and how they walk; order of the axes, grouping for the L2 cache,
    axes of the launch, dies."""
    persistent = PERSISTENT.symbol(ir)
    yield PERSISTENT.of(ir)
    yield WALK.of(ir, persistent.ne(0))
    # several loops, as of a rolled reduction, are not flattened, nor one without a turn: each turn is one of the loop
    # over tiles too; with several products in one Triton's pass fails; what is around a while is none of ``loops``
    is_one = len(loops) == 1 and loops[0].present == TRUE and not loops[0].is_empty
    is_one = is_one and not any(op.kind is OpKind.WHILE for op in ir.walk())
    if is_one and not _corrects_itself(ir, loops[0]) and sum(op.kind is OpKind.DOT for op in loops[0].ops) <= 1:
        yield FLATTEN.of(ir, persistent.ne(0))
    if growing_tiles(ir):
        yield DESCENDING.of(ir)
    if len(ir.grid) == 1:
        return
    orders = tuple(",".join(map(str, p)) for p in itertools.permutations(range(len(ir.grid))))
    yield ORDER.of(ir, choices=orders)
    yield GROUP.of(ir)
    is_flat = TRUE
    if len(ir.grid) <= MOST_AXES:
        plain = persistent.eq(0).and_(GROUP.symbol(ir).eq(1))
        yield GRID.of(ir, plain)
        is_flat = GRID.symbol(ir).eq(GRID.encoded("flat"))
    if target.dies > 1:
        yield XCD.of(ir, is_flat)


def _corrects_itself(ir: KernelIR, loop: Loop) -> bool:
    """Whether a turn sums up what an earlier turn made with the same sum, as of weights that each turn makes sum to 1.

    In one loop over tiles and turns Triton 3.6 computes such a tile twice in each turn, in two layouts, and takes the
    sum of one of them. The two are rounded differently, and what parts them may grow from turn to turn: 2 % of a Turing
    machine's weights were NaN. Extrema and whole numbers are not rounded.
    """
    return any(_is_rounded(op) and meets_itself(ir, op) for op in loop.ops)


def _is_rounded(op: Op) -> bool:
    return op.kind is OpKind.REDUCE and is_float(op.output.type.dtype) and ReduceAttrs.of(op).fn not in EXTREMA


def growing_tiles(ir: KernelIR) -> set[str]:
    """The tiles of the grid where a loop ends that starts elsewhere, as a causal one does: later ones take longer."""
    corners = {
        v: TileAttrs.of(op).tile
        for op in ir.body.ops
        if op.kind in (OpKind.TILE_BEGIN, OpKind.TILE_END)
        for v in op.outputs
    }
    ends = [ir.tiles[TileAttrs.of(op).tile] for op in ir.walk() if op.kind is OpKind.FOR]
    return {
        corners[tile.end]
        for tile in ends
        if isinstance(tile.end, Value) and tile.end in corners and not isinstance(tile.begin, Value)
    } & set(ir.grid)


def grid_constraints(ir: KernelIR, knobs: Mapping[str, Knob]) -> Iterator[Constraint]:
    """Only the first axis of a launch, the fastest one, may be long."""
    name = GRID.name(ir)
    if name not in knobs:
        return
    order = knobs[ORDER.name(ir)]
    is_flat = GRID.symbol(ir).eq(GRID.encoded("flat"))
    for axis, tile in enumerate(ir.grid):
        begin, end = ir.tiles[tile].begin, ir.tiles[tile].end
        assert isinstance(begin, Expr) and isinstance(end, Expr)
        count = (end - begin).substitute(ir.hints).cdiv(ir.tiles[tile].block.substitute(ir.hints))
        if not count.symbols() <= knobs.keys():
            continue
        fastest = any_of(Expr.sym(order.name).eq(n) for n, o in enumerate(order.choices) if str(o).endswith(str(axis)))
        check = any_of([is_flat, fastest, count.le(MOST_PROGRAMS)])
        reason = f"a launch has at most {MOST_PROGRAMS} programs along its second and third axis"
        yield Constraint(f"the axis of {tile} fits {name}", check, ((name, "down"),), reason)


def flatten_constraints(
    ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob], target: Target
) -> Iterator[Constraint]:
    """What the copy engine loads for all turns of the inner loop, Triton cannot hand on from one tile's turns to the
    next in one pipeline, where warp groups read it from shared memory as it is: its pass fails (3.7)."""
    if FLATTEN.name(ir) not in knobs or not target.has_warp_groups:
        return
    makers, outside = ir.definitions, {v for op in ir.body.ops for v in op.outputs}
    for op in (op for op in ir.walk() if op.kind is OpKind.DOT and op.output not in outside):
        for value in op.values[:2]:
            while value in makers and makers[value].kind in (OpKind.SQUEEZE, OpKind.UNSQUEEZE, OpKind.RESHAPE):
                value = makers[value].values[0]
            name = LOAD_ACCESS.name(site_of(makers[value])) if value in outside else ""
            if name in knobs and makers[value].kind is OpKind.LOAD:
                by_box = LOAD_ACCESS.symbol(site_of(makers[value])).ne(0)
                yield Constraint(
                    f"{name} and {FLATTEN.name(ir)}",
                    any_of([FLATTEN.symbol(ir).eq(0), by_box.eq(0), grouped(ir, op, extents).eq(0)]),
                    ((FLATTEN.name(ir), "down"), (name, "down")),
                    "the copy engine loads no operand of warp groups outside of the loop that is in one pipeline with "
                    "the loop over tiles",
                )
