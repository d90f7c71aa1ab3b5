"""The schedule of one float32 product whose operands are split into two tf32 parts each, by warps of their own.

A product of tf32 parts is three products of the matrix units: low by high, high by low, high by high. The units ignore
the last 13 bits of a float32 number, so that a box is its own high part: the splitter writes the low part beside it.
They take tf32 along the inner dimension only: of a box that lies across it, the splitter writes both parts, transposed.
So consumer groups have nothing to do but multiply and add up.

The units round each sum towards zero. Sums of one turn are therefore added to those of all turns in float32 by the
consumers' threads, the small ones (of low parts) first, as pipelined kernels have it. One group multiplies while the
other one adds.

What is infinite has a high part alone: low parts that are not a number are zero, and so are small sums that are none,
which infinity by zero gives.

An operand that lies in memory as the copy engine takes none, in rows that begin anywhere, has no box: the splitter's
threads load it, a turn ahead, and write both its parts.
"""

from __future__ import annotations

from . import product as plain
from .product import PRODUCER_REGISTERS, Shape, left_slots, result_buffer, stored
from .types import (
    WARPS_OF_A_GROUP,
    Arrive,
    Await,
    AwaitPuts,
    Barrier,
    Buffer,
    Compute,
    Copy,
    EachTile,
    Multiply,
    OfGroup,
    Repeat,
    Role,
    Round,
    Schedule,
    Shared,
    Split,
    Staged,
    Step,
    Take,
    Turn,
    Wait,
)

GROUPS = 2  # consumer groups, which share a tile's rows
TURN = 32  # numbers of a row of an operand, in a turn: 128 bytes
# a thread's of a consumer, whose three sums have 64 registers each, or 32, as setmaxnreg deals them out; the splitter
# has what two groups and the producer leave
CONSUMER_REGISTERS = {64: 208, 32: 136}
_ALL_REGISTERS = 65536 // (WARPS_OF_A_GROUP * 32)
LEFT, RIGHT = 0, 1  # operands
NAME = ("left", "right")
_THIS, _FIRST = Turn(), Turn("first")

NAMES = plain.NAMES | {
    "split", "two_parts", "split_box", "split_across", "splitter",
    "store_parts", "store_swapped", "small", "no_small", "large", "no_large",
    "left_low", "left_high", "right_low", "right_high", "box", "low", "high", "numbers", "whole", "rest", "load_left",
    "load_right", *(f"{name}_{when}" for name in ("left_0", "left_1", "right") for when in ("ahead", "now")),
    "ALONG", "ACROSS", "TURNED",
}  # fmt: skip


def is_apart(shape: Shape) -> tuple[bool, bool]:
    """Whether the left and the right operand have both parts in buffers of their own: where no box is there, or where
    it lies across the inner dimension, along which alone the matrix units take tf32."""
    left, right = shape.loaded
    return left or shape.left_transposed, right or not shape.right_transposed


def split_product(shape: Shape, stages: int) -> Schedule:
    """The schedule for two consumer groups and a ring of ``stages`` slots, of boxes and of what they are split into.
    An operand that is loaded has the shape of its tile, with the inner dimension first where it is ``transposed``, or
    of a right one where it is not."""
    barriers = (
        Barrier("full", stages, sum(map(len, _boxes(shape))), "stage", "this turn's boxes are there"),
        Barrier("split", stages, 1, "stage", "this turn's operands are split"),
        Barrier("empty", stages, GROUPS, "stage", "all groups have multiplied by what is split"),
    )
    turns: tuple[Step, ...] = (Compute("begin", (), ("sums",), _FIRST), Repeat(0, _multiplied(shape)))
    program = (EachTile((*turns, *stored(shape))), AwaitPuts())
    consumer = Role("consumer", GROUPS, WARPS_OF_A_GROUP, _consumer_registers(shape), program)
    lefts, rights = _boxes(shape)
    filled: tuple[Step, ...] = (
        Wait("empty", Staged(_THIS), Round(_THIS, behind=1)),
        *(Copy("left", slot, "full", _THIS) for slot in lefts),
        *(Copy("right", slot, "full", _THIS) for slot in rights),
    )
    boxed = not all(shape.loaded)
    producer = Role("producer", 1, 1, PRODUCER_REGISTERS, (EachTile((Repeat(0, filled),)),) if boxed else ())
    buffers = (*_buffers(shape, stages), *result_buffer(shape, GROUPS))
    return Schedule(producer, consumer, buffers, barriers if boxed else barriers[1:], stages, _splitter(shape))


