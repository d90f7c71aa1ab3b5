"""What a schedule is made of: roles with a program each, the buffers between them, the barriers that order them.

A schedule works on one tile of the grid in *turns* of its loop. Consumer groups hold rows of the tile in registers and
multiply; the producer has the copy engine fill buffers ahead of them. Every buffer with stages is a ring: the turn
``t`` lies in slot ``t % stages``, for the ``t // stages``-th time.

A barrier counts arrivals (and bytes) of one *round* after another. ``Wait`` names the round whose end it waits for; the
hardware is told the round's parity only, so that a wait which falls two rounds behind passes by mistake, and so it does
in :mod:`tileflow.schedule.execute`.

A program may work on several tiles, one after the other. Its turns are then numbered through all of them, so that a
ring goes on where the tile before left it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Literal, TypeVar

from ..errors import InternalError

WARPS_OF_A_GROUP = 4  # one warp group: what a product of Hopper's matrix units is issued by
ROWS_OF_A_GROUP = 64  # of the tile of queries: one instruction's worth


Turns = int | tuple[int, ...]  # of the tiles of a program: as many in each, or of one after the other


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the loop: the running one (``turn``), the tile's first or last one, and so many after it; or the
    ``next`` one, which is the tile's last again behind it."""

    base: Literal["turn", "first", "last", "next"] = "turn"
    offset: int = 0

    def at(self, turn: int, turns: Turns) -> int:
        """Its number, in the running turn ``turn``, where tiles have ``turns``."""
        first = first_of_tile(turn, turns)
        last = first + count_of_tile(turn, turns) - 1
        return {"turn": turn, "first": first, "last": last, "next": min(turn + 1, last)}[self.base] + self.offset


def tile_of(turn: int, turns: Turns) -> int:
    """The number of the tile, among those of the program, that ``turn`` is of."""
    if isinstance(turns, int):
        return turn // turns if turns else 0
    ends = list(accumulate(turns))
    return min(bisect_right(ends, turn), len(turns) - 1)


def start_of(tile: int, turns: Turns) -> int:
    """The number of the first turn of a tile."""
    return tile * turns if isinstance(turns, int) else sum(turns[:tile])


def first_of_tile(turn: int, turns: Turns) -> int:
    """The number of the first turn of the tile that ``turn`` is of."""
    return start_of(tile_of(turn, turns), turns)


def count_of_tile(turn: int, turns: Turns) -> int:
    """How many turns the tile has that ``turn`` is of."""
    return turns if isinstance(turns, int) else turns[tile_of(turn, turns)]


@dataclass(frozen=True, slots=True)
class OwnTile:
    """The number of the running tile among those of its group, where groups have tiles of their own."""


@dataclass(frozen=True, slots=True)
class ThisTile:
    """The number of the running tile among those of the program."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The slot of a ring in which a turn lies. ``group``: of a buffer that has a slot for each group in each stage;
    ``part``: of a slot in parts, the one that a copy fills."""

    turn: Turn
    group: OfGroup | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class OfGroup:
    """The slot of a consumer group: the one that runs the step and so many after it, or of a number."""

    after: int = 0
    number: int | None = None

    def at(self, group: int, groups: int) -> int:
        """The number of the slot's group, seen by ``group`` of ``groups``."""
        return self.number if self.number is not None else (group + self.after) % groups


Slot = Staged | OfGroup


@dataclass(frozen=True, slots=True)
class OfBlock:
    """The piece of columns of the block that runs the step: of the number that it has in its cluster."""


Piece = int | OfBlock


