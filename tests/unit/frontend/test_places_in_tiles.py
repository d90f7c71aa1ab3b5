"""What counts places within a loop's tile: refused where the config says how long the tile is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.arange(1.0, 37).reshape(6, 6)

TRIANGLES: dict[str, Callable[[Any], Any]] = {
    "tril": lambda v: v.tril(),
    "triu": lambda v: torch.triu(v, 1),
    "diagonal": lambda v: v.diagonal(),
    "linalg.diagonal": torch.linalg.diagonal,
    "trace": lambda v: v.trace(),
    "diag": torch.diag,
}


@tileflow.kernel
def of_rows(x, function):
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :] = function(x[t, :])
    return out


@tileflow.kernel
def of_both(x, function):
    out = torch.zeros_like(x)
    for t, u in tfl.tile(x.shape):
        out[t, u] = function(x[t, u])
    return out


@tileflow.kernel
def of_equal_blocks(x, function):
    block = tfl.register_block_size(8)
    out = torch.zeros_like(x)
    for t, u in tfl.tile(x.shape, block_size=[block, block]):
        out[t, u] = function(x[t, u])
    return out


@pytest.mark.parametrize("kernel", [of_rows, of_both, of_equal_blocks], ids=["rows", "both", "equal"])
@pytest.mark.parametrize("name", TRIANGLES)
def test_a_diagonal_of_a_loops_tile_is_refused(name: str, kernel: Any) -> None:
    with pytest.raises(ShapeError, match="takes whole dimensions, or a square of one loop's tile") as caught:
        kernel.lower((X, TRIANGLES[name]), H200)
    assert "compare indices" in str(caught.value)


ORDERS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda v: v.sort(0)[0],
    "argsort": lambda v: v.argsort(0),
    "msort": torch.msort,
    "kthvalue": lambda v: v.kthvalue(1, 0)[0],
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_of_a_loops_tile_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match="a sort takes a dimension in one piece"):
        of_rows.lower((X, ORDERS[name]), H200)


@tileflow.kernel
def of_whole_dimensions(x):
    out = torch.zeros_like(x)
    for _ in tfl.grid(1):
        out[:, :] = x[:, :].tril()
    return out


@tileflow.kernel
def of_a_block_of_the_authors(x):
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0), block_size=2):
        out[t, :] = x[t, :].tril()
    return out


@tileflow.kernel
def of_a_square(x):
    """Within a tile both indices are as far from its begin."""
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0)):
        v = x[t, :]
        out[t, :] = (v @ v.T).tril() @ v
    return out


@tileflow.kernel
def of_a_slice_as_long(x):
    block = tfl.register_block_size(8)
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0), block_size=block):
        keys = x[t.begin : t.begin + block, :]
        out[t, :] = (x[t, :] @ keys.T).tril() @ keys
    return out


@tileflow.kernel
def of_a_vector(x):
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.diag_embed(x[t, 0]) @ x[t, :]
    return out


@pytest.mark.parametrize(
    "kernel",
    [of_whole_dimensions, of_a_block_of_the_authors, of_a_square, of_a_slice_as_long, of_a_vector],
    ids=lambda kernel: kernel.__name__,
)
def test_other_diagonals_are_the_same_for_every_config(kernel: Any) -> None:
    lowered = kernel.lower((X,), H200)
    (source,) = lowered.emit(lowered.default)
    assert "tl.where(" in source.text