def _consumer_registers(shape: Shape) -> int:
    return CONSUMER_REGISTERS[min(n for n in CONSUMER_REGISTERS if n >= shape.sums)]


def _splitter(shape: Shape) -> Role:
    """The slots that it writes are free: the producer waited for that before it filled the boxes; without boxes the
    splitter does. What is loaded for the next turn is on its way while this one's is split."""
    boxed = not all(shape.loaded)
    is_there: Step = Wait("full", Staged(_THIS), Round(_THIS))
    if not boxed:
        is_there = Wait("empty", Staged(_THIS), Round(_THIS, behind=1))
    ahead = _loads(shape, Turn("next"))
    moved = [Take(name, name.replace("ahead", "now")) for load in ahead for name in load.writes]
    turn = (is_there, *moved, *ahead, *_split(shape, RIGHT), *_split(shape, LEFT), Arrive("split", Staged(_THIS)))
    left = _ALL_REGISTERS - GROUPS * _consumer_registers(shape) - PRODUCER_REGISTERS * boxed
    return Role("splitter", 1, WARPS_OF_A_GROUP, left, (EachTile((*_loads(shape, _FIRST), Repeat(0, turn))),))


def _boxes(shape: Shape) -> tuple[tuple[Staged, ...], tuple[Staged, ...]]:
    """The slots of a turn's left and right boxes."""
    left, right = shape.loaded
    return () if left else left_slots(GROUPS, dealt=False), () if right else (Staged(_THIS),)


def _buffers(shape: Shape, stages: int) -> tuple[Buffer, ...]:
    """Of boxes, and of parts, which lie with the inner dimension last."""
    found: list[Buffer] = []
    sides = (("left", shape.left, GROUPS), ("right", shape.right, 1))
    for (name, box, slots), loaded in zip(sides, shape.loaded, strict=True):
        found += [] if loaded else [Buffer(name, box, shape.element_bytes, stages * slots, "stage")]
    inner_first = shape.left_transposed, not shape.right_transposed
    for (name, box, slots), swapped, apart in zip(sides, inner_first, is_apart(shape), strict=True):
        rows, columns = box[-2:]
        parts = (columns, rows) if swapped else (rows, columns)
        for part in ("low", "high") if apart else ("low",):
            found.append(Buffer(f"{name}_{part}", parts, shape.element_bytes, stages * slots, "stage"))
    return tuple(found)


def _loads(shape: Shape, turn: Turn) -> tuple[Compute, ...]:
    """The loads of operands that have no boxes, of a turn."""
    left, right = shape.loaded
    names = [f"left_{group}" for group in range(GROUPS) if left] + ["right"] * right
    return tuple(Compute(f"load_{name}", (), (f"{name}_ahead",), turn) for name in names)


def _split(shape: Shape, side: int) -> tuple[Step, ...]:
    """The parts of one operand, of each group's left one."""
    slots = (Staged(_THIS),) if side == RIGHT else left_slots(GROUPS, dealt=False)
    name, inner_first = NAME[side], (shape.left_transposed, not shape.right_transposed)[side]
    high = f"{name}_high" if is_apart(shape)[side] else None
    found = []
    for group, slot in enumerate(slots):
        own = "right_now" if side == RIGHT else f"left_{group}_now"
        source = own if shape.loaded[side] else Shared(name, slot)
        found.append(Split(source, slot, f"{name}_low", high, inner_first))
    return tuple(found)


def _multiplied(shape: Shape) -> tuple[Step, ...]:
    """A turn of a consumer group. Right operands lie with the inner dimension last, and are read transposed."""
    left_apart, right_apart = is_apart(shape)
    own, of_all = Staged(_THIS, OfGroup()), Staged(_THIS)
    left = Shared("left_high" if left_apart else "left", own), Shared("left_low", own)
    right = Shared("right_high" if right_apart else "right", of_all, True), Shared("right_low", of_all, True)
    return (
        Wait("split", of_all, Round(_THIS)),
        Multiply("small", left[1], right[0], adds=False, tf32=True),
        Multiply("small", left[0], right[1], adds=True, tf32=True),
        Multiply("large", left[0], right[0], adds=False, tf32=True),
        Await(1, ("small",)),
        Compute("add_small", ("sums", "small"), ("sums",), _THIS),
        Await(0, ("large",)),
        Arrive("empty", of_all),
        Compute("add_large", ("sums", "large"), ("sums",), _THIS),
    )
