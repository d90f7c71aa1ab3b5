"""Products of whole dimensions: what is cut into blocks, and what stays whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels.rolled_kernels import attended, multiplied_in_batches, projected, projected_whole

import tileflow
import tileflow.language as tfl
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")


def bf16(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)


def cuts(ir: KernelIR) -> list[str]:
    return [block.name for block in ir.blocks if block.is_cut]


def matrix(x, w):
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.relu(x[t, :]) @ w[:, :]
    return out


def layers(x, w1, w2):
    out = torch.empty(x.size(0), w2.size(1), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.relu(x[t, :] @ w1[:, :]) @ w2[:, :]
    return out


def counted(x, w):
    out, seen = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device), torch.empty_like(x[:, 0])
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :] @ w[:, :]
        seen[t] = x[t, 0] + 1
    return out, seen


@pytest.mark.parametrize(
    ("function", "shapes", "cut", "axes"),
    [
        pytest.param(projected, [(4096, 4096), (4096, 4096), (4096,)], ["cut:dot#0"], 2, id="the inner dimension"),
        pytest.param(projected, [(4096, 128), (128, 4096), (4096,)], [], 2, id="a short one"),
        pytest.param(matrix, [(4096, 512), (512, 512)], ["cut:out#0:1", "cut:dot#0"], 2, id="columns, over programs"),
        pytest.param(
            multiplied_in_batches,
            [(64, 512, 512), (64, 512, 512)],
            ["cut:out#0:0", "cut:out#0:1", "cut:dot#0"],
            3,
            id="rows and columns of a square",
        ),
        pytest.param(layers, [(4096, 128), (128, 512), (512, 256)], ["cut:dot#1"], 1, id="no product is made twice"),
        pytest.param(projected_whole, [(64, 512), (512, 1024), (1024,)], [], 1, id="rows that are normed"),
        pytest.param(attended, [(512, 64), (512, 64), (512, 64)], ["cut:max#0"], 1, id="keys"),
        pytest.param(counted, [(4096, 512), (512, 512)], [], 1, id="a store that has no columns"),
    ],
)
def test_what_is_cut(function: Callable[..., Any], shapes: list[tuple[int, ...]], cut: list[str], axes: int) -> None:
    kernel = function if isinstance(function, tileflow.Kernel) else tileflow.kernel(function)
    it = kernel.lower(bf16(*shapes), H200)
    (ir,) = it.regions
    assert cuts(ir) == cut and len(ir.grid) == axes
    assert it.space.is_valid(it.default)
    assert all(any(op.kind is OpKind.FOR for op in ir.walk()) for name in cut if "#0:" not in name)


def test_a_product_of_whole_rows_is_as_fast_as_one_in_a_loop() -> None:
    """It had blocks of 16 x 16, as many as whole rows of 2048 leave room for, and from 3072 on no config at all."""

    def written(x, w):
        out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
        for t, n in tfl.tile([x.size(0), w.size(1)]):
            total = tfl.zeros([t, n], dtype=torch.float32)
            for k in tfl.tile(x.size(1)):
                total = torch.addmm(total, x[t, k], w[k, n])
            out[t, n] = total.to(x.dtype)
        return out

    def multiplied(x, w):
        out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] @ w[:, :]
        return out

    args = bf16((4096, 4096), (4096, 4096))
    own = tileflow.kernel(written).lower(args, H200).default.to_dict()
    whole = tileflow.kernel(multiplied).lower(args, H200).default.to_dict()
    names = {"cut:dot#0": "block:k", "cut:out#0:1": "block:n"}
    blocks = {names.get(name, name): size for name, size in whole.items() if name.startswith(("block:", "cut:", "num"))}
    assert blocks == {name: size for name, size in own.items() if name.startswith(("block:", "num"))}


def test_a_cut_block_is_none_of_the_authors() -> None:
    """The kernel as plain Python, which takes blocks by its loops' names, has no loop of that name."""
    x, w = torch.randn(8, 300), torch.randn(300, 200)
    torch.testing.assert_close(tileflow.kernel(matrix).reference(x, w), torch.relu(x) @ w)
