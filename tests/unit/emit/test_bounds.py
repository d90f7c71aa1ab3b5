"""What stands in the text so that nothing is read or written outside a tensor, and what is refused (issue 14, finding
2)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError
from tileflow.target import target


def text(kernel: Any, *args: Any, mode: str = "static", **config: Any) -> str:
    low = kernel.lower(args, target("nvidia-h200"), mode=mode)
    blocks = {f"block:{name}": block for name, block in config.items()}
    found: str = low.emit(low.space.repair(low.default.with_(blocks)))[0].text
    return found


def access(found: str, tensor: str, word: str = "load") -> str:
    """The mask of the only access of a tensor; empty for one without."""
    (line,) = (line for line in found.splitlines() if f"tl.{word}({tensor}_ptr" in line)
    return line.partition("mask=")[2].split(", other=")[0].removesuffix(")")


X = torch.zeros(64, 48)


@tileflow.kernel
def row_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for t in tfl.tile(x.size(0)):
        acc = tfl.zeros([t])
        for k in tfl.tile(x.size(1)):
            acc += x[t, k].sum(1)
        out[t] = acc
    return out


def test_a_loop_over_nothing_is_masked_in_case_it_is_entered() -> None:
    """Triton 3.6 runs an empty loop that it unrolled."""
    assert "k_mask" in access(text(row_sums, torch.zeros(64, 0), t=16, k=16), "x")
    assert "k_mask" not in access(text(row_sums, X, t=16, k=16), "x")


@tileflow.kernel
def indexed(x: torch.Tensor, places: torch.Tensor, byte: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    n = x.size(0)
    for t in tfl.tile(n, block_size=16):
        first = x[(t.index * 3 + 7) % n, 0]
        second = x[torch.clamp(places[t], 0, n - 1), 1]
        third = x[torch.where(places[t] > 0, t.index, 0), t.begin // 2]
        fourth = x[t.index, byte[t.begin] & 15]
        out[t] = first + second + third + fourth + x[t.end - 1, t.id]
    return out


def test_what_arithmetic_keeps_inside_is_not_masked() -> None:
    found = text(indexed, X, torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32))
    assert "mask=" not in found


@tileflow.kernel
def at_a_block(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    b = tfl.register_block_size(64)
    for t in tfl.tile(x.size(0), block_size=b):
        out[t] = x[t, b - 1]
    return out


@pytest.mark.parametrize(("block", "masked"), [(16, False), (64, True)])
def test_a_block_size_as_an_index_may_be_outside(block: int, masked: bool) -> None:
    """Its config says so: 48 columns have no number 63."""
    assert bool(access(text(at_a_block, X, b=block), "x")) is masked


BEFORE = -4


@tileflow.kernel
def from_before(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for k in tfl.tile(BEFORE, x.size(1)):
            out[t, k] = x[t, k]
    return out


@tileflow.kernel
def stored_into_one(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, x.size(1))
    for t, k in tfl.tile(x.shape):
        out[t, k] = x[t, k]
    return out


@tileflow.kernel
def largest(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for t in tfl.tile(x.size(0)):
        out[t] = x[t, :].amax(1)
    return out


@tileflow.kernel
def place_of_the_largest(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.int64)
    for t in tfl.tile(x.size(0)):
        out[t] = x[t, :].max(1).indices
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("kernel", "size", "words"),
    [
        (from_before, (8, 6), "tile must not run past the end"),
        (stored_into_one, (8, 6), "tile must not run past the end"),
        (largest, (8, 0), "at least one element"),
        (place_of_the_largest, (8, 0), "at least one element"),
    ],
)
def test_refused(kernel: Any, size: tuple[int, ...], words: str, mode: str) -> None:
    with pytest.raises(ShapeError, match=words):
        text(kernel, torch.zeros(size), mode=mode)


def test_a_dynamic_variant_of_an_extremum_takes_no_empty_dimension() -> None:
    low = largest.lower((X,), target("nvidia-h200"), mode="dynamic")
    guards = low.emit(low.default)[0].guards
    shapes = {s: low.regions[0].hints[s] for s in guards.symbols() if s in low.regions[0].hints}
    assert guards.holds(shapes)
    assert not guards.holds({**shapes, "x.shape.1": 0})
