"""The Triton text of loops that the blocks of a cluster share: how they put together what all of them have.

Blocks add up, or else, in pairs, then the first blocks of pairs, and so on: of 4, ``(0 + 1) + (2 + 3)``, the same in
each run. Where every block goes on with the result, both blocks of a pair have what they add up, and then meet one of
the next pair (recursive doubling), so that all have the same bits.
Triton's tiles lie in the registers of a block's threads alike in all blocks, since all run one program: a thread hands
its registers to the thread of its number in another block, whatever lanes they hold. It does so in pieces, by two boxes
in shared memory in turn. Whoever takes from a box does that before it arrives at the next barrier, and the box is not
written before that barrier is passed.
"""

from __future__ import annotations

from math import prod

from ..expr import Expr
from ..ir.attributes import ClusterReduceAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..passes.cluster_loops import EXTREMA
from ..space.cluster_loops import BOXES, FEW, LEAST_BOX, texts
from ..space.knobs import NUM_WARPS
from .clusters import REGISTERS
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
    threads = e.plan.launch(NUM_WARPS) * e.target.warp_size
    elements = prod(e.plan.extent(d.extent) for d in value.dims)
    # Triton pads what is less, and repeats the text, boxes and all, for what is more
    count = max(elements // threads, min(elements, FEW))
    room = BOXES // sum(_texts(e, other, threads) for other in e.plan.ir.walk() if other.kind is OpKind.CLUSTER_REDUCE)
    fn, to_all = ClusterReduceAttrs.of(op).fn, ClusterReduceAttrs.of(op).to_all
    text = reduce_text(e.plan.cluster, fn, held, count, threads, room, to_all=to_all)
    name = f"_{fn.upper()}_OF_{count}_{held.upper()}" + "_FOR_ALL" * to_all
    ptx = e.module.constant(name, f'tl.constexpr("""{text}""")')
    constraints = ",".join([f"={letter}"] * count + [str(n) for n in range(count)])
    name = e.names.of(op.output, "v")
    e.writer.line(
        f'{name} = tl.inline_asm_elementwise({ptx}, "{constraints}", [{e.as_dtype(value, held)}], '
        f"dtype={triton_dtype(held)}, is_pure=False, pack={count})"
    )
    e.bind(op.output, name, held)


def _texts(e: Context, op: Op, threads: int) -> int:
    dims = op.output.dims
    elements = prod(e.plan.extent(d.extent) for d in dims)
    return texts(Expr.of(elements), Expr.of(threads), len(dims)).evaluate({})


def reduce_text(
    parts: int, fn: str, dtype: str, count: int, threads: int, room: int = BOXES, *, to_all: bool = False
) -> str:
    """The PTX by which each of so many threads of a cluster's first block, or ``to_all`` blocks, gets its ``count``
    registers put together, by the reduction ``fn``, with those of the same thread of all ``parts`` blocks. The operands
    are the registers, which it leaves changed. ``room``: bytes for its boxes."""
    _, kind, size = REGISTERS[dtype]
    piece = min(count, max(room // (2 * size * threads), 1))
    box = -(-piece * size * threads // LEAST_BOX) * LEAST_BOX
    steps = parts.bit_length() - 1
    boxes = min(2, steps * -(-count // piece))
    lines = [] if to_all else [f".reg .pred gives<{steps}>, takes<{steps}>;"]
    lines.append(f".reg .b32 rank, peer, own, thread, there<{steps}>;")
    width = max(n for n in (1, 2, 4) if n * size <= _VECTOR and piece % n == 0 and count % piece % n == 0)
    lines += [f".reg .{kind} got<{width}>;", f".shared .align {LEAST_BOX} .b8 box[{boxes * box}];"]
    lines += ["mov.u32 rank, %cluster_ctarank;", "mov.u32 thread, %tid.x;", "mov.u32 own, box;"]
    lines.append(f"mad.lo.u32 own, thread, {width * size}, own;")
    for step in range(steps):
        lines += _peer_of_all(step) if to_all else _peer_of_pairs(step)
    turn = 0
    for first in range(0, count, piece):
        for step in range(steps):
            registers = range(first, min(first + piece, count))
            lines += _handed_on(registers, step, turn % 2 * box, width, _PUT[fn, dtype], dtype, threads, to_all)
            turn += 1
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"


def _peer_of_pairs(step: int) -> list[str]:
    """The second block of each pair gives, the first one takes."""
    return [
        f"and.b32 peer, rank, {(2 << step) - 1};",
        f"setp.eq.u32 gives{step}, peer, {1 << step};",
        f"setp.eq.u32 takes{step}, peer, 0;",
        f"sub.u32 peer, rank, {1 << step};",
        f"@gives{step} mapa.shared::cluster.u32 there{step}, own, peer;",
    ]


def _peer_of_all(step: int) -> list[str]:
    """Both blocks of a pair give and take."""
    return [f"xor.b32 peer, rank, {1 << step};", f"mapa.shared::cluster.u32 there{step}, own, peer;"]


def _handed_on(
    registers: range, step: int, box: int, width: int, put: str, dtype: str, threads: int, to_all: bool
) -> list[str]:
    """The lines by which some blocks hand registers to others, which put them to their own by the instruction
    ``put``."""
    _, kind, size = REGISTERS[dtype]
    giver, taker = ("", "") if to_all else (f"@gives{step} ", f"@takes{step} ")
    vector = f".v{width}.{kind}" if width > 1 else f".{kind}"
    gives, takes = list[str](), list[str]()
    for number, first in enumerate(range(registers.start, registers.stop, width)):
        at = box + number * width * size * threads
        own = [f"${n}" for n in range(first, first + width)]
        got = [f"got{n}" for n in range(width)]
        gives.append(f"{giver}st.shared::cluster{vector} [there{step}+{at}], {_list(own)};")
        puts = [f"{taker}{put} {a}, {a}, {b};" for a, b in zip(own, got, strict=True)]
        takes.append(" ".join([f"{taker}ld.shared{vector} {_list(got)}, [own+{at}];", *puts]))
    return [*gives, "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;", *takes]


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
