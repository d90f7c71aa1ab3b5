"""Elements that are picked of a reshaped dimension of 2 are halves of it, which no two lanes compute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tile_testing.kernels.pair_kernels import butterflies, last_halves
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.ir.kinds import OpKind
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def columns(x):
    """Columns of a matrix of two, which no reshape made."""
    out = torch.empty(x.size(0), device=x.device)
    for t in tfl.tile(x.size(0)):
        pair = x[t, :] * 2
        out[t] = pair[:, 0] - pair[:, 1]
    return out


@tileflow.kernel
def beside_a_product(x, w):
    out = torch.empty(x.size(0), 32, device=x.device)
    for t in tfl.tile(x.size(0)):
        pairs = tfl.dot(x[t, :], w[:, :]).reshape(t, 32, 2)
        out[t, :] = pairs[:, :, 0] - pairs[:, :, 1]
    return out


def lowered(kernel: Kernel, *args: Any) -> Lowered:
    return kernel.lower(args, H200)


def kinds(kernel: Kernel, *args: Any) -> Counter[OpKind]:
    return Counter(op.kind for ir in lowered(kernel, *args).regions for op in ir.walk())


def rows(m: int = 64, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(1024, m, dtype=dtype, device="meta")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bfloat16], ids=str)
def test_two_picks_are_one_split(dtype: torch.dtype) -> None:
    found = kinds(butterflies, rows(dtype=dtype))
    assert found[OpKind.SPLIT] == 3 and not found[OpKind.REDUCE]


def test_a_loop_takes_the_halves_that_were_split_before_it() -> None:
    found = kinds(last_halves, rows(), 5)
    assert found[OpKind.SPLIT] == 2 and not found[OpKind.REDUCE] and not found[OpKind.PERMUTE]


def test_columns_and_products_stay() -> None:
    assert kinds(columns, rows(2))[OpKind.REDUCE] == 2
    assert not kinds(beside_a_product, rows(), torch.empty(64, 64, device="meta"))[OpKind.SPLIT]


def test_layers_of_a_transform_do_not_double_its_work() -> None:
    """Seven layers of 32 numbers a lane were 88,741 lines of PTX, which ptxas did not assemble in a minute."""
    one = ALL["number_transform"]
    it = one.kernel.lower(one.arguments("large", "meta"), H200)
    (source,) = it.emit(it.default)
    taken = build(source, H200).resources
    assert taken.spills == 0 and dict(taken.instructions)["total"] < 8000
