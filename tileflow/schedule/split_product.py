"""The schedule of one float32 product whose operands are split into two tf32 parts each, by warps of their own.

A product of tf32 parts is three products of the matrix units: low by high, high by low, high by high. The units ignore
the last 13 bits of a float32 number, so that a box is its own high part: the splitter writes the low part beside it.
They take tf32 along the inner dimension only: a box that lies across it is written back transposed, over itself, since
memory beside it would be a stage less of boxes that are split ahead of the products.
So consumer groups have nothing to do but multiply and add up. Of two groups one multiplies while the other adds up; of
one, a program beside it does.

The units round each sum towards zero. Sums of one turn are therefore added to those of all turns in float32 by the
consumers' threads, the small ones (of low parts) first, as pipelined kernels have it.

What is infinite has a high part alone, whose low part is zero. Small sums that are no number, as infinity by zero gives
them, are left out.
"""

from __future__ import annotations

from . import product as plain
from .product import PRODUCER_REGISTERS, Shape, left_slots, result_buffer, scheduled, stored
from .shared_turns import begun, leaves, producer_warps
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
    Turn,
    Wait,
)

GROUPS = (1, 2)  # consumer groups, which share a tile's rows
TURN = 32  # numbers of a row of an operand, in a turn: 128 bytes
# a thread's, as setmaxnreg deals them out: of two groups, the splitter and the producer they are all there are
CONSUMER_REGISTERS = 208
SPLITTER_REGISTERS = 72
# of one group with few sums, so that two programs share a multiprocessor
FEW_SUMS, CONSUMER_REGISTERS_OF_TWO = 32, 144
_THIS, _FIRST = Turn(), Turn("first")

NAMES = plain.NAMES | {
    "split", "low_part", "split_box", "split_across", "add_numbers", "splitter", "small", "no_small", "large",
    "no_large", "left_low", "right_low", "box", "low", "turned", "numbers", "whole", "rest", "asm",
    "ALONG", "ACROSS", "TURNED",
}  # fmt: skip


def is_across(shape: Shape) -> tuple[bool, bool]:
    """Whether the left and the right box lie across the inner dimension, where the matrix units take no tf32."""
    return shape.left_transposed, not shape.right_transposed


def split_product(shape: Shape, groups: int, stages: int) -> Schedule:
    """The schedule for so many consumer groups and a ring of ``stages`` slots, of boxes and of what they are split
    into."""
    buffers = [
        Buffer("left", shape.left, shape.element_bytes, stages * groups, "stage"),
        Buffer("right", shape.right, shape.element_bytes, stages, "stage"),
    ]
    for box, across in zip(tuple(buffers), is_across(shape), strict=True):
        rows, columns = box.shape[-2:]
        sides = (columns, rows) if across else (rows, columns)
        buffers.append(Buffer(f"{box.name}_low", sides, box.element_bytes, box.slots, "stage"))
    barriers = (
        Barrier("full", stages, 1 + groups, "stage", "this turn's boxes are there"),
        Barrier("split", stages, 1, "stage", "this turn's boxes are split"),
        Barrier("empty", stages, groups, "stage", "all groups have multiplied by what is split"),
    )
    turns: tuple[Step, ...] = (Compute("begin", (), ("sums",), _FIRST), Repeat(0, _multiplied(shape)))
    consumer = Role(
        "consumer",
        groups,
        WARPS_OF_A_GROUP,
        CONSUMER_REGISTERS_OF_TWO if share_multiprocessor(groups, shape.sums) else CONSUMER_REGISTERS,
        (*begun(shape.blocks), EachTile((*turns, *stored(shape))), AwaitPuts()),
    )

    def helping(turn: tuple[Step, ...]) -> tuple[Step, ...]:
        return (*begun(shape.blocks), EachTile((Repeat(0, turn),)), *leaves(shape.blocks))

    splitter = Role("splitter", 1, WARPS_OF_A_GROUP, SPLITTER_REGISTERS, helping(_split(shape, groups)))
    filled: tuple[Step, ...] = (
        Wait("empty", Staged(_THIS), Round(_THIS, behind=1)),
        *(Copy("left", slot, "full", _THIS) for slot in left_slots(groups, dealt=False)),
        Copy("right", Staged(_THIS), "full", _THIS),
    )
    producer = Role("producer", 1, producer_warps(shape.blocks), PRODUCER_REGISTERS, helping(filled))
    ring = (*buffers, *result_buffer(shape, groups))
    return scheduled(shape, producer, consumer, ring, barriers, stages, splitter)


def share_multiprocessor(groups: int, sums: int) -> bool:
    """Whether the registers of two programs fit a multiprocessor: ``sums`` a thread of one group has of all turns, and
    twice as many of the running one."""
    return groups == 1 and sums <= FEW_SUMS


def _split(shape: Shape, groups: int) -> tuple[Step, ...]:
    """A turn of the splitter. The slots that it writes are free: the producer waited for that before it filled the
    boxes. Boxes that lie along the inner dimension come first: those that are turned have a barrier in between."""
    left_across, right_across = is_across(shape)
    slots = left_slots(groups, dealt=False)
    left = tuple(Split(Shared("left", slot), "left_low", left_across) for slot in slots)
    right = Split(Shared("right", Staged(_THIS)), "right_low", right_across)
    splits = (*left, right) if right_across else (right, *left)
    return (Wait("full", Staged(_THIS), Round(_THIS)), *splits, Arrive("split", Staged(_THIS)))


def _multiplied(shape: Shape) -> tuple[Step, ...]:
    """A turn of a consumer group. Right operands lie with the inner dimension last, and are read transposed."""
    left_across, right_across = is_across(shape)
    own, of_all = Staged(_THIS, OfGroup()), Staged(_THIS)
    left = Shared("left", own, turned=left_across), Shared("left_low", own)
    right = Shared("right", of_all, True, turned=right_across), Shared("right_low", of_all, True)
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
