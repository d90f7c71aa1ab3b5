"""The schedule of one product whose left operand the consumers compute, in registers, from boxes of something else.

The producer streams what the operand is computed from and the right operand through one ring. A turn of a consumer
group computes its operand beside the product of the turn before, waits for that product, moves the operand to the
registers that products read, and issues its own. The units that multiply have another group's product meanwhile.

The right operand's boxes have a barrier of their own. Its wait stands between the computing and the wait for the
product: the assembler moves nothing across it, and computing that it moved behind the product's wait would overlap
nothing. A product issued before the one in front of it is over would need two sets of operand registers, which a
loop's body cannot name in turns: the assembler then waits after each instruction.
"""

from __future__ import annotations

from . import product as plain
from .product import (
    CONSUMER_REGISTERS,
    PRODUCER_REGISTERS,
    Shape,
    is_dealt,
    left_slots,
    result_buffer,
    scheduled,
    stored,
)
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
    OwnTile,
    Repeat,
    Role,
    Round,
    Schedule,
    Shared,
    Staged,
    Step,
    Take,
    Turn,
    Wait,
)

_OWN, _OTHER = OfGroup(), OfGroup(after=1)
_THIS, _BEFORE, _FIRST, _LAST = Turn(), Turn(offset=-1), Turn("first"), Turn("last")

NAMES = plain.NAMES | {"left_full", "right_full", "box", "computed", "operand", "prepare"}


def computed_product(shape: Shape, groups: int, stages: int, ping_pong: bool) -> Schedule:
    """The schedule for ``groups`` consumer groups and a ring of ``stages`` slots. ``shape.left``: the box that a
    group's operand is computed from."""
    dealt = is_dealt(groups, ping_pong)
    readers = 1 if dealt else groups  # of a slot of the ring
    buffers = [
        Buffer("left", shape.left, shape.left_bytes, stages * readers, "stage"),
        Buffer("right", shape.right, shape.element_bytes, stages, "stage"),
        *result_buffer(shape, groups),
    ]
    barriers = [
        Barrier("left_full", stages, readers, "stage", "what this turn's operands are computed from is there"),
        Barrier("right_full", stages, 1, "stage", "this turn's right operand is there"),
        Barrier("empty", stages, readers, "stage", "who reads these boxes has multiplied by them"),
    ]
    if dealt:
        barriers.append(Barrier("order", groups, 1, "group", "the tile before has all its products issued"))
    order: tuple[Step, ...] = (Wait("order", _OWN, Round(OwnTile(), head_start=1)),) if dealt else ()
    tile = EachTile((*order, *_sums(shape, dealt), *stored(shape)), dealt)
    consumer = Role(
        "consumer", groups, WARPS_OF_A_GROUP, CONSUMER_REGISTERS[groups], (*begun(shape.blocks), tile, AwaitPuts())
    )
    filled: tuple[Step, ...] = (
        Wait("empty", Staged(_THIS), Round(_THIS, behind=1)),
        *(Copy("left", slot, "left_full", _THIS) for slot in left_slots(groups, dealt)),
        Copy("right", Staged(_THIS), "right_full", _THIS),
    )
    producer = Role(
        "producer",
        1,
        producer_warps(shape.blocks),
        PRODUCER_REGISTERS,
        (*begun(shape.blocks), EachTile((Repeat(0, filled),)), *leaves(shape.blocks)),
    )
    return scheduled(shape, producer, consumer, buffers, barriers, stages)


def _sums(shape: Shape, dealt: bool) -> tuple[Step, ...]:
    """All turns of a tile."""

    def computed(turn: Turn) -> tuple[Step, ...]:
        box = Shared("left", Staged(turn, None if dealt else _OWN), shape.left_transposed)
        return (
            Wait("left_full", Staged(turn), Round(turn)),
            Compute("prepare", (), ("computed",), turn, box=box),
            Wait("right_full", Staged(turn), Round(turn)),
        )

    def issued(turn: Turn, adds: bool) -> tuple[Step, ...]:
        right = Shared("right", Staged(turn), shape.right_transposed)
        return Take("computed", "operand"), Multiply("sums", "operand", right, adds)

    over = (Await(0, ("sums",), ("computed",)), Arrive("empty", Staged(_BEFORE)))
    turn_goes: tuple[Step, ...] = (Arrive("order", _OTHER),) if dealt else ()
    return (
        *computed(_FIRST),
        *issued(_FIRST, adds=False),
        Repeat(1, (*computed(_THIS), *over, *issued(_THIS, adds=True))),
        *turn_goes,
        Await(0, ("sums",)),
        Arrive("empty", Staged(_LAST)),
    )
