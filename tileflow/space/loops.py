"""Knobs of each innermost loop: how deep it is pipelined, whether its turns are written out, how its products wait.

A loop that the author wrote is the site ``loop:<tile>``. The loops that a reduction is rolled into share the site
``loop:<reduction>`` and are there only where that reduction is not in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..config import Knob
from ..expr import FALSE, TRUE, Expr, all_of, any_of
from ..ir.attributes import TileAttrs, site_of
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Dim, Value
from ..passes.folds import folded
from ..passes.roll import roll, rollable
from ..passes.spread import spreadable
from ..passes.transpose import transposable
from ..target import Target
from .extents import Extents
from .knobs import (
    MULTI_BUFFER,
    NUM_STAGES,
    NUM_WARPS,
    PERSISTENT,
    SPREAD,
    STAGES,
    STATIC,
    TRANSPOSED,
    UNROLL,
    WARP_SPECIALIZE,
    access_of,
)
from .names import is_block, loop_site, rolled_site

MOST_STATIC_TURNS = 8
WARP_GROUP = 4  # warps that multiply together, on Hopper and Blackwell
GROUP_ROWS = 64  # the least rows of their product


@dataclass(frozen=True, slots=True)
class Loop:
    """One site. ``ops``: what a turn does. ``present``: whether the config has the loop. ``turns``: how many in the
    traced example, over block sizes; None where only the device knows. ``exact``: the same wherever it is called.
    ``hands_on``: whether it goes step by step, and a turn leaves something to the next."""

    site: str
    ops: tuple[Op, ...]
    present: Expr
    turns: Expr | None
    exact: bool
    hands_on: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the loop has no turn in the traced example, whatever the blocks."""
        return self.turns is not None and self.turns.evaluate(dict.fromkeys(self.turns.symbols(), 1)) == 0

    @property
    def is_memory_loop(self) -> bool:
        """Whether the loop has no products, so that it is pipelined only where the loop itself asks for it."""
        return not any(op.kind in PRODUCTS for op in self.ops)

    @property
    def loads(self) -> list[Op]:
        """The loads of tiles in a turn; scalars do not count."""
        return [op for op in self.ops if op.kind is OpKind.LOAD and op.output.dims]


def loops_of(ir: KernelIR, rolled: Mapping[str, Dim]) -> list[Loop]:
    """The region's innermost loops, and those that its reductions may become."""
    found = []
    for op in ir.walk():
        if op.kind is OpKind.FOR and not any(inner.kind in LOOPS for inner in walk(op.regions[0])):
            tile = ir.tiles[TileAttrs.of(op).tile]
            turns, exact = None, False
            if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
                length = tile.end - tile.begin
                exact = not (length.symbols() | tile.block.symbols()) & ir.hints.keys()
                turns = _of_blocks_alone(length.substitute(ir.hints).cdiv(tile.block.substitute(ir.hints)))
            hands_on = tile.block.constant == 1 and bool(op.outputs)
            found.append(Loop(loop_site(ir, tile.name), tuple(walk(op.regions[0])), TRUE, turns, exact, hands_on))
    for site, dim in rolled.items():
        ops = tuple(op for op in ir.walk() if any(dim in v.dims for v in op.outputs) or folded(op) == dim)
        turns = Expr.of(ir.hint(dim.extent)).cdiv(Expr.sym(site).max(1))
        found.append(Loop(rolled_site(site), ops, Expr.sym(site).ne(0), turns, False))
    return found


def _of_blocks_alone(turns: Expr) -> Expr | None:
    """``turns`` where only block sizes are open."""
    return turns if all(map(is_block, turns.symbols())) else None


def spread_knobs(ir: KernelIR) -> Iterator[Knob]:
    """How many programs share the turns of a loop. A persistent program's tiles are as many as it takes already; and a
    reduction in front of the loop is in one piece, for as a loop of its own each program would repeat it."""
    rolled = {site: spreadable(roll(ir, site)) for site in rollable(ir)} if spreadable(ir) else {}
    for tile in spreadable(ir):
        in_one_piece = all_of(Expr.sym(site).eq(0) for site, tiles in rolled.items() if tile not in tiles)
        yield SPREAD.at(loop_site(ir, tile), PERSISTENT.symbol(ir).eq(0).and_(in_one_piece))


def loop_knobs(
    ir: KernelIR, loops: list[Loop], extents: Extents, known: Mapping[str, Knob], target: Target
) -> Iterator[Knob]:
    """The knobs of every loop of a region. ``known``: the knobs of block sizes."""
    several = sum(1 for loop in loops if loop.loads) > 1
    one_with_products = sum(1 for loop in loops if not loop.is_memory_loop) == 1
    for loop in loops:
        if loop.turns is not None and not loop.turns.symbols() <= known.keys():
            loop = replace(loop, turns=None, exact=False)
        static = _static_knob(loop, known)
        runs = loop.present if loop.turns is None else loop.present.and_(Expr.of(1).lt(loop.turns))
        if static is not None:
            yield static
            runs = runs.and_(STATIC.symbol(loop.site).eq(0))
        # Triton 3.6 runs an empty loop that it unrolled, and fails over some that stream tiles and are also pipelined
        if loop.loads and loop.turns is not None and (loop.hands_on or not loop.is_memory_loop):
            yield UNROLL.at(loop.site, runs)
        if loop.loads and (several or _has_side_loads(loop)):
            yield _stages_knob(ir, loop, runs, target)
        if target.has_tensor_memory and not loop.is_memory_loop:
            runs = runs.and_(all_of(grouped(ir, op, extents) for op in loop.ops if op.kind in PRODUCTS))
            yield MULTI_BUFFER.at(loop.site, runs)
            if one_with_products:  # Triton's pass fails on the first of two when the other has no part in it
                yield from _specialisation_knob(ir, loop, runs, known)


