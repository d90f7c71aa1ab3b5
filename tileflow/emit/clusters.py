"""The Triton text of rows that the blocks of a cluster hold together: which part a block has, and how they exchange.
(What they sum of a loop's turns: :mod:`cluster_loops`.)

Triton knows nothing of such clusters. A block stores its number into a box of every block (:mod:`cluster_boxes`), at
its own place, and waits for the cluster. Its box then has all numbers, which it combines in their order, so that every
block gets the same. Blocks push and never read another one's memory, and what a block stores comes before it arrives,
so that each may leave after its last exchange.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Expr
from ..ir.attributes import AxisAttrs, ReduceAttrs
from ..ir.graph import Op, Tile
from ..ir.types import Value
from ..space.cluster_loops import LEAST_TURNS, MOST_AT_ONCE
from .cluster_boxes import REGISTERS, begin_text, box_of, next_box
from .context import Context
from .dtypes import triton_dtype
from .plan import PART

_TWO = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "tl.maximum({0}, {1})", "min": "tl.minimum({0}, {1})"}


def emit_program(e: Context) -> None:
    """Write which part of its row the block has, behind a barrier of the cluster's."""
    parts = e.plan.cluster
    if parts == 1:
        return
    begin = e.module.constant("_BEGIN", f'tl.constexpr("""{begin_text(box_of(e))}""")')
    e.writer.line(f'tl.inline_asm_elementwise({begin}, "=r,r", [0], dtype=tl.int32, is_pure=False, pack=1)')
    e.writer.line(f"{PART} = tl.program_id(0) % {parts}")
    for name in e.plan.ir.cluster:
        e.writer.line(f"{e.tile(name)}_begin = {PART}")


def guard_few(e: Context, programs: Expr, loops: Iterable[Tile]) -> None:
    """Guard that a launch whose clusters share ``loops`` has few programs of many turns: others are for other
    variants."""
    e.plan.guard((programs * e.plan.cluster).le(MOST_AT_ONCE * e.target.sm_count))
    for tile in loops:
        if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
            turns = LEAST_TURNS * e.plan.cluster * e.plan.block(tile.block)
            e.plan.guard(Expr.of(turns).le(tile.end - tile.begin))


def shared_by_clusters(e: Context) -> tuple[Tile, ...]:
    """The tiles of loops whose turns the blocks of a cluster share."""
    return tuple(tile for tile in e.plan.ir.tiles.values() if tile.dealt in e.plan.ir.cluster)


def program_id(e: Context, axis: int) -> str:
    """The program's number along an axis of the launch; blocks of a cluster are neighbours along the first."""
    plain = f"tl.program_id({axis})"
    return plain if axis or e.plan.cluster == 1 else f"{plain} // {e.plan.cluster}"


def exchanged(e: Context, op: Op, text: str, dtype: str, combine: str) -> str:
    """What all blocks reduce, of the text of what one does; ``text`` itself where a block has all of the dimension.
    ``dtype``: that it is held in. ``combine``: the helper of two numbers, where it is more than an operator."""
    value = op.inputs[0]
    assert isinstance(value, Value)
    if not e.plan.is_divided(value.dims[AxisAttrs.of(op).axis].extent):
        return text
    fn, parts = ReduceAttrs.of(op).fn, e.plan.cluster
    text_of_parts = exchange_text(parts, dtype, box_of(e))
    ptx = e.module.constant(f"_EXCHANGE_{dtype.upper()}", f'tl.constexpr("""{text_of_parts}""")')
    letter = REGISTERS[dtype][0]
    numbers = ", ".join(f"n{i}" for i in range(parts))
    types = ", ".join([triton_dtype(dtype)] * parts)
    constraints = ",".join([f"={letter}"] * parts + [letter])
    found = "n0"
    for i in range(1, parts):
        found = f"{combine}({found}, n{i})" if combine else _TWO[fn].format(found, f"n{i}")
    body = (
        '(own):\n    tl.static_assert(own.numel == 1, "one row a program")\n'
        f'    {numbers} = tl.inline_asm_elementwise(\n        {ptx}, "{constraints}", [own],\n        dtype=({types}), '
        "is_pure=False, pack=1,\n    )\n"
        f"    return {found}\n"
    )
    return f"{e.module.helper(f'_{fn}_of_cluster', body)}({text})"


def exchange_text(parts: int, dtype: str, box: int) -> str:
    """The PTX by which so many blocks tell each other a number: the last operand is a block's own, those before it are
    all of them, in the blocks' order. ``box``: bytes of each of the kernel's boxes."""
    _, kind, size = REGISTERS[dtype]
    taken = "\n".join(f"    ld.shared.{kind} ${n}, [own+{size * n}];" for n in range(parts))
    return f"""{{
    .reg .pred is_peer;
    .reg .b32 rank, own, at, there, thread;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 thread, %tid.x;
    setp.lt.u32 is_peer, thread, {parts};
    mov.u32 own, cluster_boxes;
    add.u32 own, own, cluster_box;
    {next_box(box)}
    mad.lo.u32 at, rank, {size}, own;
    @is_peer mapa.shared::cluster.u32 there, at, thread;
    @is_peer st.shared::cluster.{kind} [there], ${parts};
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
{taken}
}}"""