@dataclass(frozen=True, slots=True)
class Round:
    """Which round of a barrier a wait is for: of a ring, the one of the turn; else the turn itself, the first one
    where there is no turn, or that of the tile among those of the program (``ThisTile``) or the group (``OwnTile``).
    ``behind``: so many rounds before it; ``head_start``: that many more for the first group. A round before the first
    is over from the start.
    """

    turn: Turn | OwnTile | ThisTile | None
    behind: int = 0
    head_start: int = 0

    def at(self, stages: int, turn: int, turns: Turns, group: int, groups: int = 1) -> int:
        """Its number; ``stages`` is 1 for a barrier that is no ring, ``groups`` deal the tiles out."""
        if isinstance(self.turn, OwnTile):
            first = tile_of(turn, turns) // groups
        elif isinstance(self.turn, ThisTile):
            first = tile_of(turn, turns)
        else:
            first = 0 if self.turn is None else self.turn.at(turn, turns) // stages
        return first - self.behind - (self.head_start if group == 0 else 0)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Shared memory in slots. ``shape``: of a copy engine's box. ``per``: one slot a stage of the ring, or one a
    consumer group. ``parts``: of a slot, a box each, which lie beside each other along the dimension ``joined`` of
    their shape and are one operand of a product."""

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    slots: int
    per: Literal["stage", "group"]
    parts: int = 1
    joined: int = -1

    @property
    def box_bytes(self) -> int:
        """Bytes of one box."""
        return self.element_bytes * prod(self.shape)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        return self.box_bytes * self.parts

    @property
    def slot_shape(self) -> tuple[int, ...]:
        """The shape of a slot, all its parts beside each other."""
        axis = self.joined % len(self.shape)
        return tuple(extent * self.parts if n == axis else extent for n, extent in enumerate(self.shape))


@dataclass(frozen=True, slots=True)
class Barrier:
    """Barriers in shared memory, one a slot. ``arrivals``: how many end a round, besides the bytes that are expected.
    ``says``: what its end means, for the generated text, the errors and the documentation."""

    name: str
    slots: int
    arrivals: int
    per: Literal["stage", "group"]
    says: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A slot of a buffer as the operand of a product. ``transposed``: read with its dimensions swapped. ``cut``: of so
    many equal parts of its columns, as it lies, the running group's. ``turned``: a box as :class:`Split` leaves it,
    whose dimensions lie swapped."""

    buffer: str
    slot: Slot
    transposed: bool = False
    cut: int = 1
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """Have the copy engine fill a slot; the barrier ``full`` is told the bytes now, and hears when they are there.

    ``turn``: of the box along the loop; None for one that the loop does not move.
    """

    buffer: str
    slot: Slot
    full: str
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for the end of a round."""

    barrier: str
    slot: Slot
    round: Round


@dataclass(frozen=True, slots=True)
class Arrive:
    """One arrival at a barrier. ``hands_over``: the products after it are the next group's to issue in order."""

    barrier: str
    slot: Slot
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Multiply:
    """Issue a product: ``into = left @ right``, or ``into += ...`` where it ``adds``. It reads its operands until it is
    awaited, and nobody may read ``into`` before. ``in_order``: groups issue such products one after the other, from
    here to the arrival that hands the turn over. ``tf32``: of float32 numbers, whose last 13 bits it ignores."""

    into: str
    left: Shared | str
    right: Shared
    adds: bool
    in_order: bool = False
    tf32: bool = False


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until at most ``pending`` products of this group are under way. ``results``: the registers that are known
    from here on; ``keeps``: registers whose computing stays in front of the wait; ``unfinished``: sums that products
    under way add to, so that the next product alone may take them."""

    pending: int
    results: tuple[str, ...]
    keeps: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compute:
    """A part of the author's body: what it reads and writes of the group's registers. ``piece``: the columns that it
    works on, where not on all; ``box``: a slot that it reads, and has read when it is over; ``full``: without the
    masks of the loop's end, for a turn whose block is full."""

    part: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    turn: Turn | None = None
    piece: Piece | None = None
    box: Shared | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Move registers to those that a product takes its left operand from, which no product may read any more."""

    value: str
    into: str


@dataclass(frozen=True, slots=True)
class Save:
    """Put registers into a slot of this group, and have the copy engine write it to the tensor, which is waited for."""

    value: str
    buffer: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class Cut:
    """Names for the pieces of registers' columns, from the left."""

    value: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Put:
    """Put registers into a slot, and have the copy engine write them to the tensor, which goes on until it was awaited.
    ``turn``: one of the tile that they belong to; ``piece``: of its columns, from the left; ``adds``: they are added to
    what the tensor holds, of the turn's own tile."""

    value: str
    buffer: str
    slot: Slot
    turn: Turn
    piece: Piece = 0
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """Put registers into a slot of this group, for products to read, other groups' too."""

    value: str
    buffer: str
    slot: Staged


@dataclass(frozen=True, slots=True)
class Split:
    """Put what a product ignores of a box's float32 numbers, which is all but their tf32 part, into the same slot of
    the buffer ``low``. Of a box that ``turns``, ``low`` has its dimensions swapped, and so has the box itself from
    then on: it is written back so, once all of it was read."""

    box: Shared
    low: str
    turns: bool = False


