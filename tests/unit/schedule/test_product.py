"""The schedule of one product: right ones pass whatever the interleaving, planted protocol faults are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tile_testing.kernels.product_bodies import (
    BESIDE,
    BESIDE_POINTERS,
    POINTERS,
    Beside,
    BesideByPointers,
    ByPointers,
    Plain,
    made,
)
from tile_testing.kernels.schedule_bodies import edited

from tileflow.schedule.execute import execute, interleavings
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.product import Shape
from tileflow.schedule.types import (
    Arrive,
    Await,
    AwaitPuts,
    Compute,
    Copy,
    Cut,
    Multiply,
    Put,
    Repeat,
    Round,
    Schedule,
    Staged,
    Step,
    Turn,
    Wait,
)


@pytest.mark.parametrize(("groups", "ping_pong"), [(1, False), (2, False), (2, True), (3, True)])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_right_schedules_pass_under_every_interleaving(groups: int, ping_pong: bool, stages: int) -> None:
    for tiles, turns in ((0, 1), (2, 5), (5, 2), (7, 1)):
        for _, choose in interleavings(seeds=2):
            schedule = made(groups, stages, ping_pong)
            body = Plain(schedule, tiles, turns)
            execute(schedule, body, turns, choose, tiles)
            torch.testing.assert_close(body.stored, body.expected)


@pytest.mark.parametrize("ping_pong", [False, True])
def test_results_by_pointers_need_no_buffer(ping_pong: bool) -> None:
    schedule = made(ping_pong=ping_pong, shape=POINTERS)
    assert [b.name for b in schedule.buffers] == ["left", "right"]
    body = ByPointers(schedule, 3, 4)
    for _, choose in interleavings(seeds=2):
        execute(schedule, body, 4, choose, 3)
        torch.testing.assert_close(body.stored, body.expected)


def test_a_ring_of_one_slot_is_a_deadlock() -> None:
    """A turn issues its product before it lets go of the box of the turn before, which lies in the only slot."""
    assert _kinds(made(stages=1)) == {"deadlock"}


def _without(schedule: Schedule, role: str, is_it: Callable[[Step], bool]) -> Schedule:
    return edited(schedule, role, lambda s: () if is_it(s) else (s,))


def _changed(schedule: Schedule, role: str, change: Callable[[Step], Step]) -> Schedule:
    return edited(schedule, role, lambda s: (change(s),))


def _never_let_go(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: isinstance(x, Arrive) and x.barrier == "empty")


def _the_last_slot_of_a_tile_is_kept(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: x == Arrive("empty", Staged(Turn("last"))))


def _let_go_before_the_product_is_over(s: Schedule) -> Schedule:
    """The slot of the turn before goes before the product that reads it was awaited."""

    def change(step: Step) -> Step:
        if not isinstance(step, Repeat):
            return step
        *others, awaited, gone = step.steps
        return replace(step, steps=(*others, gone, awaited))

    return _changed(s, "consumer", change)


def _let_go_before_the_last_product_is_over(s: Schedule) -> Schedule:
    gone = Arrive("empty", Staged(Turn("last")))
    without = _without(s, "consumer", lambda x: x == gone)
    return edited(without, "consumer", lambda x: (gone, x) if x == Await(0, ("sums",)) else (x,))


def _boxes_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: isinstance(x, Wait) and x.barrier == "full")


def _one_box_is_enough(s: Schedule) -> Schedule:
    """The round ends with the first box."""
    return replace(s, barriers=tuple(replace(b, arrivals=1) if b.name == "full" else b for b in s.barriers))


def _wrong_phase_of_the_producer(s: Schedule) -> Schedule:
    return _changed(s, "producer", lambda x: replace(x, round=Round(Turn())) if isinstance(x, Wait) else x)


def _rings_begin_anew_with_each_tile(s: Schedule) -> Schedule:
    """The first turn of every tile is looked for in the first slot."""
    first = Turn("first")

    def change(step: Step) -> Step:
        if isinstance(step, Multiply) and step.right.slot == Staged(first):
            return replace(step, right=replace(step.right, slot=Staged(Turn("first", offset=1))))
        return step

    return _changed(s, "consumer", change)


def _no_order(s: Schedule) -> Schedule:
    """A group looks for its boxes while those of the tile before are still in the ring: parities repeat."""
    return _without(s, "consumer", lambda x: isinstance(x, Wait | Arrive) and x.barrier == "order")


def _no_handing_over(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: isinstance(x, Arrive) and x.barrier == "order")


def _no_head_start(s: Schedule) -> Schedule:
    return _changed(s, "consumer",
                    lambda x: replace(x, round=replace(x.round, head_start=0))
                    if isinstance(x, Wait) and x.barrier == "order" else x)  # fmt: skip


def _results_are_overwritten(s: Schedule) -> Schedule:
    """A piece is put into a slot that the copy engine still reads the one before from."""
    return _without(s, "consumer", lambda x: isinstance(x, AwaitPuts))


def _the_last_result_is_not_awaited(s: Schedule) -> Schedule:
    *others, last = s.consumer.program
    assert isinstance(last, AwaitPuts)
    return replace(s, consumer=replace(s.consumer, program=tuple(others)))


def _groups_share_a_slot_for_results(s: Schedule) -> Schedule:
    out = [replace(b, slots=1) if b.name == "out" else b for b in s.buffers]
    return replace(s, buffers=tuple(out))


def _sums_are_read_too_early(s: Schedule) -> Schedule:
    return _changed(s, "consumer", lambda x: replace(x, pending=1) if x == Await(0, ("sums",)) else x)


# by planted fault, what it shows as under some interleaving
FAULTS = {
    _never_let_go: "deadlock",
    _the_last_slot_of_a_tile_is_kept: "deadlock",
    _let_go_before_the_product_is_over: "race",
    _let_go_before_the_last_product_is_over: "race",
    _boxes_are_not_waited_for: "early",
    _one_box_is_enough: "early",
    _wrong_phase_of_the_producer: "deadlock",
    _rings_begin_anew_with_each_tile: "stale",
    _no_order: "early",
    _no_handing_over: "deadlock",
    _no_head_start: "deadlock",
    _results_are_overwritten: "race",
    _the_last_result_is_not_awaited: "unfinished",
    _groups_share_a_slot_for_results: "race",
    _sums_are_read_too_early: "early",
}


def _kinds(schedule: Schedule, of: type[Plain] = Plain) -> set[str]:
    """The kinds of the faults that the interleavings find."""
    found = set()
    for tiles, turns in ((5, 2), (4, 5)):
        for _, choose in interleavings(seeds=4):
            try:
                execute(schedule, of(schedule, tiles, turns), turns, choose, tiles)
            except ScheduleFault as fault:
                found.add(fault.kind)
    return found


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    assert FAULTS[plant] in _kinds(plant(made()))


@pytest.mark.parametrize("stages", [2, 3])
def test_slots_are_let_go_by_all_groups_that_share_them(stages: int) -> None:
    """Of a tile whose rows two groups share, the first one must not let go for both."""
    schedule = made(stages=stages, ping_pong=False)
    early = replace(
        schedule, barriers=tuple(replace(b, arrivals=1) if b.name == "empty" else b for b in schedule.barriers)
    )
    assert "race" in _kinds(early) and not _kinds(schedule)


def test_a_result_is_cut_into_pieces_that_fit_their_slot() -> None:
    schedule = made()
    puts = [s for s in schedule.consumer.program[0].steps if isinstance(s, Put)]  # type: ignore[union-attr]
    assert [p.piece for p in puts] == [0, 1]
    assert schedule.buffer("out").shape == (64, 128) and schedule.buffer("out").slot_bytes == 16384


# ---- two products of one left operand -------------------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "ping_pong"), [(1, False), (2, False), (2, True), (3, True)])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("shape", "body_of"), [(BESIDE, Beside), (BESIDE_POINTERS, BesideByPointers)])
def test_two_products_are_one_of_right_operands_beside_each_other(
    groups: int, ping_pong: bool, stages: int, shape: Shape, body_of: type[Beside]
) -> None:
    schedule = made(groups, stages, ping_pong, shape)
    for tiles, turns in ((0, 1), (2, 5), (5, 2), (7, 1)):
        for _, choose in interleavings(seeds=2):
            body = body_of(schedule, tiles, turns)
            execute(schedule, body, turns, choose, tiles)
            torch.testing.assert_close(body.stored, body.expected)


def test_right_operands_lie_beside_each_other_in_a_slot() -> None:
    right = made(shape=BESIDE).buffer("right")
    assert right.shape == (8, 4) and right.slot_shape == (16, 4) and right.slot_bytes == 2 * right.box_bytes == 128
    turned = replace(BESIDE, right=(4, 8), right_transposed=False)
    assert made(shape=turned).buffer("right").slot_shape == (4, 16)


def _is_second(step: Step) -> bool:
    return isinstance(step, Copy) and isinstance(step.slot, Staged) and step.slot.part == 1


def _one_part_is_not_copied(s: Schedule) -> Schedule:
    return _without(s, "producer", _is_second)


def _one_part_is_neither_copied_nor_awaited(s: Schedule) -> Schedule:
    return _one_part_is_not_awaited(_one_part_is_not_copied(s))


def _one_part_is_not_awaited(s: Schedule) -> Schedule:
    """The round of ``full`` ends when all boxes but one are on their way, and the bytes so far are there."""
    return replace(
        s, barriers=tuple(replace(b, arrivals=b.arrivals - 1) if b.name == "full" else b for b in s.barriers)
    )


def _one_part_is_of_the_turn_before(s: Schedule) -> Schedule:
    return _changed(
        s, "producer", lambda x: replace(x, turn=Turn(offset=-1)) if isinstance(x, Copy) and _is_second(x) else x
    )


def _one_part_goes_to_the_next_slot(s: Schedule) -> Schedule:
    there = Staged(Turn(offset=1), part=1)
    return _changed(s, "producer", lambda x: replace(x, slot=there) if isinstance(x, Copy) and _is_second(x) else x)


def _both_parts_go_to_one_place(s: Schedule) -> Schedule:
    there = Staged(Turn(), part=0)
    return _changed(s, "producer", lambda x: replace(x, slot=there) if isinstance(x, Copy) and _is_second(x) else x)


FAULTS_OF_PARTS = {
    _one_part_is_not_copied: "deadlock",
    _one_part_is_neither_copied_nor_awaited: "early",
    _one_part_is_not_awaited: "early",
    _one_part_is_of_the_turn_before: "stale",
    _one_part_goes_to_the_next_slot: "stale",
    _both_parts_go_to_one_place: "race",
    **FAULTS,
}


@pytest.mark.parametrize("plant", FAULTS_OF_PARTS, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_of_two_products_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    assert FAULTS_OF_PARTS[plant] in _kinds(plant(made(shape=BESIDE)), Beside)


def test_a_piece_has_the_same_columns_of_each_product() -> None:
    schedule = made(shape=BESIDE)
    (cut,) = (s for s in schedule.consumer.program[0].steps if isinstance(s, Cut))  # type: ignore[union-attr]
    parts = [s for s in schedule.consumer.program[0].steps if isinstance(s, Compute)]  # type: ignore[union-attr]
    assert cut.pieces == ("sums_0", "sums_1", "sums_2", "sums_3")
    assert [p.reads for p in parts] == [("sums_0", "sums_2"), ("sums_1", "sums_3")]

    def others(step: Step) -> Step:
        return replace(step, reads=cut.pieces[2 * (step.piece or 0) :][:2]) if isinstance(step, Compute) else step

    wrong = _changed(schedule, "consumer", others)
    body = Beside(wrong, 2, 3)
    execute(wrong, body, 3, next(choose for _, choose in interleavings(seeds=1)), 2)
    assert (body.stored - body.expected).abs().max() > 0.5
