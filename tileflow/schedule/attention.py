"""The schedule of two chained products with an online softmax between them, after FlashAttention-3 (Shah et al., 2024,
arXiv:2407.08608).

The producer streams keys and values. A turn of a consumer group issues this turn's scores together with the product of
the turn before, and computes its exponentials while that product is under way. What it loads by pointers for the keys
of a turn is on its way before they are waited for. With ``ping_pong`` one group has the
matrix units while the other is at its exponentials.

A program works on one tile, or walks over several: then the next tile's queries, keys and values are copied while this
one's last product, its finish and its store are under way.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    EachTile,
    IfAny,
    Multiply,
    OfGroup,
    Put,
    Repeat,
    Role,
    Round,
    Save,
    Schedule,
    Shared,
    Staged,
    Step,
    ThisTile,
    Turn,
    Wait,
    where_full,
)

# a thread's, by the number of groups, as setmaxnreg deals them out: of one group two programs share a multiprocessor
CONSUMER_REGISTERS = {1: 232, 2: 240, 3: 160, 4: 112}
PROGRAMS = {1: 2, 2: 1, 3: 1, 4: 1}
PRODUCER_REGISTERS = 24
_OWN, _OTHER = OfGroup(), OfGroup(after=1)
_THIS, _BEFORE, _FIRST, _LAST = Turn(), Turn(offset=-1), Turn("first"), Turn("last")


# what a program of this schedule calls its own; an author's number of such a name has none
NAMES = frozenset({
    "query", "key", "value", "out", "query_full", "query_empty", "start", "tile", "tiles", "band", "height", "plane",
    "key_full", "key_empty", "value_full", "value_empty", "order",
    "turns", "turn", "who", "scores", "weights", "operand", "sums", "result", "pid", "slot", "no_scores",
    "scores_under_way", "sums_under_way", "consumer", "producer", "ahead", "weigh", "weigh_full", "rescale",
    "narrow", "narrow_full", "finish",
    "mbarrier", "tma", "fence_async_shared", "warpgroup_mma", "warpgroup_mma_wait",
    "STAGES", "GROUPS", "ROWS", "BY_ROW", "AS_OPERAND",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """What the schedule needs to know of a region. ``query``, ``key``, ``value``, ``out``: boxes, of which the queries'
    has a group's rows; ``out`` is None where the result goes by pointers. ``key_transposed``: keys lie row by row, as
    queries do, so that the product reads them with dimensions swapped; ``value_transposed``: the values lie so;
    ``masked``: the parts of a turn that mask keys past the loop's end; ``ahead``: whether a turn's vectors are loaded
    before its products."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    element_bytes: int
    out: tuple[int, ...] | None = None
    out_bytes: int = 0
    key_transposed: bool = True
    value_transposed: bool = False
    masked: frozenset[str] = frozenset()
    ahead: bool = False


def attention(shape: Shape, groups: int, stages: int, ping_pong: bool, walks: bool = False) -> Schedule:
    """The schedule for ``groups`` consumer groups of 64 rows each, and rings of ``stages`` slots. ``walks``: a program
    works on several tiles, all of as many turns, of which there is one at least."""
    takes_turns = ping_pong and groups > 1
    shares_query = not walks and shape.out == shape.query and shape.out_bytes == shape.element_bytes
    buffers = [
        Buffer("query", shape.query, shape.element_bytes, groups, "group"),
        Buffer("key", shape.key, shape.element_bytes, stages, "stage"),
        Buffer("value", shape.value, shape.element_bytes, stages, "stage"),
    ]
    if shape.out is not None and not shares_query:
        buffers.append(Buffer("out", shape.out, shape.out_bytes, groups, "group"))
    barriers = [
        Barrier("query_full", groups, 1, "group", "a group's queries are there"),
        Barrier("key_full", stages, 1, "stage", "this turn's keys are there"),
        Barrier("key_empty", stages, groups, "stage", "all groups have multiplied by these keys"),
        Barrier("value_full", stages, 1, "stage", "this turn's values are there"),
        Barrier("value_empty", stages, groups, "stage", "all groups have multiplied by these values"),
    ]
    if walks:
        barriers.append(Barrier("query_empty", groups, 1, "group", "a group has multiplied all keys by its queries"))
    if takes_turns:
        barriers.append(Barrier("order", groups, 1, "group", "it is a group's turn at the matrix units"))
    program = _walking if walks else _of_one_tile
    consumer = Role(
        "consumer",
        groups,
        WARPS_OF_A_GROUP,
        CONSUMER_REGISTERS[groups],
        program(shape, takes_turns, "query" if shares_query else "out"),
    )
    filled: tuple[Step, ...] = (Repeat(0, (*_filled("key"), *_filled("value"))),)
    if walks:
        filled = (EachTile((*(step for g in range(groups) for step in _next_query(g)), *filled)),)
    else:
        filled = (*(Copy("query", OfGroup(number=g), "query_full") for g in range(groups)), *filled)
    producer = Role("producer", 1, 1, PRODUCER_REGISTERS, filled)
    return Schedule(producer, consumer, tuple(buffers), tuple(barriers), stages)


