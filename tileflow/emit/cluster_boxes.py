"""The two boxes in shared memory by which the blocks of a cluster exchange numbers, and which assembly texts share.

A text declares no memory of its own: there may be more texts than the compiler wrote. LLVM copies one into several
branches, and where the first block takes another one than the rest do, each would write to a box that the other does
not read. Triton writes one again for further layouts, and for registers that it does not name. So the text that a
kernel begins with declares both boxes outside of braces, where all texts behind it know them, and a register that says
which of them is next.

Blocks fill a box, meet at a barrier, read it, and go on with the other one. Nobody writes a box before all of them have
met once more, and whoever reads has done so before.
"""

from __future__ import annotations

from math import prod

from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..space.cluster_loops import BOXES
from ..space.knobs import NUM_WARPS
from .context import Context
from .dtypes import compute_dtype

# Bytes of a box, at least, and a multiple of which both are. Triton's own shared memory begins behind them, and the
# copy engine's tiles in it lie at multiples of 1024.
LEAST_BOX = 1 << 10
FEW = 8  # registers that a text names of a tile of fewer elements than threads, several of which hold each
# by dtype: the constraint of a register, the type of the instructions, bytes
REGISTERS = {
    "float32": ("f", "f32", 4),
    "float64": ("d", "f64", 8),
    "int32": ("r", "b32", 4),
    "int64": ("l", "b64", 8),
}


def begin_text(box: int) -> str:
    """What a kernel begins with: two boxes of so many bytes, of which the first one is next. Memory of a block that has
    not begun may not be written."""
    return f"""
    .shared .align {LEAST_BOX} .b8 cluster_boxes[{2 * box}];
    .reg .b32 cluster_box;
    mov.b32 cluster_box, 0;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    mov.b32 $0, 0; // $1
"""


def next_box(box: int) -> str:
    """The instruction by which the other one of two boxes of so many bytes is next."""
    return f"sub.u32 cluster_box, {box}, cluster_box;"


def box_of(e: Context) -> int:
    """Bytes of each of a kernel's boxes: the most that one of its texts needs."""
    needed = [LEAST_BOX]
    for op in e.plan.ir.walk():
        if op.kind is OpKind.CLUSTER_REDUCE:
            needed.append(bytes_for(registers_of(e, op), compute_dtype(op.output.type.dtype), threads_of(e)))
    return max(needed)


def bytes_for(count: int, dtype: str, threads: int) -> int:
    """Bytes of a box for a text that puts together so many registers of each thread."""
    each = REGISTERS[dtype][2] * threads
    return -(-piece_of(count, each) * each // LEAST_BOX) * LEAST_BOX


def registers_of(e: Context, op: Op) -> int:
    """How many of a thread's registers one text puts together. Triton pads what is less, and repeats the text for what
    is more."""
    elements = prod(e.plan.extent(d.extent) for d in op.output.dims)
    return max(elements // threads_of(e), min(elements, FEW))


def piece_of(count: int, each: int, box: int = BOXES // 2) -> int:
    """How many of ``count`` registers go through a box of so many bytes at once: ``each`` is a register of all
    threads."""
    return min(count, max(box // each, 1))


def threads_of(e: Context) -> int:
    """Threads of a block."""
    return e.plan.launch(NUM_WARPS) * e.target.warp_size
