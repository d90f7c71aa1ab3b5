"""The schedule of a loop of gradients, after FlashAttention-3's (Shah et al., 2024, arXiv:2407.08608).

The producer fills what each group holds, and streams blocks. A turn of a consumer group issues all its scores, computes
what follows from the first one beside the other one's product, issues each sum as soon as its operand is in registers,
and computes what follows from the second score beside that. What lies beside the blocks is loaded a turn ahead. What is
left to wait for at a turn's end is for the other group to fill.
"""

from __future__ import annotations

from dataclasses import dataclass

from .attention import CONSUMER_REGISTERS, PRODUCER_REGISTERS
from .types import (
    WARPS_OF_A_GROUP,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Compute,
    Copy,
    IfAny,
    Multiply,
    OfGroup,
    Repeat,
    Role,
    Round,
    Save,
    Schedule,
    Shared,
    Staged,
    Step,
    Turn,
    Wait,
    where_full,
)

_OWN, _THIS = OfGroup(), Turn()
_MOST = 4  # of a kind: blocks of two scores and two sums

# what a program of this schedule calls its own; an author's number of such a name has none
NAMES = frozenset({
    *(f"{word}_{n}{more}" for n in range(_MOST) for word, more in (
        ("held", ""), ("held", "_full"), ("block", ""), ("block", "_full"), ("block", "_empty"), ("out", ""),
        ("scores", ""), ("no_scores", ""), ("scores", "_under_way"), ("sums", ""), ("sums", "_under_way"),
        ("operand", ""), ("result", ""), ("ahead_of", ""), ("part", ""), ("part", "_full"),
    )),
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
class Shape:
    """What the schedule needs to know of a region. ``ahead``: the parts that something is loaded ahead for; ``masked``:
    those that mask lanes past the loop's end."""

    held: tuple[Box, ...]
    blocks: tuple[Box, ...]
    scores: tuple[ScoreShape, ...]
    sums: tuple[SumShape, ...]
    saved: tuple[Box, ...] = ()
    ahead: tuple[int, ...] = ()
    masked: frozenset[int] = frozenset()


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
            *(Wait(f"held_{n}_full", _OWN, Round(None)) for n in range(len(shape.held))),
            IfAny(
                (
                    *(_loaded_ahead(n, Turn("first")) for n in shape.ahead),
                    Repeat(0, tuple(_Turn(shape).steps())),
                )
            ),
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
            Repeat(0, tuple(step for n in range(len(shape.blocks)) for step in _filled(f"block_{n}"))),
        ),
    )
    return Schedule(producer, consumer, _buffers(shape, groups, stages), _barriers(shape, groups, stages), stages)


def saved_in(shape: Shape, number: int) -> str:
    """The buffer that a result goes through: what the group held, which nobody reads any more, or one of its own."""
    box = shape.saved[number]
    fits = number < len(shape.held) and (shape.held[number].shape, shape.held[number].element_bytes)
    return f"held_{number}" if fits == (box.shape, box.element_bytes) else f"out_{number}"


def _loaded_ahead(part: int, turn: Turn) -> Compute:
    """What a part reads beside the blocks: nothing waits for it, a turn before it is needed."""
    return Compute(f"ahead_of_{part}", (), (f"ahead_{part}",), turn)


def _buffers(shape: Shape, groups: int, stages: int) -> tuple[Buffer, ...]:
    own = [n for n in range(len(shape.saved)) if saved_in(shape, n).startswith("out")]
    return (
        *(Buffer(f"held_{n}", b.shape, b.element_bytes, groups, "group") for n, b in enumerate(shape.held)),
        *(Buffer(f"block_{n}", b.shape, b.element_bytes, stages, "stage") for n, b in enumerate(shape.blocks)),
        *(Buffer(f"out_{n}", shape.saved[n].shape, shape.saved[n].element_bytes, groups, "group") for n in own),
    )


def _barriers(shape: Shape, groups: int, stages: int) -> tuple[Barrier, ...]:
    found = [
        Barrier(f"held_{n}_full", groups, 1, "group", f"a group's rows of {box.name} are there")
        for n, box in enumerate(shape.held)
    ]
    for n, box in enumerate(shape.blocks):
        found.append(Barrier(f"block_{n}_full", stages, 1, "stage", f"this turn's {box.name} is there"))
        found.append(
            Barrier(f"block_{n}_empty", stages, groups, "stage", f"all groups have multiplied by this {box.name}")
        )
    return tuple(found)


def _filled(name: str) -> tuple[Step, ...]:
    """The producer's steps for a ring: wait until the slot was let go, then fill it."""
    slot = Staged(_THIS)
    return Wait(f"{name}_empty", slot, Round(_THIS, behind=1)), Copy(name, slot, f"{name}_full", _THIS)


class _Turn:
    """The steps of a consumer's turn.

    Products end in the order in which they were issued, so that a wait for one is a wait for all before it. No product
    is under way from one turn to the next: with sums that were (and their left operands in registers), ptxas waited for
    each instruction of all products (its advice C7512).
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._issued: list[tuple[str, int]] = []  # products of this turn, with their blocks
        self._there: set[int] = set()  # blocks that were waited for
        self._free: list[int] = []  # blocks that were let go

    def steps(self) -> list[Step]:
        shape, found = self._shape, list[Step]()
        for n, score in enumerate(shape.scores):
            found += self._wait(score.block)
            block = Shared(f"block_{score.block}", Staged(_THIS), score.transposed)
            found.append(Multiply(f"scores_{n}", Shared(f"held_{score.held}", _OWN), block, adds=False))
            self._issued.append((f"scores_{n}", score.block))
        for n in range(len(shape.scores)):
            found += [*self._await((f"scores_{n}",)), self._part(n)]
            for number, sum_ in enumerate(shape.sums):
                if sum_.part == n:
                    found += self._add(number, sum_)
        found += [_loaded_ahead(n, Turn("next")) for n in shape.ahead]
        return [*found, *self._await(tuple(f"sums_{n}" for n in range(len(shape.sums))))]

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
        gone = [n for n in range(len(self._shape.blocks)) if n not in later and n not in self._free]
        self._free += gone
        return [
            Await(len(self._issued) - place - 1, results),
            *(Arrive(f"block_{n}_empty", Staged(_THIS)) for n in gone),
        ]

    def _part(self, number: int) -> Step:
        kept = tuple(f"kept_{n}" for n in range(number))
        ahead = tuple(f"ahead_{n}" for n in range(number + 1) if n in self._shape.ahead)
        operands = tuple(f"operand_{n}" for n, sum_ in enumerate(self._shape.sums) if sum_.part == number)
        part = Compute(f"part_{number}", (f"scores_{number}", *kept, *ahead), (f"kept_{number}", *operands), _THIS)
        return where_full(part, number in self._shape.masked)

    def _add(self, number: int, sum_: SumShape) -> list[Step]:
        waits = self._wait(sum_.block)
        block = Shared(f"block_{sum_.block}", Staged(_THIS), sum_.transposed)
        self._issued.append((f"sums_{number}", sum_.block))
        return [*waits, Multiply(f"sums_{number}", f"operand_{number}", block, adds=True)]
