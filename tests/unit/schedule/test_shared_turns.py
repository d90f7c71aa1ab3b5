"""Turns that blocks of a cluster share: right schedules pass under any interleaving, planted faults are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from tile_testing.kernels.product_bodies import COLUMNS, INNER, ROWS, Plain
from tile_testing.kernels.schedule_bodies import edited

from tileflow.schedule.evaluate_split import added
from tileflow.schedule.execute import NASTY_BLOCKS, execute_cluster, interleavings
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.product import Shape, product
from tileflow.schedule.shared_turns import given_bytes
from tileflow.schedule.split_product import split_product
from tileflow.schedule.types import (
    ArriveCluster,
    Await,
    Compute,
    Give,
    Join,
    OfBlock,
    Schedule,
    Step,
    Take,
    WaitCluster,
)

SUMS = 32  # a thread's registers


def made(blocks: int, is_split: bool = False, groups: int = 2, stages: int = 2) -> Schedule:
    boxes = (ROWS, INNER), (COLUMNS, INNER)
    shape = Shape(*boxes, 4 if is_split else 2, (64, 64), 2, right_transposed=True, sums=SUMS, blocks=blocks)
    return split_product(shape, groups, stages) if is_split else product(shape, groups, stages, ping_pong=False)


class OneBlock(Plain):
    """A block of a cluster, which has every so many-th of ``turns``: past the last one there are zeros."""

    def __init__(self, schedule: Schedule, turns: int, number: int, stored: torch.Tensor) -> None:
        super().__init__(schedule, 1, turns)
        self.blocks, self.number, self.all, self.stored = schedule.blocks, number, turns, stored

    @property
    def own(self) -> int:
        """How many turns each block has."""
        return -(-self.all // self.blocks)

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        assert turn is not None
        at = turn * self.blocks + self.number
        found = super().box(buffer, min(at, self.all - 1), group)
        return found if at < self.all else torch.zeros_like(found)

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        if part == "begin":
            return {"sums": torch.zeros(ROWS, COLUMNS)}
        return added(part, registers)

    def compute_piece(
        self, part: str, registers: Mapping[str, Any], turn: int, group: int, piece: int
    ) -> dict[str, Any]:
        assert part == "finish" and piece == self.number
        return {"result": registers["sums"].relu()}


def run(schedule: Schedule, turns: int, seeds: int = 2) -> None:
    for _, choose in [*interleavings(seeds), *NASTY_BLOCKS.items()]:
        stored = torch.full((1, schedule.buffer("left").slots // schedule.stages, ROWS, COLUMNS), torch.nan)
        bodies = [OneBlock(schedule, turns, n, stored) for n in range(schedule.blocks)]
        execute_cluster(schedule, bodies, bodies[0].own, choose)
        torch.testing.assert_close(stored, bodies[0].expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("turns", [1, 7, 16])
def test_right_schedules_pass_under_every_interleaving(blocks: int, is_split: bool, turns: int) -> None:
    run(made(blocks, is_split), turns)


@pytest.mark.parametrize(("groups", "stages"), [(1, 2), (1, 4), (2, 3)])
def test_of_one_group_or_deeper_rings(groups: int, stages: int) -> None:
    run(made(4, groups=groups, stages=stages), 11)


def test_one_block_alone_has_nothing_of_a_cluster() -> None:
    alone = made(1)
    assert alone.given == given_bytes(SUMS, 1) == 0 and alone.producer.warps == 1
    assert made(4).given == 2 * 3 * (SUMS // 4) * 4 * 128 and made(4).producer.warps == 4


def _without(schedule: Schedule, role: str, kind: type[Step], number: int | None = None) -> Schedule:
    """Without the steps of a kind, or without one of them."""
    seen: list[Step] = []

    def change(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, kind):
            return (step,)
        seen.append(step)
        return () if number in (None, len(seen) - 1) else (step,)

    found = edited(schedule, role, change)
    assert found != schedule
    return found


def _given_to_blocks_that_have_not_begun(s: Schedule) -> Schedule:
    return _without(s, "consumer", WaitCluster, 0)


def _joined_before_all_is_given(s: Schedule) -> Schedule:
    return _without(s, "consumer", WaitCluster, 1)


def _given_behind_the_arrival(s: Schedule) -> Schedule:
    given: list[Step] = []

    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Give):
            given.append(step)
            return ()
        return (step, given.pop()) if isinstance(step, ArriveCluster) and given else (step,)

    return edited(s, "consumer", change)


def _nothing_is_given(s: Schedule) -> Schedule:
    return _without(s, "consumer", Give)


def _what_is_given_is_left(s: Schedule) -> Schedule:
    own = edited(s, "consumer", lambda x: (Take("sums_0", "sums"),) if isinstance(x, Join) else (x,))
    assert own != s
    return own


def _a_helper_does_not_arrive(s: Schedule) -> Schedule:
    return _without(s, "producer", ArriveCluster)


def _a_helper_arrives_once_too_few(s: Schedule) -> Schedule:
    return _without(s, "splitter", ArriveCluster, 1)


def _a_helper_arrives_twice_in_a_round(s: Schedule) -> Schedule:
    return _without(s, "splitter", WaitCluster)


def _sums_are_cut_before_they_are_there(s: Schedule) -> Schedule:
    return edited(s, "consumer", lambda x: () if x == Await(0, ("large",)) else (x,))


FAULTS: dict[Callable[[Schedule], Schedule], set[str]] = {
    _given_to_blocks_that_have_not_begun: {"early"},
    _joined_before_all_is_given: {"early"},
    _given_behind_the_arrival: {"early"},
    _nothing_is_given: {"early"},
    _what_is_given_is_left: {"unfinished"},
    _a_helper_does_not_arrive: {"deadlock"},
    _a_helper_arrives_once_too_few: {"deadlock"},
    _a_helper_arrives_twice_in_a_round: {"order"},
    _sums_are_cut_before_they_are_there: {"early"},
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda f: f.__name__)
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    schedule, kinds = plant(made(4, is_split=True)), set[str]()
    for _, choose in [*interleavings(3), *NASTY_BLOCKS.items()]:
        stored = torch.zeros(1, 2, ROWS, COLUMNS)
        bodies = [OneBlock(schedule, 6, n, stored) for n in range(4)]
        try:
            execute_cluster(schedule, bodies, bodies[0].own, choose)
        except ScheduleFault as fault:
            kinds.add(fault.kind)
    assert kinds and kinds <= FAULTS[plant]


def test_another_blocks_columns_are_another_result() -> None:
    """A block that finished a piece of a number of its own would leave others unwritten."""

    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Compute) and isinstance(step.piece, OfBlock):
            return (Compute(step.part, step.reads, step.writes, step.turn, 0),)
        return (step,)

    with pytest.raises(AssertionError):
        run(edited(made(2), "consumer", change), 4)
