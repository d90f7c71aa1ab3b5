"""The schedule of a loop of gradients, after FlashAttention-3's (Shah et al., 2024, arXiv:2407.08608).

The producer fills what each group holds, and streams blocks. A turn of a consumer group issues all its scores, computes
what follows from the first one beside the other one's product, issues each sum as soon as its operand is in registers,
and computes what follows from the second score beside that. What lies beside the blocks is loaded a turn ahead. What is
left to wait for at a turn's end is for the other group to fill.

A product that a turn adds to memory sums over the rows of all groups. Each group shares its operand, and computes its
part of the result: of its columns, or of its rows. It is issued in front of the sum of the same operand, and leaves by
the copy engine beside that.
"""

from __future__ import annotations

from dataclasses import dataclass

from .attention import CONSUMER_REGISTERS, PRODUCER_REGISTERS
from .types import (
    ROWS_OF_A_GROUP,
    WARPS_OF_A_GROUP,
    Arrive,
    Await,
    AwaitPuts,
    Barrier,
    Buffer,
    Compute,
    Copy,
    IfAny,
    Multiply,
    OfGroup,
    Put,
    Repeat,
    Role,
    Round,
    Save,
    Schedule,
    Share,
    Shared,
    Slot,
    Staged,
    Step,
    Turn,
    Wait,
    where_full,
)

_OWN, _THIS = OfGroup(), Turn()
RUN = 64  # of 16-bit numbers, that lie together in a row of shared memory: columns are cut between runs
# the barrier by which all blocks of a turn are let go at once, where a turn has two more: each is one for the group
_ALL_EMPTY = "blocks_empty"
_MOST = 4  # of a kind: blocks of two scores and two sums

