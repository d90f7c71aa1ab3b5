"""The schedule of a product whose operand is computed: right ones pass, planted protocol faults are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels.product_bodies import COLUMNS, INNER, ROWS, Plain
from tile_testing.kernels.schedule_bodies import edited

from tileflow.schedule.computed_product import computed_product
from tileflow.schedule.execute import execute, interleavings
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.product import Shape
from tileflow.schedule.types import (
    Arrive,
    Await,
    Compute,
    Copy,
    Multiply,
    Repeat,
    Round,
    Schedule,
    Shared,
    Staged,
    Step,
    Take,
    Turn,
    Wait,
)

SHAPE = Shape((ROWS, INNER), (COLUMNS, INNER), 2, (64, 256), 2, right_transposed=True, sums=128, left_bytes=1,
              out_transposed=True)  # fmt: skip


def made(groups: int = 2, stages: int = 3, ping_pong: bool = False) -> Schedule:
    return computed_product(SHAPE, groups, stages, ping_pong)


class Cubed(Plain):
    """``act(left ** 3 @ right.T)``: the left operand is computed from its box."""

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        if part == "prepare":
            return {"computed": registers["left"] ** 3}
        return super().compute(part, registers, turn, group)

    @property
    def expected(self) -> torch.Tensor:
        return torch.einsum("pgtri,ptci->pgrc", self.left**3, self.right).relu()


@pytest.mark.parametrize(("groups", "ping_pong"), [(1, False), (2, False), (2, True), (3, True)])
@pytest.mark.parametrize("stages", [2, 3])
def test_right_schedules_pass_under_every_interleaving(groups: int, ping_pong: bool, stages: int) -> None:
    for tiles, turns in ((0, 1), (2, 5), (5, 2), (7, 1)):
        for _, choose in interleavings(seeds=2):
            schedule = made(groups, stages, ping_pong)
            body = Cubed(schedule, tiles, turns)
            execute(schedule, body, turns, choose, tiles)
            torch.testing.assert_close(body.stored, body.expected)


def test_a_ring_of_one_slot_is_a_deadlock() -> None:
    """The next operand is computed before the product of the one in front of it is over."""
    assert _kinds(made(stages=1)) == {"deadlock"}


def _without(schedule: Schedule, is_it: Callable[[Step], bool]) -> Schedule:
    return edited(schedule, "consumer", lambda s: () if is_it(s) else (s,))


def _changed(schedule: Schedule, change: Callable[[Step], Step], role: str = "consumer") -> Schedule:
    return edited(schedule, role, lambda s: (change(s),))


def _computed_where_the_product_reads(s: Schedule) -> Schedule:
    """The next operand overwrites the registers of the product under way."""

    def change(step: Step) -> Step:
        return replace(step, left="computed") if isinstance(step, Multiply) else step

    return _without(_changed(s, change), lambda x: isinstance(x, Take))


def _moved_before_the_product_is_over(s: Schedule) -> Schedule:
    take = Take("computed", "operand")

    def change(step: Step) -> Step:
        if not isinstance(step, Repeat):
            return step
        others = [x for x in step.steps if x != take]
        place = next(n for n, x in enumerate(others) if isinstance(x, Await))
        return replace(step, steps=(*others[:place], take, *others[place:]))

    return _changed(s, change)


def _two_products_under_way(s: Schedule) -> Schedule:
    """As a product of boxes has it: one set of operand registers is too few for that."""
    return _changed(s, lambda x: Await(1, (), unfinished=("sums",)) if isinstance(x, Await) and x.keeps else x)


def _packed_boxes_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, lambda x: isinstance(x, Wait) and x.barrier == "left_full")


def _right_boxes_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, lambda x: isinstance(x, Wait) and x.barrier == "right_full")


def _one_groups_box_is_enough(s: Schedule) -> Schedule:
    return replace(s, barriers=tuple(replace(b, arrivals=1) if b.name == "left_full" else b for b in s.barriers))


def _let_go_once_the_operand_is_computed(s: Schedule) -> Schedule:
    """The packed box has been read, but the product has not begun to read the other one."""
    gone = Arrive("empty", Staged(Turn()))

    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Arrive) and step.slot == Staged(Turn(offset=-1)):
            return ()
        return (step, gone) if step == Take("computed", "operand") else (step,)

    return _without(edited(s, "consumer", change), lambda x: x == Arrive("empty", Staged(Turn("last"))))


def _the_box_of_the_turn_before(s: Schedule) -> Schedule:
    def change(step: Step) -> Step:
        if isinstance(step, Compute) and isinstance(step.box, Shared) and step.turn == Turn():
            assert isinstance(step.box.slot, Staged)
            slot = replace(step.box.slot, turn=Turn(offset=-1))
            return replace(step, box=replace(step.box, slot=slot))
        return step

    found = _changed(s, change)
    assert found != s
    return found


def _the_right_box_of_the_turn_before(s: Schedule) -> Schedule:
    def change(step: Step) -> Step:
        if isinstance(step, Copy) and step.buffer == "right":
            return replace(step, turn=Turn(offset=-1))
        return step

    return _changed(s, change, "producer")


def _never_let_go(s: Schedule) -> Schedule:
    return _without(s, lambda x: isinstance(x, Arrive) and x.barrier == "empty")


def _wrong_phase_of_the_producer(s: Schedule) -> Schedule:
    return _changed(s, lambda x: replace(x, round=Round(Turn())) if isinstance(x, Wait) else x, "producer")


def _the_last_product_is_not_awaited(s: Schedule) -> Schedule:
    return _without(s, lambda x: x == Await(0, ("sums",)))


def _nothing_is_moved(s: Schedule) -> Schedule:
    """The product of a turn reads the first one's operand."""

    def change(step: Step) -> Step:
        if not isinstance(step, Repeat):
            return step
        return replace(step, steps=tuple(x for x in step.steps if not isinstance(x, Take)))

    return _changed(s, change)


