"""The schedule of one product in a loop: a persistent program with a producer, consumer groups, and stores beside them.

The producer streams boxes of both operands through one ring, from tile to tile without a pause, so that the next
tile's first boxes are there while this one's result is stored. A turn of a consumer group issues its product behind
the one of the turn before, and lets go of that one's slot. Groups have parts of a tile's rows, or with ``ping_pong``
tiles of their own: then one group multiplies while another one computes and stores its result (CUTLASS's cooperative
and ping-pong kernels).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from .shared_turns import begun, given_bytes, joined, leaves, producer_warps
from .types import (
    WARPS_OF_A_GROUP,
    Arrive,
    Await,
    AwaitPuts,
    Barrier,
    Buffer,
    Compute,
    Copy,
    Cut,
    EachTile,
    IfWhole,
    Multiply,
    OfBlock,
    OfGroup,
    OwnTile,
    Piece,
    Put,
    Repeat,
    Role,
    Round,
    Scatter,
    Schedule,
    Shared,
    Staged,
    Step,
    Turn,
    Wait,
)

# a thread's, by the number of groups, as setmaxnreg deals them out
CONSUMER_REGISTERS = {1: 232, 2: 240, 3: 160}
PRODUCER_REGISTERS = 24
# the same where roles compute where their tiles are from vectors of numbers, which the producer has to hold too
SEARCHING_CONSUMER_REGISTERS = {1: 216, 2: 232, 3: 152}
SEARCHING_PRODUCER_REGISTERS = 40
# of a group's result, which goes to memory by so many bytes at most, and of a thread's, which are computed at a time
PIECE_BYTES = 16384
PIECE_SUMS = 64
_OWN, _OTHER = OfGroup(), OfGroup(after=1)
_THIS, _BEFORE, _FIRST, _LAST = Turn(), Turn(offset=-1), Turn("first"), Turn("last")

# what a program of this schedule calls its own; an author's number of such a name has none
NAMES = frozenset({
    "left", "right", "out", "full", "empty", "order", "turns", "turn", "start", "tile", "tiles", "who", "sums",
    "no_sums", "result", "pid", "slot", "band", "height", "plane", "consumer", "producer", "finish", "mbarrier", "tma",
    "fence_async_shared", "warpgroup_mma", "warpgroup_mma_wait", "STAGES", "GROUPS", "ROWS", "COLUMNS", "BY_ROW",
    "scatter", "grid_tile", "sums_beside", *(f"{name}_{n}" for name in ("sums", "result") for n in range(16)),
    "cta", "threads", "threads_of_piece", "arrive_at_cluster", "wait_for_cluster", "give", "join", "GIVE", "JOIN",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """What the schedule needs to know of a region. ``left``, ``right``: boxes, the left one with a group's rows;
    ``products``: how many right boxes lie beside each other, of a product each; ``out``: a group's result, None where
    it goes by pointers, and the bytes of an element of it. ``left_transposed``, ``right_transposed``: the product reads
    the box with its dimensions swapped. ``sums``: a thread's registers for the sums of all products; ``by_pieces``: the
    author's epilogue may be computed of some columns at a time. ``left_bytes``: of an element of the left box, where it
    is none of the product's own; ``out_transposed``: columns of the result are rows of its box. ``ragged``: some rows
    of a tile may belong to another one; ``searching``: roles compute vectors of numbers to know where their tiles
    are; ``scattered_bytes``: of a group's result that goes to other lanes before they store it by pointers; ``blocks``:
    of a cluster, which share the turns of a tile."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    element_bytes: int
    out: tuple[int, ...] | None = None
    out_bytes: int = 0
    left_transposed: bool = False
    right_transposed: bool = False
    sums: int = 0
    by_pieces: bool = True
    left_bytes: int = 0
    out_transposed: bool = False
    ragged: bool = False
    searching: bool = False
    products: int = 1
    scattered_bytes: int = 0
    blocks: int = 1

    @property
    def pieces(self) -> int:
        """The number of pieces of columns in which a result is computed and stored, a power of two. Blocks of a cluster
        have one each."""
        if self.blocks > 1:
            return self.blocks
        size = (self.scattered_bytes if self.by_pieces else 0) if self.out is None else prod(self.out) * self.out_bytes
        return max(size // PIECE_BYTES, self.sums // PIECE_SUMS if self.by_pieces else 1, 1)

    @property
    def piece_scattered(self) -> int:
        """Bytes of a piece of a group's result that goes to other lanes."""
        return self.scattered_bytes // self.pieces

    @property
    def joined(self) -> int:
        """The dimension of the right box along which several lie beside each other: the product's columns."""
        return -2 if self.right_transposed else -1

    @property
    def out_piece(self) -> tuple[int, ...]:
        """The box of one piece of the result."""
        assert self.out is not None
        *outer, rows, columns = self.out
        if self.out_transposed:
            return (*outer, rows // self.pieces, columns)
        return (*outer, rows, columns // self.pieces)


def product(shape: Shape, groups: int, stages: int, ping_pong: bool) -> Schedule:
    """The schedule for ``groups`` consumer groups and a ring of ``stages`` slots."""
    dealt = is_dealt(groups, ping_pong)
    readers = 1 if dealt else groups  # of a slot of the ring
    buffers = [
        Buffer("left", shape.left, shape.element_bytes, stages * readers, "stage"),
        Buffer("right", shape.right, shape.element_bytes, stages, "stage", shape.products, shape.joined),
        *result_buffer(shape, groups),
    ]
    barriers = [
        Barrier("full", stages, shape.products + readers, "stage", "this turn's boxes are there"),
        Barrier("empty", stages, readers, "stage", "who multiplies by these boxes has done so"),
    ]
    if dealt:
        barriers.append(Barrier("order", groups, 1, "group", "the tile before has all its products issued"))
    consumer = Role(
        "consumer",
        groups,
        WARPS_OF_A_GROUP,
        (SEARCHING_CONSUMER_REGISTERS if shape.searching else CONSUMER_REGISTERS)[groups],
        (
            *begun(shape.blocks),
            EachTile((*_turn_comes(dealt), *_sums(shape, dealt), *stored(shape)), dealt),
            AwaitPuts(),
        ),
    )
    producer = Role(
        "producer",
        1,
        producer_warps(shape.blocks),
        SEARCHING_PRODUCER_REGISTERS if shape.searching else PRODUCER_REGISTERS,
        (*begun(shape.blocks), EachTile((Repeat(0, _filled(shape, groups, dealt)),)), *leaves(shape.blocks)),
    )
    return scheduled(shape, producer, consumer, buffers, barriers, stages)


def scheduled(
    shape: Shape,
    producer: Role,
    consumer: Role,
    buffers: Iterable[Buffer],
    barriers: Iterable[Barrier],
    stages: int,
    splitter: Role | None = None,
) -> Schedule:
    """A product's schedule of these roles, with the memory that its results pass through."""
    groups = consumer.groups
    return Schedule(
        producer,
        consumer,
        tuple(buffers),
        tuple(barriers),
        stages,
        splitter,
        scratch=groups * shape.piece_scattered,
        blocks=shape.blocks,
        given=groups * given_bytes(shape.sums, shape.blocks),
    )


def _filled(shape: Shape, groups: int, dealt: bool) -> tuple[Step, ...]:
    """A turn of the producer."""
    return (
        Wait("empty", Staged(_THIS), Round(_THIS, behind=1)),
        *(Copy("left", slot, "full", _THIS) for slot in left_slots(groups, dealt)),
        *(Copy("right", slot, "full", _THIS) for slot in _right_slots(shape)),
    )


def is_dealt(groups: int, ping_pong: bool) -> bool:
    """Whether groups have tiles of their own."""
    return ping_pong and groups > 1


def left_slots(groups: int, dealt: bool) -> tuple[Staged, ...]:
    """The slots of a turn's left boxes: one, or one for each group's rows."""
    return (Staged(_THIS),) if dealt else tuple(Staged(_THIS, OfGroup(number=g)) for g in range(groups))


def _right_slots(shape: Shape) -> tuple[Staged, ...]:
    """The slots of a turn's right boxes: one, or the parts of one."""
    if shape.products == 1:
        return (Staged(_THIS),)
    return tuple(Staged(_THIS, part=n) for n in range(shape.products))


def result_buffer(shape: Shape, groups: int) -> tuple[Buffer, ...]:
    """The buffer that a piece of each group's result leaves by, where the copy engine stores it."""
    return () if shape.out is None else (Buffer("out", shape.out_piece, shape.out_bytes, groups, "group"),)


def _turn_comes(dealt: bool) -> tuple[Step, ...]:
    """A group's waits for boxes begin when all boxes before have been waited for: barriers tell parities only."""
    return (Wait("order", _OWN, Round(OwnTile(), head_start=1)),) if dealt else ()


def _sums(shape: Shape, dealt: bool) -> tuple[Step, ...]:
    """All turns of a tile. The product of a turn is behind that of the turn before, which is then awaited."""

    def issued(turn: Turn, adds: bool) -> tuple[Step, ...]:
        left = Shared("left", Staged(turn, None if dealt else _OWN), shape.left_transposed)
        right = Shared("right", Staged(turn), shape.right_transposed)
        return (
            Wait("full", Staged(turn), Round(turn)),
            Multiply("sums", left, right, adds),
            Await(1, (), unfinished=("sums",)),
        )

    turn_goes: tuple[Step, ...] = (Arrive("order", _OTHER),) if dealt else ()
    return (
        *issued(_FIRST, adds=False),
        Repeat(1, (*issued(_THIS, adds=True), Arrive("empty", Staged(_BEFORE)))),
        *turn_goes,
        Await(0, ("sums",)),
        Arrive("empty", Staged(_LAST)),
    )


def stored(shape: Shape) -> tuple[Step, ...]:
    """The author's epilogue and its result, piece by piece where that may be; each waits until the one before has left
    the slot. A piece has the same columns of each product. What has rows of another tile goes there by the threads
    themselves. Blocks of a cluster put their sums together first, and each does this to a piece."""
    results = () if shape.out is None else ("result",)

    def put(value: str, piece: Piece) -> tuple[Step, ...]:
        if shape.out is None:
            return ()
        box = (AwaitPuts(), Put(value, "out", _OWN, _FIRST, piece))
        return (IfWhole(box, (Scatter(value, _FIRST, piece),)),) if shape.ragged else box

    if shape.blocks > 1:
        own = OfBlock()
        return (*joined(shape.blocks), Compute("finish", ("sums",), results, _FIRST, own), *put("result", own))
    if shape.pieces == 1:
        cut, sums = _cut_by_product(shape)
        return (*cut, Compute("finish", sums, results, _FIRST), *put("result", 0))
    pieces = range(shape.pieces)
    if shape.by_pieces:
        names = tuple(f"sums_{n}" for n in range(shape.products * shape.pieces))
        reads = [names[n :: shape.pieces] for n in pieces]
        parts = [(Compute("finish", reads[n], results, _FIRST, n), *put("result", n)) for n in pieces]
        return (Cut("sums", names), *(step for steps in parts for step in steps))
    cut, sums = _cut_by_product(shape)
    names = tuple(f"result_{n}" for n in pieces)
    return (
        *cut,
        Compute("finish", sums, results, _FIRST),
        Cut("result", names),
        *(step for n in pieces for step in put(names[n], n)),
    )


def _cut_by_product(shape: Shape) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The sums of each product, and the step that makes them of all sums."""
    if shape.products == 1:
        return (), ("sums",)
    names = tuple(f"sums_{n}" for n in range(shape.products))
    return (Cut("sums", names),), names
