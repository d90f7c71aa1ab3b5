"""What several products take of one place in memory is loaded once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import LoadAttrs
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def grown(y, web):
    return y @ web[:, :].T


@tileflow.kernel
def growth(x, web, steps):
    """Four products of a turn by one matrix, which a helper reads."""
    after = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        y = x[t, :]
        for _ in range(steps):
            first = grown(y, web)
            second = grown(y + first, web)
            third = grown(y + second, web)
            y = y + first + 2 * second + 2 * third + grown(y + third, web)
        after[t, :] = y
    return after


@tileflow.kernel
def written_between(x, web):
    """The second product takes rows that the first one was stored to."""
    for t in tfl.tile(x.size(0)):
        x[t, :] = x[t, :] @ web[:, :]
        x[t, :] = x[t, :] @ web[:, :]
    return x


@tileflow.kernel
def chain(x, web):
    """Three layers of one matrix, whose rows and columns are loops of their own as long as each layer reads it."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :] = (torch.relu(x[t, :] @ web[:, :])).to(x.dtype) @ web[:, :]
    return out


def loads(kernel: Any, *args: Any) -> list[str]:
    (ir,) = kernel.lower(args, H100).regions
    return sorted({LoadAttrs.of(op).site.removeprefix("load:") for op in ir.walk() if op.kind is OpKind.LOAD})


def test_a_matrix_that_a_helper_reads_is_there_once() -> None:
    """It was staged four times: no config fitted at 96 columns of float32."""
    args = torch.empty(32768, 96, device="meta"), torch.empty(96, 96, device="meta"), 10
    lowered = growth.lower(args, H100)
    assert loads(growth, *args) == ["web#0", "x#0"]
    assert lowered.space.is_valid(lowered.default) and lowered.emit(lowered.default)


def test_values_are_the_text_s() -> None:
    x, web = torch.randn(20, 24), torch.randn(24, 24) / 24
    torch.testing.assert_close(growth(x, web, 2), growth.run_eagerly(x, web, 2), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "columns", "sites"),
    [
        pytest.param(written_between, 16, ["web#0", "x#0", "x#1"], id="what is written"),
        pytest.param(chain, 512, ["web#0", "web#1", "x#0"], id="what is a loop of each product's own"),
        pytest.param(chain, 64, ["web#0", "x#0"], id="what is whole anyway"),
    ],
)
def test_what_is_loaded_once(kernel: Any, columns: int, sites: list[str]) -> None:
    args = (torch.empty(rows, columns, dtype=torch.bfloat16, device="meta") for rows in (4096, columns))
    assert loads(kernel, *args) == sites