# by planted fault, what it shows as under some interleaving; "values": nothing but a wrong result
FAULTS = {
    _computed_where_the_product_reads: "race",
    _moved_before_the_product_is_over: "race",
    _two_products_under_way: "race",
    _packed_boxes_are_not_waited_for: "early",
    _right_boxes_are_not_waited_for: "early",
    _one_groups_box_is_enough: "early",
    _let_go_once_the_operand_is_computed: "race",
    _the_box_of_the_turn_before: "values",
    _the_right_box_of_the_turn_before: "stale",
    _never_let_go: "deadlock",
    _wrong_phase_of_the_producer: "deadlock",
    _the_last_product_is_not_awaited: "early",
    _nothing_is_moved: "values",
}


def _kinds(schedule: Schedule) -> set[str]:
    """What the interleavings find."""
    found = set()
    for tiles, turns in ((5, 2), (4, 5)):
        for _, choose in interleavings(seeds=4):
            body = Cubed(schedule, tiles, turns)
            try:
                execute(schedule, body, turns, choose, tiles)
            except ScheduleFault as fault:
                found.add(fault.kind)
            else:
                if not torch.allclose(body.stored, body.expected, atol=1e-4):
                    found.add("values")
    return found


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    assert FAULTS[plant] in _kinds(plant(made()))


def test_groups_with_tiles_of_their_own_keep_their_order() -> None:
    """Without it a group mistakes an earlier round of the ring for its own."""
    schedule = made(ping_pong=True)
    broken = _without(schedule, lambda x: isinstance(x, Wait | Arrive) and x.barrier == "order")
    assert not _kinds(schedule) and {"early", "stale"} & _kinds(broken)


def test_the_wait_for_the_right_box_stands_behind_the_computing() -> None:
    """It is what keeps the computing in front of the wait for the product, in the machine code too."""
    (repeat,) = (s for s in made().consumer.program[0].steps if isinstance(s, Repeat))  # type: ignore[union-attr]
    kinds = [type(s) for s in repeat.steps]
    assert kinds == [Wait, Compute, Wait, Await, Arrive, Take, Multiply]


def test_a_turned_result_is_cut_along_the_rows_of_its_box() -> None:
    assert made().buffer("out").shape == (32, 256) and SHAPE.pieces == 2