def _of_one_tile(shape: Shape, takes_turns: bool, out: str) -> tuple[Step, ...]:
    """A consumer's program for its only tile."""
    return (
        Compute("start", (), ("sums", "carried")),
        Wait("query_full", _OWN, Round(None)),
        IfAny((*_turns(shape, takes_turns), *_last_product(shape))),
        Compute("finish", ("sums", "carried"), ("result",)),
        *(() if shape.out is None else (Save("result", out, _OWN),)),
    )


def _walking(shape: Shape, takes_turns: bool, out: str) -> tuple[Step, ...]:
    """A consumer's program for one tile after the other. What the last turn holds is let go as soon as it can be."""
    return (
        EachTile(
            (
                Compute("start", (), ("sums", "carried"), _FIRST),
                Wait("query_full", _OWN, Round(ThisTile())),
                *_turns(shape, takes_turns),
                Arrive("query_empty", _OWN),
                *_last_product(shape),
                Arrive("value_empty", Staged(_LAST)),
                Compute("finish", ("sums", "carried"), ("result",), _LAST),
                *(() if shape.out is None else (AwaitPuts(), Put("result", out, _OWN, _FIRST))),
            )
        ),
        AwaitPuts(),
    )


def _next_query(group: int) -> tuple[Step, ...]:
    """The producer's steps for the queries of a tile of several."""
    slot = OfGroup(number=group)
    return Wait("query_empty", slot, Round(ThisTile(), behind=1)), Copy("query", slot, "query_full", _FIRST)


def rows_of(groups: int) -> int:
    """The block size of the queries."""
    return ROWS_OF_A_GROUP * groups


def _filled(name: str) -> tuple[Step, ...]:
    """The producer's steps for a ring: wait until the slot was let go, then fill it."""
    slot = Staged(_THIS)
    return Wait(f"{name}_empty", slot, Round(_THIS, behind=1)), Copy(name, slot, f"{name}_full", _THIS)


def _there(name: str, turn: Turn) -> Wait:
    return Wait(f"{name}_full", Staged(turn), Round(turn))


def _scores(shape: Shape, turn: Turn, in_order: bool = False) -> Multiply:
    keys = Shared("key", Staged(turn), shape.key_transposed)
    return Multiply("scores", Shared("query", _OWN), keys, adds=False, in_order=in_order)


def _sums(shape: Shape, turn: Turn, in_order: bool = False) -> Multiply:
    values = Shared("value", Staged(turn), shape.value_transposed)
    return Multiply("sums", "operand", values, adds=True, in_order=in_order)


def _ahead(shape: Shape, turn: Turn) -> tuple[Step, ...]:
    return (Compute("ahead", (), ("loaded",), turn),) if shape.ahead else ()


def _weigh(shape: Shape, turn: Turn) -> Step:
    reads = ("scores", "carried", *(("loaded",) if shape.ahead else ()))
    part = Compute("weigh", reads, ("weights", "carried", "factors"), turn)
    return where_full(part, "weigh" in shape.masked)


def _rescale(turn: Turn) -> Compute:
    return Compute("rescale", ("sums", "factors"), ("sums",), turn)


def _narrow(shape: Shape, turn: Turn) -> Step:
    return where_full(Compute("narrow", ("weights",), ("operand",), turn), "narrow" in shape.masked)


def _turns(shape: Shape, takes_turns: bool) -> tuple[Step, ...]:
    """All turns of a tile, without the last one's second product."""
    return (*_first_turn(shape, takes_turns), Repeat(1, _later_turn(shape, takes_turns)))


def _first_turn(shape: Shape, takes_turns: bool) -> tuple[Step, ...]:
    comes, goes = _in_order(_FIRST) if takes_turns else ((), ())
    return (
        *_ahead(shape, _FIRST),
        *comes,
        _there("key", _FIRST),
        _scores(shape, _FIRST, takes_turns),
        *goes,
        Await(0, ("scores",)),
        Arrive("key_empty", Staged(_FIRST)),
        _weigh(shape, _FIRST),
        _rescale(_FIRST),
        _narrow(shape, _FIRST),
        _there("value", _FIRST),
    )


def _later_turn(shape: Shape, takes_turns: bool) -> tuple[Step, ...]:
    """The wait for this turn's values stands between the exponentials and the wait for the product: without it the
    assembler moves the exponentials behind that wait, and nothing is left to overlap."""
    comes, goes = _in_order(_THIS) if takes_turns else ((), ())
    return (
        *_ahead(shape, _THIS),
        *comes,
        _there("key", _THIS),
        _scores(shape, _THIS, takes_turns),
        _sums(shape, _BEFORE, takes_turns),
        *goes,
        Await(1, ("scores",)),
        Arrive("key_empty", Staged(_THIS)),
        _weigh(shape, _THIS),
        _there("value", _THIS),
        Await(0, ("sums",), ("weights",)),
        Arrive("value_empty", Staged(_BEFORE)),
        _rescale(_THIS),
        _narrow(shape, _THIS),
    )


def _in_order(turn: Turn) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """What stands before and behind the products of a turn that groups issue one after the other."""
    return (Wait("order", _OWN, Round(turn, head_start=1)),), (Arrive("order", _OTHER, hands_over=True),)


def _last_product(shape: Shape) -> tuple[Step, ...]:
    return (_sums(shape, _LAST), Await(0, ("sums",)))
