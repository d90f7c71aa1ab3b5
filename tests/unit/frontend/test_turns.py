"""``while`` on a condition of the kernel: what is recorded, that Triton compiles it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import TraceError
from tileflow.ir.kinds import OpKind
from tileflow.target import target

Tensor = torch.Tensor
H200 = target("nvidia-h200")
X = torch.zeros(8, device="meta")


@tileflow.kernel
def halved(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        value, turns = x[i], 0
        while value > 1.0:
            value = value * 0.5
            turns += 1
        out[i] = value + turns
    return out


def test_a_loop_of_scalars_is_one_op_that_triton_compiles() -> None:
    lowered = halved.lower((X,), H200)
    (loop,) = [op for op in lowered.regions[0].walk() if op.kind is OpKind.WHILE]
    assert sorted(v.type.dtype for v in loop.outputs) == ["bool", "float32", "int64"]
    (source,) = lowered.emit(lowered.default)
    assert "while c" in source.text
    assert build(source, H200).code


def test_a_loop_that_stores_what_it_loads_waits_in_each_turn() -> None:
    @tileflow.kernel
    def counted(x: Tensor) -> None:
        for i in tfl.grid(1):
            n = x[i]
            while n > 0:
                x[3] = x[4] + 1
                x[4] = x[3] + 1
                n = n - 1

    lowered = counted.lower((X,), H200)
    (source,) = lowered.emit(lowered.default)
    inside = source.text[source.text.index("while c") :]
    assert inside.count("tl.debug_barrier()") >= 1
    assert build(source, H200).code


@tileflow.kernel
def of_tiles(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        value = x[tile]
        while value > 1.0:
            value = value * 0.5
        out[tile] = value
    return out


@tileflow.kernel
def carries_a_tile(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        value = x[tile]
        while value.amax() > 1.0:
            value = value * 0.5
        out[tile] = value
    return out


@tileflow.kernel
def reads_a_tile(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        n = x[0]
        while n > 1.0:
            n = n - x[tile].sum()
        out[tile] = n
    return out


@tileflow.kernel
def by_a_block_size(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        n = 1
        while n < tile.block_size:
            n = n * 2
        out[tile] = x[tile] * n
    return out


@pytest.mark.parametrize("kernel", [of_tiles, carries_a_tile, reads_a_tile], ids=lambda k: k.__name__)
def test_loops_of_tiles_are_refused_by_name(kernel: Any) -> None:
    with pytest.raises(TraceError, match="while loop of the kernel is of scalars") as caught:
        kernel.lower((X,), H200)
    assert "torch.where" in caught.value.hint


def test_a_block_size_ends_no_while() -> None:
    with pytest.raises(TraceError, match="condition of a while is Python's or a scalar"):
        by_a_block_size.lower((X,), H200)