@dataclass(frozen=True, slots=True)
class AwaitPuts:
    """Wait until the copy engine has read all that this group had it write, but for the last ``pending`` boxes."""

    pending: int = 0


@dataclass(frozen=True, slots=True)
class Scatter:
    """Have this group's own threads write registers to the tensor, as far as their rows are the tile's own. ``turn``,
    ``piece``: as of :class:`Put`."""

    value: str
    turn: Turn
    piece: Piece = 0


@dataclass(frozen=True, slots=True)
class ArriveCluster:
    """One arrival of this role at the cluster's barrier, which all roles of all blocks share."""


@dataclass(frozen=True, slots=True)
class WaitCluster:
    """Wait until all roles of all blocks have arrived as often as this one. What they gave before is there."""


@dataclass(frozen=True, slots=True)
class Give:
    """Give each other block of the cluster the piece of its number, in its shared memory: a slot for each giver."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """The block's own piece and what the others gave it, added in the order of their numbers from its own on."""

    pieces: tuple[str, ...]
    into: str


@dataclass(frozen=True, slots=True)
class IfWhole:
    """The steps where all rows of this group's part are the tile's own; the ``others`` where some belong to another
    tile, which a box would write to as well."""

    steps: tuple[Step, ...]
    others: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class EachTile:
    """The steps for every tile of the program. ``dealt``: groups have tiles of their own, one after the other."""

    steps: tuple[Step, ...]
    dealt: bool = False


@dataclass(frozen=True, slots=True)
class Repeat:
    """The steps for every turn of a tile from its ``first`` on."""

    first: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class IfAny:
    """The steps where the loop has a turn."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class IfFull:
    """The steps where the block of ``turn`` is full: all its lanes lie before the loop's end, so that none is masked.
    The ``others`` where it is partial, as at most the last one of a tile is."""

    turn: Turn
    steps: tuple[Step, ...]
    others: tuple[Step, ...]


_Named = TypeVar("_Named", Buffer, Barrier)
Writes = Save | Put | AwaitPuts | Scatter
Branches = IfWhole | IfFull
Nested = EachTile | Repeat | IfAny | Branches
OfCluster = ArriveCluster | WaitCluster | Give | Join
Step = Copy | Wait | Arrive | Multiply | Await | Compute | Take | Share | Split | Cut | Writes | OfCluster | Nested


@dataclass(frozen=True, slots=True)
class Role:
    """Warps that run one program. ``groups``: how many such roles there are. ``registers``: a thread's budget."""

    name: str
    groups: int
    warps: int
    registers: int
    program: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A producer, consumer groups, a splitter of boxes where there is one, and what lies between them. ``scratch``:
    bytes of shared memory that the compiler takes where a group's values go to other lanes. ``blocks``: of a cluster,
    each of which runs all roles; ``given``: bytes of shared memory for what the others give a block."""

    producer: Role
    consumer: Role
    buffers: tuple[Buffer, ...]
    barriers: tuple[Barrier, ...]
    stages: int
    splitter: Role | None = None
    scratch: int = 0
    blocks: int = 1
    given: int = 0

    @property
    def helpers(self) -> tuple[Role, ...]:
        """The roles beside the consumer groups."""
        return (self.producer,) if self.splitter is None else (self.splitter, self.producer)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return _found(self.buffers, name)

    def barrier(self, name: str) -> Barrier:
        """The barrier of that name."""
        return _found(self.barriers, name)

    @property
    def warps(self) -> int:
        """The warps of a block. The compiler deals out whole warp groups, so that the producer's other warps sit
        idle."""
        return WARPS_OF_A_GROUP * (self.consumer.groups + len(self.helpers))


def steps_of(program: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those inside loops and branches after the one that holds them."""
    for step in program:
        yield step
        if isinstance(step, Nested):
            yield from steps_of(step.steps)
        if isinstance(step, Branches):
            yield from steps_of(step.others)


def where_full(step: Compute, is_masked: bool) -> Step:
    """A part of a turn without its masks where the turn's block is full; the part alone where it has none."""
    if not is_masked or step.turn is None:
        return step
    return IfFull(step.turn, (replace(step, full=True),), (step,))


def _found(values: tuple[_Named, ...], name: str) -> _Named:
    for value in values:
        if value.name == name:
            return value
    raise InternalError(
        "a step names a buffer or barrier of its schedule", got=name, where=", ".join(v.name for v in values)
    )
