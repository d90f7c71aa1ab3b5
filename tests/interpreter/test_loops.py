"""Loops in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.loop_kernels import CASES
from tile_testing.runs.constructs import test_construct, test_construct_compiles, test_construct_eagerly

import tileflow
import tileflow.language as tfl
from tileflow.frontend.counted_turns import UNROLLED, counted_turns, exhaust
from tileflow.target import target

KERNELS = path_of("loop_kernels")

__all__ = ["test_construct", "test_construct_compiles", "test_construct_eagerly"]


def test_short_ranges_are_written_out_and_long_ones_are_loops() -> None:
    @tileflow.kernel
    def turns(x: torch.Tensor, short: bool) -> None:
        for tile in tfl.tile(x.size(0)):
            total = x[tile]
            for _ in range(UNROLLED if short else UNROLLED + 1):
                total = total + x[tile]
            x[tile] = total

    def text(short: bool) -> str:
        lowered = turns.lower((torch.empty(64), short), target("nvidia-h200"))
        return lowered.emit(lowered.default)[0].text

    assert text(True).count("tl.load") == UNROLLED + 1 and "tl.range" not in text(True)
    assert text(False).count("tl.load") == 2 and f"tl.range(0, {UNROLLED + 1}, 1" in text(False)


LOOPS = {
    "backwards_over_a_size": 1,
    "backwards_by_a_step": 0,
    "backwards_from_a_loaded_length": 1,
    "counted_and_in_pairs": 2,
}


@pytest.mark.parametrize("name", LOOPS)
def test_long_ranges_behind_pythons_iterators_are_loops(name: str) -> None:
    """All of their turns were written out, or refused where the kernel computes how many there are."""
    case = CASES[name]
    lowered = case.kernel.lower(case.args, target("nvidia-h200"))
    text = lowered.emit(lowered.default)[0].code
    assert text.count("tl.range") == LOOPS[name]
    assert text.count("tl.store") == (13 if LOOPS[name] == 0 else LOOPS[name]), "13 turns are written out"


def test_an_iterator_that_a_loop_went_through_is_at_its_end() -> None:
    turns = zip(range(20), iter(range(3, 40)), strict=False)
    next(turns)
    found = counted_turns(turns)
    assert [found.at(k) for k in (0, 18)] == [(1, 4), (19, 22)] and len(found.numbers) == 19
    exhaust(turns)
    assert next(turns, None) is None
    unequal = zip(range(2), range(3), strict=True)
    assert counted_turns(unequal) is None and counted_turns(enumerate([1, 2])) is None
