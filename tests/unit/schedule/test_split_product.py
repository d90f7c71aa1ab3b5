"""The schedule of a float32 product in parts: right ones pass whatever the interleaving, planted faults are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels.product_bodies import COLUMNS, INNER, ROWS, Plain
from tile_testing.kernels.schedule_bodies import edited

from tileflow.schedule.evaluate_split import added
from tileflow.schedule.execute import execute, interleavings
from tileflow.schedule.machine import ScheduleFault, as_tf32
from tileflow.schedule.product import Shape
from tileflow.schedule.split_product import split_product
from tileflow.schedule.types import (
    Arrive,
    Await,
    Compute,
    Multiply,
    Round,
    Schedule,
    Split,
    Staged,
    Step,
    Turn,
    Wait,
    steps_of,
)

LAYOUTS = {  # of the left and the right box: along the inner dimension or across it
    "NN": (False, False),
    "NT": (False, True),
    "TN": (True, False),
    "TT": (True, True),
}


def made(layout: str = "NT", stages: int = 2, groups: int = 2) -> Schedule:
    left, right = LAYOUTS[layout]
    boxes = (INNER, ROWS) if left else (ROWS, INNER), (COLUMNS, INNER) if right else (INNER, COLUMNS)
    shape = Shape(*boxes, 4, (64, 64), 4, left_transposed=left, right_transposed=right, sums=64)
    return split_product(shape, groups, stages)


class InParts(Plain):
    """``act(left @ right.T)`` of float32 numbers, boxes as they lie in memory."""

    def __init__(self, schedule: Schedule, tiles: int, turns: int, layout: str) -> None:
        super().__init__(schedule, tiles, turns)
        self._turned = {"left": LAYOUTS[layout][0], "right": not LAYOUTS[layout][1]}

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        found = super().box(buffer, turn, group)
        return found.mT if self._turned[buffer] else found

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        if part == "begin":
            return {"sums": torch.zeros(ROWS, COLUMNS)}
        return added(part, registers) or super().compute(part, registers, turn, group)


def run(schedule: Schedule, layout: str = "NT", tiles: int = 3, turns: int = 3) -> None:
    for _, choose in interleavings(seeds=3):
        body = InParts(schedule, tiles, turns, layout)
        execute(schedule, body, turns, choose, tiles)
        torch.testing.assert_close(body.stored, body.expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_right_schedules_pass_under_every_interleaving(layout: str, stages: int) -> None:
    for tiles, turns in ((0, 1), (2, 5), (5, 2), (7, 1)):
        run(made(layout, stages), layout, tiles, turns)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_group_alone(layout: str) -> None:
    run(made(layout, groups=1), layout, 3, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_boxes_that_are_turned_come_last(layout: str) -> None:
    """The splitter's warps meet before they write over a box: what needs no such barrier is done by then."""
    splitter = made(layout).splitter
    assert splitter is not None
    across = [s.turns for s in steps_of(splitter.program) if isinstance(s, Split)]
    assert across == sorted(across) and len(across) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_part_alone_is_no_float32_product(layout: str) -> None:
    """What the executor multiplies is what the matrix units read: without the low parts the result is off."""

    def without(step: Step) -> tuple[Step, ...]:
        return () if isinstance(step, Compute) and step.part == "add_small" else (step,)

    with pytest.raises(AssertionError):
        run(edited(made(layout), "consumer", without), layout)


def test_parts_are_what_the_matrix_units_read() -> None:
    numbers = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    high = as_tf32(numbers)
    assert torch.equal(as_tf32(high), high) and not torch.equal(high, numbers)
    assert float(((numbers - high) / numbers).abs().max()) < 2**-10


def test_what_is_infinite_stays_so_and_hides_nothing() -> None:
    """Infinity by the low part of 1, which is zero, is no number: such small sums count as zero."""
    schedule = made()
    body = InParts(schedule, 1, 2, "NT")
    body.right[:] = 1.0
    body.left[0, 0, 0, 0, 0] = torch.inf
    body.left[0, 1, 0, 1, 0] = torch.nan
    for _, choose in interleavings(seeds=1):
        execute(schedule, body, 2, choose, 1)
        assert body.stored[0, 0, 0].isposinf().all() and body.stored[0, 1, 1].isnan().all()
        assert body.stored[0, 0, 1:].isfinite().all()


