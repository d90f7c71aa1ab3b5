"""Products of ragged groups: found, run as schedules on values, planted faults of what is new in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels.group_kernels import REFUSED, activated, args_of, biased, rows_then_bias
from tile_testing.kernels.product_bodies import PIECES, Plain, made
from tile_testing.kernels.schedule_bodies import edited

from examples.grouped_matmul import grouped_matmul, grouped_matmul_flat, reference
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.schedule.chained import Refusal
from tileflow.schedule.evaluate_groups import GroupedProgram, grouped_tiles
from tileflow.schedule.evaluate_product import program_tiles
from tileflow.schedule.execute import NASTY, at_random, execute, interleavings
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.product import Shape, product
from tileflow.schedule.single import Single, find_single
from tileflow.schedule.types import (
    Arrive,
    Await,
    AwaitPuts,
    EachTile,
    IfWhole,
    Put,
    Scatter,
    Schedule,
    Staged,
    Step,
    Turn,
    Wait,
)
from tileflow.target import target

H200 = target("nvidia-h200")
# where groups begin: one ends with a block, one is empty, one is a single row, one begins in the middle of a block
OFFSETS = [0, 64, 64, 150, 151, 290]


def run(kernel: Kernel, args: tuple[Any, ...], tensors: dict[str, torch.Tensor], ping_pong: bool) -> None:
    """Both programs of a call under blocks of 64 or 128 rows, the later one first: what one wrote over the other's rows
    would stay."""
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    lowered = kernel.lower(meta, H200)
    rows = "block:block_m" if "block:block_m" in {k.name for k in lowered.space.knobs} else "block:tile_m"
    high = 64 if ping_pong else 128
    choices: dict[str, Choice] = {rows: high, "block:tile_n": 128, "block:tile_k": 64}
    config = lowered.space.complete(choices)
    (ir,) = lowered.specialised_regions(config)
    found = find_single(ir)
    assert isinstance(found, Single) and found.is_ragged, found
    shape = Shape((64, 64), (64, 128), 2, (64, 128), 2, found.left_transposed, found.right_transposed, 128,
                  found.by_columns, ragged=True, searching=found.frame.has_vectors)  # fmt: skip
    schedule = product(shape, 2, 2, ping_pong)
    counts = [(name, ir.tiles[name].end.evaluate({rows: high}), 128 if name == "tile_n" else 1) for name in ir.grid]
    nasty = list(NASTY.values())
    for number in (1, 0):
        tiles = grouped_tiles(ir, found, config, tensors, program_tiles(counts, number, 2))
        body = GroupedProgram(ir, found, config, tensors, {}, tiles, shape, ping_pong)
        choose = nasty[(4 * number + ping_pong) % len(nasty)] if number else at_random(number)
        execute(schedule, body, body.turns, choose, len(tiles))


def values(offsets: list[int] = OFFSETS, rows: int = 300, columns: int = 200) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    x = torch.randn(rows, 72, dtype=torch.bfloat16) / 4
    y = torch.randn(len(offsets) - 1, 72, columns, dtype=torch.bfloat16) / 4
    return x, y, torch.tensor(offsets, dtype=torch.int32)


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("kernel", [grouped_matmul, grouped_matmul_flat], ids=lambda k: k.name.split(":")[1])
def test_rows_of_each_group_and_no_other(kernel: Kernel, ping_pong: bool) -> None:
    """300 rows, of which the last 10 belong to nobody, by 200 columns in tiles of 128, 72 summed in turns of 64."""
    x, y, offsets = values()
    out = torch.full((300, 200), 7.0, dtype=torch.bfloat16)
    run(kernel, (x, y, offsets), {"x": x, "y": y, "offsets": offsets, "out": out}, ping_pong)
    wanted = torch.full((300, 200), 7.0)
    wanted[:290] = reference(x.float(), y.float(), offsets)
    torch.testing.assert_close(out.float(), wanted, atol=6e-2, rtol=2e-2)


@pytest.mark.parametrize("ping_pong", [False, True])
def test_the_authors_epilogue_belongs_to_the_group(ping_pong: bool) -> None:
    """A bias of the group, loaded in front of the walk over its rows, and one of each row."""
    x, y, offsets = values()
    bias, scale = torch.randn(5, 200), torch.rand(300)
    out = torch.zeros(300, 200, dtype=torch.bfloat16)
    tensors = {"x": x, "y": y, "offsets": offsets, "bias": bias, "scale": scale, "out": out}
    run(biased, (x, y, offsets, bias, scale), tensors, ping_pong)
    groups = torch.bucketize(torch.arange(290), offsets[1:], right=True)
    wanted = torch.relu(reference(x.float(), y.float(), offsets) * scale[:290, None] + bias[groups])
    torch.testing.assert_close(out[:290].float(), wanted, atol=6e-2, rtol=2e-2)
    assert not out[290:].any()


def test_offsets_that_leave_the_tensor_touch_nothing_else() -> None:
    """A group that begins before the tensor and one that ends past it: rows outside are neither read nor written."""
    x, y, offsets = values([-30, 70, 400])
    out = torch.zeros(300, 200, dtype=torch.bfloat16)
    run(grouped_matmul, (x, y, offsets), {"x": x, "y": y, "offsets": offsets, "out": out}, False)
    wanted = reference(x.float(), y.float(), torch.tensor([0, 70, 300]))
    torch.testing.assert_close(out.float(), wanted, atol=6e-2, rtol=2e-2)


def test_what_is_stored_in_whole_blocks() -> None:
    """A store to rows by number has no box, and goes by pointers in every block."""
    for kernel, has_box in ((grouped_matmul, True), (activated, True), (rows_then_bias, False)):
        found = find_single(kernel.lower(args_of(kernel), H200).regions[0])
        assert isinstance(found, Single) and (found.saved is not None) is has_box


@pytest.mark.parametrize(
    ("kernel", "reason"), REFUSED, ids=lambda v: v.name.split(":")[1] if isinstance(v, Kernel) else ""
)
def test_what_has_no_such_schedule_is_refused_by_name(kernel: Kernel, reason: str) -> None:
    found = find_single(kernel.lower(args_of(kernel), H200).regions[0])
    assert isinstance(found, Refusal) and reason in str(found)


# ---- planted faults -------------------------------------------------------------------------------------------------

RAGGED = replace(PIECES, ragged=True)


class Cut(Plain):
    """Tiles of which some are cut: of those, a group's rows from ``own`` on are another tile's."""

    own = 3

    def __init__(self, schedule: Schedule, tiles: int, turns: int) -> None:
        super().__init__(schedule, tiles, turns)
        self.is_cut = [n % 3 != 1 for n in range(tiles)]

    def is_whole(self, turn: int, group: int) -> bool:
        return not self.is_cut[turn // self.turns]

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        if not self.is_whole(turn, group):
            raise ScheduleFault("foreign", "a box is written over rows of its own tile alone", str(turn), "put")
        super().put(value, turn, piece, group)

    def scatter(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        super().put(torch.cat([value[: self.own], torch.zeros_like(value[self.own :])]), turn, piece, group)

    @property
    def expected(self) -> torch.Tensor:
        found = super().expected
        for tile, is_cut in enumerate(self.is_cut):
            if is_cut:
                found[tile, :, self.own :] = 0
        return found


def _changed(schedule: Schedule, change: Callable[[Step], tuple[Step, ...]]) -> Schedule:
    return edited(schedule, "consumer", change)


def _every_block_by_a_box(s: Schedule) -> Schedule:
    return _changed(s, lambda x: x.steps if isinstance(x, IfWhole) else (x,))


def _cut_blocks_are_not_stored(s: Schedule) -> Schedule:
    return _changed(s, lambda x: () if isinstance(x, Scatter) else (x,))


def _cut_blocks_are_stored_in_the_first_columns(s: Schedule) -> Schedule:
    return _changed(s, lambda x: (replace(x, piece=0),) if isinstance(x, Scatter) else (x,))


def _the_other_way_round(s: Schedule) -> Schedule:
    return _changed(s, lambda x: (IfWhole(x.others, x.steps),) if isinstance(x, IfWhole) else (x,))


def _slots_of_results_are_not_awaited(s: Schedule) -> Schedule:
    return _changed(s, lambda x: (replace(x, steps=x.steps[1:]),) if isinstance(x, IfWhole) else (x,))


def _the_last_box_is_not_awaited(s: Schedule) -> Schedule:
    *others, last = s.consumer.program
    assert isinstance(last, AwaitPuts)
    return replace(s, consumer=replace(s.consumer, program=tuple(others)))


def _a_cut_block_keeps_its_last_slot(s: Schedule) -> Schedule:
    """Only a tile whose block is whole lets go of its last turn's boxes."""
    gone = Arrive("empty", Staged(Turn("last")))
    return _changed(s, lambda x: (IfWhole((x,), ()),) if x == gone else (x,))