def _static_knob(loop: Loop, known: Mapping[str, Knob]) -> Knob | None:
    """Whether the turns of a short loop are written out one after the other; None where no config has so few. In
    dynamic mode it is never used, and there only so that a config of one mode is one of the other."""
    if loop.present != TRUE or loop.turns is None:
        return None
    choices = [[int(c) for c in known[s].choices] for s in sorted(loop.turns.symbols())]
    largest, smallest = (
        loop.turns.evaluate({s: pick(c) for s, c in zip(sorted(loop.turns.symbols()), choices, strict=True)})
        for pick in (max, min)
    )
    if largest > MOST_STATIC_TURNS or smallest < 2:
        return None
    active = Expr.of(1).lt(loop.turns).and_(loop.turns.le(MOST_STATIC_TURNS))
    return STATIC.at(loop.site, active if loop.exact else FALSE)


def _stages_knob(ir: KernelIR, loop: Loop, runs: Expr, target: Target) -> Knob:
    """0: as many as the launch has. The same number again changes nothing, except for loads that no product waits for:
    a loop with products pipelines these only if it says how many itself."""
    differs = TRUE if _has_side_loads(loop) else STAGES.symbol(loop.site).ne(NUM_STAGES.symbol(ir))
    return STAGES.at(loop.site, runs.and_(differs), STAGES.on(target))


def _has_side_loads(loop: Loop) -> bool:
    """Whether a loop with products has loads that flow into none of them."""
    if loop.is_memory_loop:
        return False
    makers = {v: op for op in loop.ops for v in op.outputs}
    waiting = [v for op in loop.ops if op.kind in PRODUCTS for v in op.values]
    reached: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value not in reached and value in makers:
            reached.add(value)
            waiting += makers[value].values
    return any(op.output not in reached for op in loop.loads)


def grouped(ir: KernelIR, op: Op, extents: Extents) -> Expr:
    """Whether warp groups do a product as it is written, on a target that has them."""
    a = op.inputs[0]
    assert isinstance(a, Value)
    return _enough(ir, extents.of(a.dims[-2]))


def turned_round(ir: KernelIR, op: Op, extents: Extents) -> Expr:
    """Whether warp groups do the transposed product, whose rows are the columns."""
    b = op.inputs[1]
    assert isinstance(b, Value)
    return _enough(ir, extents.of(b.dims[-1]))


def _enough(ir: KernelIR, rows: Expr) -> Expr:
    return Expr.of(GROUP_ROWS).le(rows).and_(Expr.of(WARP_GROUP).le(NUM_WARPS.symbol(ir)))


def transposed_knobs(ir: KernelIR, extents: Extents, target: Target) -> Iterator[Knob]:
    """Products of a right operand that is computed, the other way round: on Hopper, whose warp groups take only their
    left operand from registers."""
    if not target.has_wgmma:
        return
    for site, op in transposable(ir).items():
        yield TRANSPOSED.at(site, turned_round(ir, op, extents))


def _specialisation_knob(ir: KernelIR, loop: Loop, runs: Expr, known: Mapping[str, Knob]) -> Iterator[Knob]:
    """Warps of their own for copies, for products and for the rest. The copies must be the copy engine's, since threads
    that wait for their own loads gain nothing."""
    copies = [(access_of(op), site_of(op)) for op in loop.loads]
    if not copies or any(knob.name(site) not in known for knob, site in copies):
        return
    warps = NUM_WARPS.symbol(ir)
    pipelined = Expr.of(2).le(stages_of(ir, loop.site, known))
    fits = pipelined.and_(any_of(warps.eq(n * WARP_GROUP) for n in (1, 2)))
    boxes = all_of(knob.symbol(site).eq(knob.encoded("descriptor")) for knob, site in copies)
    yield WARP_SPECIALIZE.at(loop.site, all_of([runs, fits, boxes]))


def stages_of(ir: KernelIR, site: str, knobs: Mapping[str, Knob]) -> Expr:
    """How many stages a loop has: its own choice, or the launch's."""
    launch = NUM_STAGES.symbol(ir)
    if STAGES.name(site) not in knobs:
        return launch
    own = STAGES.symbol(site)
    return own + own.eq(0) * launch


def is_specialised(loops: list[Loop], knobs: Mapping[str, Knob]) -> Expr:
    """Whether any loop has warps of their own for its parts."""
    sites = (loop.site for loop in loops)
    return any_of(WARP_SPECIALIZE.symbol(s).ne(0) for s in sites if WARP_SPECIALIZE.name(s) in knobs)
