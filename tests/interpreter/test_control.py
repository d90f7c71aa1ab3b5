"""Branches, host code and knobs, in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.control_kernels import CASES
from tile_testing.runs.constructs import test_construct, test_construct_compiles, test_construct_eagerly

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError, TraceError
from tileflow.target import target

KERNELS = path_of("control_kernels")

__all__ = ["test_construct", "test_construct_compiles", "test_construct_eagerly"]


def test_a_branch_on_a_block_size_is_settled_in_the_text() -> None:
    kernel = CASES["if_of_a_block_size"].kernel
    lowered = kernel.lower((torch.empty(37),), target("nvidia-h200"))
    texts = [lowered.emit(lowered.default.with_({"block:tile": b}))[0].code for b in (4, 16)]
    assert "if " not in texts[0] + texts[1] and texts[0] != texts[1]


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
