"""Stores write the lanes that their value has, and no others."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def head(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    block: Any = tfl.register_block_size(8)
    for tile in tfl.tile(x.size(0), block_size=block):
        out[tile.begin : tile.begin + block] = x[tile]
    return out


def test_a_store_by_a_slice_of_a_block_size_is_masked_by_the_tile_that_it_stores() -> None:
    lowered = head.lower((torch.empty(5), torch.empty(8)), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.space.complete({"block:block": 8}))
    (store,) = [line for line in source.text.splitlines() if "tl.store" in line]
    assert "mask=tile_mask" in store