# what a program of this schedule calls its own; an author's number of such a name has none
NAMES = frozenset({
    *(f"{word}_{n}{more}" for n in range(_MOST) for word, more in (
        ("held", ""), ("held", "_full"), ("block", ""), ("block", "_full"), ("block", "_empty"), ("out", ""),
        ("scores", ""), ("no_scores", ""), ("scores", "_under_way"), ("sums", ""), ("sums", "_under_way"),
        ("operand", ""), ("result", ""), ("ahead_of", ""), ("part", ""), ("part", "_full"), ("part", "_later"),
        ("part", "_later_full"), ("vector", ""),
    )),
    "box", "branching", _ALL_EMPTY, "add_to_global", "ir", "builtin", "shared", "shared_full", "shared_operand",
    "added", "no_added", "added_under_way", "leaving",
    "turns", "turn", "who", "pid", "slot", "consumer", "producer", "finish",
    "mbarrier", "tma", "fence_async_shared", "warpgroup_mma", "warpgroup_mma_wait",
    "STAGES", "GROUPS", "ROWS", "BY_ROW",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box:
    """A box of memory: of what is held and of what is saved, a group's rows. ``name``: the tensor's."""

    name: str
    shape: tuple[int, ...]
    element_bytes: int


@dataclass(frozen=True, slots=True)
class ScoreShape:
    """A score: the numbers of its operands among ``held`` and ``blocks``, and how the second one is read."""

    held: int
    block: int
    transposed: bool


@dataclass(frozen=True, slots=True)
class SumShape:
    """A sum: the number of its block, how that is read, and the part after which its left operand is there."""

    block: int
    transposed: bool
    part: int


@dataclass(frozen=True, slots=True)
class AddedShape:
    """A product that a turn adds to memory: the number of what the program holds that it multiplies by, the part after
    which its operand is there, and the box of a group's part of the result. ``by_columns``: groups have parts of its
    columns, else of its rows. ``operand``: a group's, which all groups read. ``deep``: results leave by a ring, so that
    the copy engine may be a turn behind."""

    held: int
    part: int
    by_columns: bool
    operand: Box
    out: Box
    deep: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What the schedule needs to know of a region. ``ahead``: the parts that something is loaded ahead for;
    ``vectors``: of each part, what the copy engine brings for it beside its score's block; ``masked``: those parts that
    mask lanes past the loop's end; ``added``: what a turn adds to memory."""

    held: tuple[Box, ...]
    blocks: tuple[Box, ...]
    scores: tuple[ScoreShape, ...]
    sums: tuple[SumShape, ...]
    saved: tuple[Box, ...] = ()
    ahead: tuple[int, ...] = ()
    vectors: tuple[Box | None, ...] = ()
    masked: frozenset[int] = frozenset()
    added: AddedShape | None = None


def gradients(shape: Shape, groups: int, stages: int) -> Schedule:
    """The schedule for ``groups`` consumer groups of 64 rows each, and rings of ``stages`` slots."""
    sums = tuple(f"sums_{n}" for n in range(len(shape.sums)))
    results = tuple(f"result_{n}" for n in range(len(shape.saved)))
    consumer = Role(
        "consumer",
        groups,
        WARPS_OF_A_GROUP,
        CONSUMER_REGISTERS[groups],
        (
            Compute("start", (), sums),
            *_held_is_there(shape, groups),
            IfAny(
                (
                    *(_loaded_ahead(n, Turn("first")) for n in shape.ahead),
                    Repeat(0, tuple(_Turn(shape, groups, stages).steps())),
                )
            ),
            *((AwaitPuts(),) if shape.added is not None else ()),
            Compute("finish", sums, results),
            *(Save(f"result_{n}", saved_in(shape, n), _OWN) for n in range(len(shape.saved))),
        ),
    )
    producer = Role(
        "producer",
        1,
        1,
        PRODUCER_REGISTERS,
        (
            *(
                Copy(f"held_{n}", OfGroup(number=g), f"held_{n}_full")
                for n in range(len(shape.held))
                for g in range(groups)
            ),
            Repeat(0, tuple(step for n in range(len(shape.blocks)) for step in _filled(shape, n))),
        ),
    )
    return Schedule(producer, consumer, _buffers(shape, groups, stages), _barriers(shape, groups, stages), stages)


def _held_is_there(shape: Shape, groups: int) -> tuple[Step, ...]:
    """A group's waits for what it holds, and for what all groups hold of that which a turn's last product reads."""
    found: list[Step] = []
    for n in range(len(shape.held)):
        is_read_by_all = shape.added is not None and shape.added.held == n
        slots = [OfGroup(number=g) for g in range(groups)] if is_read_by_all else [_OWN]
        found += [Wait(f"held_{n}_full", slot, Round(None)) for slot in slots]
    return tuple(found)


def is_by_columns(rows: int, columns: int, groups: int) -> bool | None:
    """Whether groups have parts of the columns of what a turn adds to memory, or of its rows: a product of one
    instruction's rows each, by whole runs of shared memory. None where it is neither."""
    if rows == ROWS_OF_A_GROUP * groups:
        return False
    return True if rows == ROWS_OF_A_GROUP and columns == RUN * groups else None


def saved_in(shape: Shape, number: int) -> str:
    """The buffer that a result goes through: what the group held, which nobody reads any more, or one of its own. What
    all groups read in a turn's last product may be read by another one still."""
    box = shape.saved[number]
    if shape.added is not None:
        alone = [n for n, held in enumerate(shape.held) if n != shape.added.held and _alike(held, box)]
        return f"held_{alone[0]}" if alone else f"out_{number}"
    fits = number < len(shape.held) and (shape.held[number].shape, shape.held[number].element_bytes)
    return f"held_{number}" if fits == (box.shape, box.element_bytes) else f"out_{number}"


def _alike(one: Box, other: Box) -> bool:
    """Whether two boxes take the same memory."""
    return (one.shape, one.element_bytes) == (other.shape, other.element_bytes)


def _loaded_ahead(part: int, turn: Turn) -> Compute:
    """What a part reads beside the blocks: nothing waits for it, a turn before it is needed."""
    return Compute(f"ahead_of_{part}", (), (f"ahead_{part}",), turn)


def _buffers(shape: Shape, groups: int, stages: int) -> tuple[Buffer, ...]:
    own = [n for n in range(len(shape.saved)) if saved_in(shape, n).startswith("out")]
    return (
        *(Buffer(f"held_{n}", b.shape, b.element_bytes, groups, "group") for n, b in enumerate(shape.held)),
        *(Buffer(f"block_{n}", b.shape, b.element_bytes, stages, "stage") for n, b in enumerate(shape.blocks)),
        *(Buffer(f"out_{n}", shape.saved[n].shape, shape.saved[n].element_bytes, groups, "group") for n in own),
        *(Buffer(f"vector_{n}", b.shape, b.element_bytes, stages, "stage") for n, b in enumerate(shape.vectors) if b),
        *_buffers_of_added(shape, groups, stages),
    )


def _buffers_of_added(shape: Shape, groups: int, stages: int) -> tuple[Buffer, ...]:
    """The operands of a turn, and what leaves. A slot is written again two turns later at the earliest: by then each
    group has heard that the other ones are a turn behind at most, and has awaited its own product."""
    if shape.added is None:
        return ()
    operand = shape.added.operand
    return (
        Buffer("shared", operand.shape, operand.element_bytes, stages * groups, "stage"),
        _leaving(shape.added, groups, stages),
    )


def _leaving(added: AddedShape, groups: int, stages: int) -> Buffer:
    """What results leave by: a slot a group, or a ring of them."""
    if added.deep:
        return Buffer("leaving", added.out.shape, added.out.element_bytes, groups * stages, "stage")
    return Buffer("leaving", added.out.shape, added.out.element_bytes, groups, "group")


def _barriers(shape: Shape, groups: int, stages: int) -> tuple[Barrier, ...]:
    found = [
        Barrier(f"held_{n}_full", groups, 1, "group", f"a group's rows of {box.name} are there")
        for n, box in enumerate(shape.held)
    ]
    for n, box in enumerate(shape.blocks):
        copies = 1 + len(_vectors_beside(shape, n))
        found.append(Barrier(f"block_{n}_full", stages, copies, "stage", f"this turn's {box.name} is there"))
        if shape.added is None:
            says = f"all groups have multiplied by this {box.name}"
            found.append(Barrier(f"block_{n}_empty", stages, groups, "stage", says))
    if shape.added is not None:
        found.append(Barrier(_ALL_EMPTY, stages, groups, "stage", "all groups have multiplied by these blocks"))
    if shape.added is not None:
        found.append(Barrier("shared_full", stages, groups, "stage", "all groups have shared this turn's operand"))
    return tuple(found)


def _filled(shape: Shape, block: int) -> tuple[Step, ...]:
    """The producer's steps for a ring: wait until the slot was let go, then fill it, and the vectors beside it."""
    slot, full = Staged(_THIS), f"block_{block}_full"
    names = (f"block_{block}", *(f"vector_{n}" for n in _vectors_beside(shape, block)))
    empty = f"block_{block}_empty" if shape.added is None else _ALL_EMPTY
    waits = (Wait(empty, slot, Round(_THIS, behind=1)),) if shape.added is None or not block else ()
    return *waits, *(Copy(n, slot, full, _THIS) for n in names)


def _vectors_beside(shape: Shape, block: int) -> tuple[int, ...]:
    """The parts whose vectors come and go with a block: that of their score."""
    return tuple(n for n, vector in enumerate(shape.vectors) if vector is not None and shape.scores[n].block == block)


class _Turn:
    """The steps of a consumer's turn.

    Products end in the order in which they were issued, so that a wait for one is a wait for all before it. No product
    is under way from one turn to the next: with sums that were (and their left operands in registers), ptxas waited for
    each instruction of all products (its advice C7512).
    """

    def __init__(self, shape: Shape, groups: int, stages: int) -> None:
        self._shape, self._groups, self._stages = shape, groups, stages
        self._issued: list[tuple[str, int | None]] = []  # products of this turn, with their blocks
        self._there: set[int] = set()  # blocks that were waited for
        self._free: list[int] = []  # blocks that were let go
        self._waiting = {n for n, vector in enumerate(shape.vectors) if vector is not None}  # parts that read one

    def steps(self) -> list[Step]:
        shape, found = self._shape, list[Step]()
        for n, score in enumerate(shape.scores):
            found += self._wait(score.block)
            block = Shared(f"block_{score.block}", Staged(_THIS), score.transposed)
            found.append(Multiply(f"scores_{n}", Shared(f"held_{score.held}", _OWN), block, adds=False))
            self._issued.append((f"scores_{n}", score.block))
        for n in range(len(shape.scores)):
            found += [*self._await((f"scores_{n}",)), self._part(n)]
            if shape.added is not None and shape.added.part == n:
                found += self._add_to_memory(shape.added)
            for number, sum_ in enumerate(shape.sums):
                if sum_.part == n:
                    found += self._add(number, sum_)
        sums = tuple(f"sums_{n}" for n in range(len(shape.sums)))
        if shape.added is not None:
            over = tuple(name for name, _ in self._issued if name in sums and self._is_before_added(name))
            found += [*self._await((*over, "added")), *self._leave(shape.added)]
            sums = tuple(name for name in sums if name not in over)
        found += [_loaded_ahead(n, Turn("next")) for n in shape.ahead]
        return [*found, *self._await(sums)]

    def _add_to_memory(self, added: AddedShape) -> list[Step]:
        """Share this group's operand, and multiply all groups' by what the program holds."""
        own = Staged(_THIS, _OWN)
        steps: list[Step] = [
            Share("shared_operand", "shared", own),
            Arrive("shared_full", Staged(_THIS)),
            Wait("shared_full", Staged(_THIS), Round(_THIS)),
        ]
        by_columns, by_rows = (self._groups, 1) if added.by_columns else (1, self._groups)
        for g in range(self._groups):
            left = Shared("shared", Staged(_THIS, OfGroup(number=g)), transposed=True, cut=by_rows)
            right = Shared(f"held_{added.held}", OfGroup(number=g), cut=by_columns)
            steps.append(Multiply("added", left, right, adds=g > 0))
            self._issued.append(("added", None))
        return steps

    def _leave(self, added: AddedShape) -> tuple[Step, ...]:
        """Have the copy engine add the result, through a slot that it has read."""
        slot: Slot = Staged(_THIS, _OWN) if added.deep else _OWN
        return AwaitPuts(self._stages - 1 if added.deep else 0), Put("added", "leaving", slot, _THIS, adds=True)

    def _is_before_added(self, name: str) -> bool:
        names = [issued for issued, _ in self._issued]
        return names.index(name) < names.index("added")

    def _wait(self, block: int) -> list[Step]:
        if block in self._there:
            return []
        self._there.add(block)
        return [Wait(f"block_{block}_full", Staged(_THIS), Round(_THIS))]

    def _await(self, results: tuple[str, ...]) -> list[Step]:
        """Wait for products, and let go the blocks that nothing reads any more."""
        place = max(n for n, (name, _) in enumerate(self._issued) if name in results)
        later = {block for _, block in self._issued[place + 1 :]}
        later |= {s.block for n, s in enumerate(self._shape.sums) if f"sums_{n}" not in dict(self._issued)}
        later |= {self._shape.scores[n].block for n in self._waiting}
        gone = [n for n in range(len(self._shape.blocks)) if n not in later and n not in self._free]
        self._free += gone
        steps: list[Step] = [Await(len(self._issued) - place - 1, results)]
        if self._shape.added is None:
            steps += [Arrive(f"block_{n}_empty", Staged(_THIS)) for n in gone]
        elif gone and len(self._free) == len(self._shape.blocks):
            steps.append(Arrive(_ALL_EMPTY, Staged(_THIS)))
        return steps

    def _part(self, number: int) -> Step:
        kept = tuple(f"kept_{n}" for n in range(number))
        ahead = tuple(f"ahead_{n}" for n in range(number + 1) if n in self._shape.ahead)
        operands = tuple(f"operand_{n}" for n, sum_ in enumerate(self._shape.sums) if sum_.part == number)
        if self._shape.added is not None and self._shape.added.part == number:
            operands = (*operands, "shared_operand")
        box = Shared(f"vector_{number}", Staged(_THIS)) if number in self._waiting else None
        self._waiting.discard(number)
        reads, writes = (f"scores_{number}", *kept, *ahead), (f"kept_{number}", *operands)
        part = Compute(f"part_{number}", reads, writes, _THIS, box=box)
        return where_full(part, number in self._shape.masked)

    def _add(self, number: int, sum_: SumShape) -> list[Step]:
        waits = self._wait(sum_.block)
        block = Shared(f"block_{sum_.block}", Staged(_THIS), sum_.transposed)
        self._issued.append((f"sums_{number}", sum_.block))
        return [*waits, Multiply(f"sums_{number}", f"operand_{number}", block, adds=True)]
