"""Barriers where the threads of a program must see each other's accesses, and none where they need not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.target import target

BARRIER = "tl.debug_barrier()"


def lowered(kernel: Any, *args: Any) -> Lowered:
    return kernel.lower(args, target("nvidia-h200"), mode="static")  # type: ignore[no-any-return]


def lines(kernel: Any, *args: Any, **config: Any) -> list[str]:
    """Loads, stores and barriers of the text, one word each, those in loops indented."""
    low = lowered(kernel, *args)
    (source,) = low.emit(low.space.repair(low.default.with_(config)))
    found = {"tl.load": "load", "tl.store": "store", "tl.atomic": "atomic", BARRIER: "barrier", "for ": "for"}
    return [
        word
        for line in source.code.splitlines()
        for text, word in found.items()
        if text in line and not line.startswith("def")
    ]


X = torch.zeros(64, 256)


@tileflow.kernel
def back_and_forth(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + 1
        x[tile, :] = out[tile, :].sum(1)[:, None] + x[tile, :]
    return out


def test_what_was_stored_is_loaded_behind_a_barrier() -> None:
    found = lines(back_and_forth, X, X.clone(), **{"block:tile": 16})
    assert found == ["load", "store", "barrier", "load", "load", "store"]


@tileflow.kernel
def in_place(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        for part in tfl.tile(x.size(1)):
            x[tile, part] = x[tile, part] * 2
    return x


@pytest.mark.parametrize(("warps", "expected"), [(4, []), (8, ["barrier"])])
def test_in_place_a_thread_keeps_its_own_order(warps: int, expected: list[str]) -> None:
    """Of 128 lanes each thread of four warps has its own; of eight warps two load the same one."""
    config = {"block:tile": 4, "block:part": 32, "num_warps": warps}
    assert lines(in_place, X, **config) == ["for", "load", *expected, "store"]


@tileflow.kernel
def rows_apart(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, x.size(1))
    for tile in tfl.tile(x.size(1)):
        for i in tfl.grid(x.size(0)):
            out[0, tile] = x[i, tile]
            out[1, tile] = x[i, tile] + 1
    return out


def test_rows_of_other_numbers_are_apart() -> None:
    assert lines(rows_apart, X, **{"block:tile": 256, "num_warps": 4}) == ["for", "load", "store", "load", "store"]


@tileflow.kernel
def halves(x: torch.Tensor) -> torch.Tensor:
    half = x.size(1) // 2
    for tile in tfl.tile(x.size(0)):
        x[tile, half:] = x[tile, :half] + 1
    return x


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_slices_side_by_side_are_apart(mode: str) -> None:
    low = halves.lower((X,), target("nvidia-h200"), mode=mode)
    assert BARRIER not in low.emit(low.default)[0].code


@tileflow.kernel
def running(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0), block_size=64):
        for i in tfl.grid(x.size(1)):
            total[0] = total[0] + x[tile, i].sum(0)
    return total


def test_a_loop_carries_over() -> None:
    """Every thread loads the number that one of them stores: before it, and in the next iteration."""
    assert lines(running, X, torch.zeros(1)) == ["for", "barrier", "load", "load", "barrier", "store"]


@tileflow.kernel
def neighbours(x: torch.Tensor) -> torch.Tensor:
    for row in tfl.tile(x.size(0)):
        for i in tfl.grid(x.size(1) - 1):
            x[row, i + 1] = x[row, i] + x[row, i + 1]
    return x


def test_a_recurrence_in_memory() -> None:
    found = lines(neighbours, X, **{"block:row": 64, "num_warps": 1})
    assert found[:3] == ["for", "barrier", "load"] and found.count("barrier") == 2 and found[-1] == "store"


@tileflow.kernel
def counted(keys: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(keys.size(0)):
        for i in tfl.grid(keys.size(1)):
            tfl.atomic_add(out, [keys[tile, i]], 1)
    return out


def test_sums_of_atomics_have_no_order() -> None:
    assert BARRIER not in "".join(lines(counted, torch.zeros(64, 256, dtype=torch.int32), X[0].int()))


@tileflow.kernel
def by_cases(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        if flags[0] > 0:
            out[tile, 0] = x[tile, 0]
        out[tile, 1] = out[tile, 0]
    return out


def test_one_side_of_a_branch_is_enough() -> None:
    found = lines(by_cases, X, torch.zeros(1))
    assert found == ["load", "load", "store", "barrier", "load", "store"]


def test_a_tensor_that_is_read_and_written_goes_by_pointers() -> None:
    knobs = [k.name for k in lowered(back_and_forth, X, X.clone()).space.knobs]
    assert not [name for name in knobs if name.endswith(".access")]
