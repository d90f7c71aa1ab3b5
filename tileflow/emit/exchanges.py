"""The Triton text of rows that the blocks of a cluster hold together: how they exchange what each reduces of its part.

A block stores its numbers into a box of every block (:mod:`cluster_boxes`), at its own places, and waits for the
cluster. Its box then has all numbers, which it combines in their order, so that every block gets the same. Blocks push
and never read another one's memory, and what a block stores comes before it arrives, so that each may leave after its
last exchange.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from ..ir.attributes import ClusterExchangeAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import is_float
from .cluster_boxes import REGISTERS, box_of, next_box
from .context import Context
from .dtypes import compute_dtype, triton_dtype
from .reductions import EXTREMES
from .table import TRITON

_LETTERS = "nmlkjihg"  # of the numbers that are exchanged at once
_TWO = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "tl.maximum({0}, {1})", "min": "tl.minimum({0}, {1})"}


@TRITON.emits(OpKind.CLUSTER_EXCHANGE)
def exchange(e: Context, op: Op) -> None:
    """A helper of all numbers that are exchanged at once: one assembly text, by which each block gets those of all, and
    puts them together in the blocks' order."""
    fns = ClusterExchangeAttrs.of(op).fns
    dtypes = [compute_dtype(value.type.dtype) for value in op.values]
    own = [e.as_dtype(value, dtype) for value, dtype in zip(op.values, dtypes, strict=True)]
    names = [e.names.of(output, "v") for output in op.outputs]
    e.writer.line(f"{', '.join(names)} = {_helper(e, fns, dtypes)}({', '.join(own)})")
    for output, name, dtype in zip(op.outputs, names, dtypes, strict=True):
        e.bind(output, name, dtype)


def _helper(e: Context, fns: Sequence[str], dtypes: Sequence[str]) -> str:
    """The name of the function that gives what all blocks' numbers are together, of a block's own."""
    parts, several = e.plan.cluster, len(fns) > 1
    ptx = e.module.constant(
        f"_EXCHANGE_{'_'.join(dtypes).upper()}", f'tl.constexpr("""{exchange_text(parts, dtypes, box_of(e))}""")'
    )
    own = [f"own{i}" if several else "own" for i in range(len(fns))]
    numbers = [[f"{letter}{i}" for i in range(parts)] for letter in _LETTERS[: len(fns)]]
    letters = [REGISTERS[dtype][0] for dtype in dtypes]
    types = ", ".join(triton_dtype(dtype) for dtype in dtypes for _ in range(parts))
    constraints = ",".join([*(f"={letter}" for letter in letters for _ in range(parts)), *letters])
    checks = "".join(f'    tl.static_assert({name}.numel == 1, "one row a program")\n' for name in own)
    body = (
        f"({', '.join(own)}):\n{checks}"
        f"    {', '.join(itertools.chain.from_iterable(numbers))} = tl.inline_asm_elementwise(\n"
        f'        {ptx}, "{constraints}", [{", ".join(own)}],\n        dtype=({types}), is_pure=False, pack=1,\n    )\n'
        f"    return {', '.join(map(partial(_together, e), numbers, fns, dtypes))}\n"
    )
    return e.module.helper(f"_{'_'.join(fns)}_of_cluster", body)


def _together(e: Context, numbers: Sequence[str], fn: str, dtype: str) -> str:
    """The text of what numbers give, the first ones first. Extrema of floats let NaN win, as a block's own do."""
    first, *rest = numbers
    combine = e.module.helper(*EXTREMES[fn]) if fn in EXTREMES and is_float(dtype) else ""
    for number in rest:
        first = f"{combine}({first}, {number})" if combine else _TWO[fn].format(first, number)
    return first


def exchange_text(parts: int, dtypes: Sequence[str], box: int) -> str:
    """The PTX by which so many blocks tell each other a number of each dtype. The last operands are a block's own, and
    those before them all blocks' first numbers, in the blocks' order, then their second ones. ``box``: bytes of each
    of the kernel's boxes, in which each block has a place for each number."""
    sizes = [REGISTERS[dtype][2] for dtype in dtypes]
    begins = [parts * sum(sizes[:i]) for i in range(len(sizes))]
    kinds = [REGISTERS[dtype][1] for dtype in dtypes]
    count = parts * len(dtypes)
    at = [
        f"    mad.lo.u32 at, rank, {size}, own;\n    @is_peer mapa.shared::cluster.u32 there{size}, at, thread;"
        for size in dict.fromkeys(sizes)
    ]
    given = [
        f"    @is_peer st.shared::cluster.{kind} [there{size}+{begin}], ${count + i};"
        for i, (kind, size, begin) in enumerate(zip(kinds, sizes, begins, strict=True))
    ]
    taken = [
        f"    ld.shared.{kind} ${i * parts + n}, [own+{begin + size * n}];"
        for i, (kind, size, begin) in enumerate(zip(kinds, sizes, begins, strict=True))
        for n in range(parts)
    ]
    there = ", ".join(f"there{size}" for size in dict.fromkeys(sizes))
    lines = "\n".join
    return f"""{{
    .reg .pred is_peer;
    .reg .b32 rank, own, at, {there}, thread;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 thread, %tid.x;
    setp.lt.u32 is_peer, thread, {parts};
    mov.u32 own, cluster_boxes;
    add.u32 own, own, cluster_box;
    {next_box(box)}
{lines(at)}
{lines(given)}
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
{lines(taken)}
}}"""