def _a_cut_block_does_not_hand_over(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        return (IfWhole((step,), ()),) if isinstance(step, Arrive) and step.barrier == "order" else (step,)

    return _changed(s, change)


def _a_cut_block_does_not_wait_for_its_turn(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        return (IfWhole((step,), ()),) if isinstance(step, Wait) and step.barrier == "order" else (step,)

    return _changed(s, change)


def _a_cut_block_reads_its_sums_too_early(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        return (IfWhole((step,), (replace(step, pending=1),)),) if step == Await(0, ("sums",)) else (step,)

    return _changed(s, change)


# by planted fault, what it shows as under some interleaving: a kind, or wrong values
FAULTS = {
    _every_block_by_a_box: "foreign",
    _cut_blocks_are_not_stored: "values",
    _cut_blocks_are_stored_in_the_first_columns: "values",
    _the_other_way_round: "foreign",
    _slots_of_results_are_not_awaited: "race",
    _the_last_box_is_not_awaited: "unfinished",
    _a_cut_block_keeps_its_last_slot: "deadlock",
    _a_cut_block_does_not_hand_over: "deadlock",
    _a_cut_block_does_not_wait_for_its_turn: "early",
    _a_cut_block_reads_its_sums_too_early: "early",
}


def _kinds(schedule: Schedule) -> set[str]:
    found = set()
    for tiles, turns in ((0, 2), (5, 2), (4, 5)):
        for _, choose in interleavings(seeds=4):
            body = Cut(schedule, tiles, turns)
            try:
                execute(schedule, body, turns, choose, tiles)
            except ScheduleFault as fault:
                found.add(fault.kind)
            else:
                found |= set() if torch.allclose(body.stored, body.expected, atol=1e-5) else {"values"}
    return found


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    assert FAULTS[plant] in _kinds(plant(made(shape=RAGGED)))


@pytest.mark.parametrize(("groups", "ping_pong"), [(1, False), (2, False), (2, True), (3, True)])
def test_right_schedules_pass_under_every_interleaving(groups: int, ping_pong: bool) -> None:
    assert not _kinds(made(groups, 3, ping_pong, RAGGED))


def test_a_box_and_a_scatter_for_each_piece() -> None:
    schedule = made(shape=RAGGED)
    (tile, _) = schedule.consumer.program
    assert isinstance(tile, EachTile)
    stored = [s for s in tile.steps if isinstance(s, IfWhole)]
    assert [[p.piece for p in s.steps if isinstance(p, Put)] for s in stored] == [[0], [1]]
    assert [[p.piece for p in s.others if isinstance(p, Scatter)] for s in stored] == [[0], [1]]
