"""``while`` on a condition of the kernel: what is recorded, that Triton compiles it, and what is refused."""

from __future__ import annotations

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
def with_products(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        value, turns = x[tile, :], 0
        while value.abs().amax() > 1e-2 and turns < 20:
            value = value @ y[:, :]
            turns += 1
        out[tile, :] = value
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


def test_a_condition_of_a_tile_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match="ends for all lanes of a program at once") as caught:
        of_tiles.lower((X,), H200)
    assert "(condition).any()" in caught.value.hint and "torch.where" in caught.value.hint


def test_a_loop_of_products_keeps_what_it_carries_in_registers() -> None:
    x, y = (torch.empty(n, 256, dtype=torch.float16, device="meta") for n in (4096, 256))
    lowered = with_products.lower((x, y), H200)
    assert any("while#" in c.name and "fit registers" in c.name for c in lowered.space.constraints)
    (source,) = lowered.emit(lowered.default)
    assert build(source, H200).code


def test_a_block_size_ends_no_while() -> None:
    with pytest.raises(TraceError, match="condition of a while is Python's or a scalar"):
        by_a_block_size.lower((X,), H200)
