"""Slices of tensors with a step, with what they must give: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case


@case(rand(9, 22), wanted=lambda x: torch.cat([x[:, 0::2], x[:, 1::2]], 1))
@tileflow.kernel
def apart(x: torch.Tensor) -> torch.Tensor:
    half = x.size(1) // 2
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :half] = x[tile, 0::2]
        out[tile, half:] = x[tile, 1::2]
    return out


@case(rand(5, 14), wanted=lambda x: torch.stack([x[:, :7], x[:, 7:]], 2).reshape(5, 14))
@tileflow.kernel
def together(x: torch.Tensor) -> torch.Tensor:
    """Written with a step."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, ::2] = x[tile, : x.size(1) // 2]
        out[tile, 1 : x.size(1) : 2] = x[tile, x.size(1) // 2 :]
    return out


@case(rand(3, 13, 11), wanted=lambda x: x[:, 1:12:3, ::2].sum(1))
@tileflow.kernel
def two_steps(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), (x.size(2) + 1) // 2)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, 1:12:3, ::2].sum(1)
    return out


@case(rand(2, 8, 8), wanted=lambda x: x[:, ::2, ::2])
@tileflow.kernel
def equal_steps(x: torch.Tensor) -> torch.Tensor:
    """Two slices of one length are two dimensions."""
    out = torch.empty(x.size(0), 4, 4)
    for tile in tfl.tile(x.size(0)):
        out[tile, :, :] = x[tile, ::2, ::2]
    return out


@case(rand(22), wanted=lambda x: torch.stack([x[::2] * x[1::2], x[::2] + x[:11]]))
@tileflow.kernel
def steps_beside_their_tile(x: torch.Tensor) -> torch.Tensor:
    """Every other place of twice a block is as many as the block's tile, however they are counted."""
    out = torch.empty(2, 11)
    block = tfl.register_block_size(11)
    for tile in tfl.tile(11, block_size=block):
        at = 2 * tile.begin + tfl.arange(0, 2 * block, 2)
        out[0, tile] = x[at] * x[at + 1]
        out[1, tile] = x[2 * tile.begin + tfl.arange(2 * block // 2) * 2] + x[tile]
    return out
