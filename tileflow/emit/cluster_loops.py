"""The Triton text of loops that the blocks of a cluster share: how they put together what all of them have.

Blocks add up, or else, in pairs, then the first blocks of pairs, and so on: of 4, ``(0 + 1) + (2 + 3)``, the same in
each run. Where every block goes on with the result, both blocks of a pair have what they add up, and then meet one of
the next pair (recursive doubling), so that all have the same bits.
Triton's tiles lie in the registers of a block's threads alike in all blocks, since all run one program: a thread hands
its registers to the thread of its number in another block, whatever lanes they hold. It does so in pieces, by two boxes
in shared memory in turn (:mod:`cluster_boxes`).
"""

from __future__ import annotations

from math import lcm

from ..ir.attributes import ClusterReduceAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..passes.cluster_loops import EXTREMA
from .cluster_boxes import REGISTERS, box_of, next_box, piece_of, registers_of, threads_of
from .context import Context
from .dtypes import compute_dtype, triton_dtype
from .table import TRITON

_VECTOR = 16  # bytes that an instruction stores


@TRITON.emits(OpKind.CLUSTER_REDUCE)
def cluster_reduce(e: Context, op: Op) -> None:
    """One assembly text for all of a thread's registers."""
    (value,) = op.inputs
    assert isinstance(value, Value)
    held = compute_dtype(value.type.dtype)
    letter = REGISTERS[held][0]
    count = registers_of(e, op)
    fn, to_all = ClusterReduceAttrs.of(op).fn, ClusterReduceAttrs.of(op).to_all
    text = reduce_text(e.plan.cluster, fn, held, count, threads_of(e), box_of(e), to_all=to_all)
    name = f"_{fn.upper()}_OF_{count}_{held.upper()}" + "_FOR_ALL" * to_all
    ptx = e.module.constant(name, f'tl.constexpr("""{text}""")')
    constraints = ",".join([f"={letter}"] * count + [str(n) for n in range(count)])
    name = e.names.of(op.output, "v")
    e.writer.line(
        f'{name} = tl.inline_asm_elementwise({ptx}, "{constraints}", [{e.as_dtype(value, held)}], '
        f"dtype={triton_dtype(held)}, is_pure=False, pack={count})"
    )
    e.bind(op.output, name, held)


def reduce_text(parts: int, fn: str, dtype: str, count: int, threads: int, box: int, *, to_all: bool = False) -> str:
    """The PTX by which each of so many threads of a cluster's first block, or ``to_all`` blocks, gets its ``count``
    registers put together, by the reduction ``fn``, with those of the same thread of all ``parts`` blocks. The operands
    are the registers, which it leaves changed. ``box``: bytes of each of the kernel's boxes."""
    _, kind, size = REGISTERS[dtype]
    piece = piece_of(count, size * threads, box)
    steps = parts.bit_length() - 1
    turns = steps * -(-count // piece)
    cycle = min(turns, lcm(2, steps))  # turns until one is of the same step and box again
    lines = [] if to_all else [f".reg .pred gives<{steps}>, takes<{steps}>;"]
    width = max(n for n in (1, 2, 4) if n * size <= _VECTOR and piece % n == 0 and count % piece % n == 0)
    lines += [f".reg .b32 rank, peer, own<2>, thread, there<{cycle}>;", f".reg .{kind} got<{width}>;"]
    lines += ["mov.u32 rank, %cluster_ctarank;", "mov.u32 thread, %tid.x;", "mov.u32 own0, cluster_boxes;"]
    lines += [f"mad.lo.u32 own0, thread, {width * size}, own0;", f"add.u32 own1, own0, {box};"]
    lines += ["add.u32 own0, own0, cluster_box;", "sub.u32 own1, own1, cluster_box;"]
    for step in range(steps):
        lines += [f"xor.b32 peer, rank, {1 << step};"] if to_all else _peer_of_pairs(step)
        guard = "" if to_all else f"@gives{step} "
        for turn in range(step, cycle, steps):
            lines.append(f"{guard}mapa.shared::cluster.u32 there{turn}, own{turn % 2}, peer;")
    for turn in range(turns):
        first = turn // steps * piece
        registers, there = range(first, min(first + piece, count)), f"there{turn % cycle}"
        taken = _taken(registers, f"own{turn % 2}", width, _PUT[fn, dtype], dtype, threads)
        giver, taker = ("", "") if to_all else (f"@gives{turn % steps} ", f"@takes{turn % steps} ")
        lines += [giver + line for line in _given(registers, there, width, dtype, threads)]
        lines += ["barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"]
        lines += [" ".join(taker + instruction for instruction in line) for line in taken]
    if turns % 2:
        lines.append(next_box(box))
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"


def _peer_of_pairs(step: int) -> list[str]:
    """The second block of each pair gives, the first one takes."""
    return [
        f"and.b32 peer, rank, {(2 << step) - 1};",
        f"setp.eq.u32 gives{step}, peer, {1 << step};",
        f"setp.eq.u32 takes{step}, peer, 0;",
        f"sub.u32 peer, rank, {1 << step};",
    ]


def _given(registers: range, there: str, width: int, dtype: str, threads: int) -> list[str]:
    """The instructions by which a thread hands registers to the box whose address is ``there``."""
    _, kind, size = REGISTERS[dtype]
    vector = f".v{width}.{kind}" if width > 1 else f".{kind}"
    return [
        f"st.shared::cluster{vector} [{there}+{number * width * size * threads}], "
        f"{_list([f'${n}' for n in range(first, first + width)])};"
        for number, first in enumerate(registers[::width])
    ]


def _taken(registers: range, own: str, width: int, put: str, dtype: str, threads: int) -> list[list[str]]:
    """The lines of instructions by which a thread puts what its box has to its registers, by the instruction ``put``.
    ``own``: the address."""
    _, kind, size = REGISTERS[dtype]
    vector, got = f".v{width}.{kind}" if width > 1 else f".{kind}", [f"got{n}" for n in range(width)]
    lines = []
    for number, first in enumerate(registers[::width]):
        load = f"ld.shared{vector} {_list(got)}, [{own}+{number * width * size * threads}];"
        lines.append([load, *(f"{put} ${n}, ${n}, {g};" for n, g in enumerate(got, first))])
    return lines


_FLOATS, _INTS = {"float32": "f32", "float64": "f64"}, {"int32": "s32", "int64": "s64"}
# the instruction for each reduction and dtype
_PUT = {("sum", dtype): f"add.rn.{type_}" for dtype, type_ in _FLOATS.items()}
_PUT |= {("prod", dtype): f"mul.rn.{type_}" for dtype, type_ in _FLOATS.items()}
_PUT |= {(fn, "float32"): f"{fn}.NaN.f32" for fn in EXTREMA}  # float64 has none that keeps a NaN
_PUT |= {("sum", dtype): f"add.{type_}" for dtype, type_ in _INTS.items()}
_PUT |= {("prod", dtype): f"mul.lo.{type_}" for dtype, type_ in _INTS.items()}
_PUT |= {(fn, dtype): f"{fn}.{type_}" for dtype, type_ in _INTS.items() for fn in EXTREMA}


def _list(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}" if len(names) > 1 else names[0]