def _without(schedule: Schedule, role: str, is_it: Callable[[Step], bool]) -> Schedule:
    found = edited(schedule, role, lambda s: () if is_it(s) else (s,))
    assert found != schedule
    return found


def _boxes_are_split_before_they_are_there(s: Schedule) -> Schedule:
    return _without(s, "splitter", lambda x: isinstance(x, Wait))


def _parts_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: isinstance(x, Wait))


def _boxes_in_place_of_parts(s: Schedule) -> Schedule:
    """A group waits for the boxes, and multiplies by parts that may not be there."""
    return edited(s, "consumer", lambda x: (replace(x, barrier="full"),) if isinstance(x, Wait) else (x,))


def _said_before_it_is_split(s: Schedule) -> Schedule:
    """The boxes after the first one are split after the groups were told."""
    assert s.splitter is not None
    first = next(step for step in steps_of(s.splitter.program) if isinstance(step, Split))

    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Arrive):
            return ()
        return (step, Arrive("split", Staged(Turn()))) if step == first else (step,)

    return edited(s, "splitter", change)


def _one_group_is_enough_to_free_a_slot(s: Schedule) -> Schedule:
    return replace(s, barriers=tuple(replace(b, arrivals=1) if b.name == "empty" else b for b in s.barriers))


def _free_before_the_large_product_is_over(s: Schedule) -> Schedule:
    gone = Arrive("empty", Staged(Turn()))

    def change(step: Step) -> tuple[Step, ...]:
        if step == gone:
            return ()
        return (gone, step) if step == Await(0, ("large",)) else (step,)

    return edited(s, "consumer", change)


def _small_sums_are_read_while_they_are_made(s: Schedule) -> Schedule:
    return edited(s, "consumer", lambda x: (Await(2, ()),) if x == Await(1, ("small",)) else (x,))


def _large_products_are_begun_anew_before_they_were_read(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: x == Await(0, ("large",)))


def _the_splitter_a_round_behind(s: Schedule) -> Schedule:
    late = Round(Turn(), behind=1)
    return edited(s, "splitter", lambda x: (replace(x, round=late),) if isinstance(x, Wait) else (x,))


def _low_parts_of_the_turn_before(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Multiply) and step.adds:
            return (replace(step, right=replace(step.right, slot=Staged(Turn(offset=-1)))),)
        return (step,)

    return edited(s, "consumer", change)


FAULTS = {
    _boxes_are_split_before_they_are_there: {"early", "race", "stale"},
    _parts_are_not_waited_for: {"early", "stale", "race"},
    _boxes_in_place_of_parts: {"early", "stale", "race"},
    _said_before_it_is_split: {"early", "stale", "race"},
    _one_group_is_enough_to_free_a_slot: {"race", "stale", "early", "deadlock"},
    _free_before_the_large_product_is_over: {"race"},
    _small_sums_are_read_while_they_are_made: {"early"},
    _large_products_are_begun_anew_before_they_were_read: {"early", "race", "deadlock"},
    _the_splitter_a_round_behind: {"early", "stale", "race", "deadlock"},
    _low_parts_of_the_turn_before: {"early", "stale"},
}


@pytest.mark.parametrize("layout", ["NT", "NN"])
@pytest.mark.parametrize("plant", FAULTS, ids=lambda f: f.__name__)
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule], layout: str) -> None:
    schedule, kinds = plant(made(layout)), set[str]()
    for _, choose in interleavings(seeds=5):
        body = InParts(schedule, 3, 4, layout)
        try:
            execute(schedule, body, 4, choose, 3)
        except ScheduleFault as fault:
            kinds.add(fault.kind)
    assert kinds and kinds <= FAULTS[plant]
