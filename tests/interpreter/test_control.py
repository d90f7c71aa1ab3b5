"""Loops, branches, host code and knobs, in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.control_kernels import CASES
from tile_testing.runs.compiled import compile_for_one
from tile_testing.runs.interpreted import run_eagerly

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError, TraceError
from tileflow.frontend.counted_turns import UNROLLED, counted_turns, exhaust
from tileflow.target import target

Interpreter = Callable[..., Any]
KERNELS = path_of("control_kernels")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_construct(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_construct_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_construct_compiles(number: int) -> None:
    compile_for_one(list(CASES.values())[number], number)


def test_a_branch_on_a_block_size_is_settled_in_the_text() -> None:
    kernel = CASES["if_of_a_block_size"].kernel
    lowered = kernel.lower((torch.empty(37),), target("nvidia-h200"))
    texts = [lowered.emit(lowered.default.with_({"block:tile": b}))[0].code for b in (4, 16)]
    assert "if " not in texts[0] + texts[1] and texts[0] != texts[1]


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


def mistakes() -> list[tuple[Any, str]]:  # noqa: C901
    @tileflow.kernel
    def barrier_inside(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1
            tfl.barrier()

    @tileflow.kernel
    def loop_in_a_zip(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            for i, _ in zip(tfl.grid(4), (1, 2), strict=False):
                x[tile] = i

    @tileflow.kernel
    def list_in_a_long_range(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            weights = [1.0] * 40
            for i in range(40):
                x[tile] = weights[i]

    @tileflow.kernel
    def other_structure(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            pair = (x[tile], x[tile])
            for _ in tfl.grid(3):
                pair = (pair[0], pair[1], pair[0])
            x[tile] = pair[0]

    @tileflow.kernel
    def other_rank(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            value = x[tile]
            for _ in tfl.grid(3):
                value = value[:, None] + value[None, :]
            x[tile] = value.sum(1)

    @tileflow.kernel
    def one_way_only(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            if tile.begin > 4:
                value = x[tile]
            x[tile] = value

    @tileflow.kernel
    def block_one_way_only(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            if tile.block_size > 4:
                value = x[tile]
            x[tile] = value

    @tileflow.kernel
    def kept_in_a_list(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            parts: list[Any] = []
            for i in tfl.grid(3):
                parts.append(x[tile] + i)
            x[tile] = parts[0]

    @tileflow.kernel
    def while_on_a_tile(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            while x[tile] > 0:
                x[tile] = 0

    @tileflow.kernel
    def text_of_a_branch(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            name = "a" if tile.begin > 4 else "b"
            x[tile] = 0 if name == "a" else 1

    @tileflow.kernel
    def block_size_as_a_number(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            for i in tfl.static_range(tile.block_size):
                x[tile] = i

    @tileflow.kernel
    def step_of_zero(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            for i in range(tile.begin, tile.end, 0):
                x[tile] = i

    return [
        (barrier_inside, "between two outermost tile loops"), (loop_in_a_zip, "for statement of its own"),
        (list_in_a_long_range, "tfl.static_range"), (other_structure, "keeps its structure"),
        (other_rank, "number of dimensions"), (one_way_only, "assigned on every way"),
        (block_one_way_only, "assigned on every way"), (kept_in_a_list, "keeps its length in the loops"),
        (while_on_a_tile, "a while loop of the kernel ends for all"), (text_of_a_branch, "a tile, or the same object"),
        (block_size_as_a_number, "has no Python number"), (step_of_zero, "an int other than 0"),
    ]  # fmt: skip


@pytest.mark.parametrize(("kernel", "says"), mistakes(), ids=lambda k: getattr(k, "__name__", ""))
def test_mistakes_are_named_with_their_place(kernel: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says) as raised:
        kernel.lower((torch.empty(64),), target("nvidia-h200"))
    assert "test_control.py:" in str(raised.value)


def test_knobs_without_choices_are_refused() -> None:
    @tileflow.kernel
    def without(x: torch.Tensor) -> torch.Tensor:
        tfl.register_tunable("empty", range(3, 3))
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1
        return x

    with pytest.raises(CallError, match="one of some ints"):
        without.lower((torch.empty(4),), target("nvidia-h200"))
    with pytest.raises(CallError, match="one of some ints"):
        without.run_eagerly(torch.empty(4))
