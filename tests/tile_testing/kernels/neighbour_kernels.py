"""Kernels that load and store elements that lie side by side one by one: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
PAIRS = rand(37, 6, 2)
BOXES = rand(45, 4)
BYTES = ints(256, 45, 8).to(torch.uint8)
PLACES = ints(45, 21)


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones_like(angles), angles)[:, None])


@CASES.case(PAIRS, rand(37), wanted=turned, t=16)
@tileflow.kernel
def rotated(x, angles):
    """A whole dimension of 6, which fills no registers, of complex numbers as pairs."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        re, im = x[t, :, 0], x[t, :, 1]
        cos, sin = torch.cos(angles[t])[:, None], torch.sin(angles[t])[:, None]
        out[t, :, 0] = re * cos - im * sin
        out[t, :, 1] = re * sin + im * cos
    return out


@CASES.case(BOXES, wanted=lambda x: torch.cat([(x[:, :2] + x[:, 2:]) / 2, x[:, 2:] - x[:, :2]], 1), t=16)
@tileflow.kernel
def centred(x):
    """Boxes of four numbers, and a block that is longer than what is left of them."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        x0, y0, x1, y1 = x[t, 0], x[t, 1], x[t, 2], x[t, 3]
        out[t, 0] = (x0 + x1) / 2
        out[t, 1] = (y0 + y1) / 2
        out[t, 2] = x1 - x0
        out[t, 3] = y1 - y0
    return out


@CASES.case(BOXES, wanted=lambda x: x[:, [2, 0, 3, 1]])
@tileflow.kernel
def in_odd_blocks(x):
    """Registers hold more lanes than a tile has."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0), block_size=24):
        out[t, 1], out[t, 3], out[t, 0], out[t, 2] = x[t, 0], x[t, 1], x[t, 2], x[t, 3]
    return out


@CASES.case(BOXES.clone(), wanted=lambda x: x[:, [1, 0, 3, 2]], t=16)
@tileflow.kernel
def exchanged_in_place(x):
    """All of a pair is loaded before any of it is stored."""
    for t in tfl.tile(x.size(0)):
        a, b = x[t, 0], x[t, 1]
        x[t, 0], x[t, 1] = b, a
        c, d = x[t, 2], x[t, 3]
        x[t, 2], x[t, 3] = d, c
    return x


@CASES.case(BOXES.clone(), wanted=lambda x: torch.cat([2 * x[:, :1], 2 * x[:, :1] + x[:, 1:2], x[:, 2:]], 1), t=16)
@tileflow.kernel
def stored_in_between(x):
    """What the second load reads the store before it wrote."""
    for t in tfl.tile(x.size(0)):
        a = x[t, 0]
        x[t, 0] = 2 * a
        x[t, 1] = x[t, 0] + x[t, 1]
    return x


def through(x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[where, 4] - x[where, 5], x[where, 6] + x[where, 7]], 1)


@CASES.case(rand(45, 8), PLACES, wanted=through, t=8)
@tileflow.kernel
def gathered(x, where):
    """Neighbours at places that are read."""
    out = torch.empty(where.size(0), 2, device=x.device)
    for t in tfl.tile(where.size(0)):
        j = where[t]
        out[t, 0], out[t, 1] = x[j, 4] - x[j, 5], x[j, 6] + x[j, 7]
    return out


@CASES.case(BYTES, wanted=lambda x: x[:, [3, 2, 1, 0, 5, 4, 7, 6]] ^ 1, t=16)
@tileflow.kernel
def bytes_of_words(x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for i, j in ((0, 3), (1, 2), (2, 1), (3, 0), (4, 5), (5, 4), (6, 7), (7, 6)):
            out[t, i] = x[t, j] ^ 1
    return out


@CASES.case(
    BOXES, wanted=lambda x: torch.where((x[:, :1] > 0), torch.cat([x[:, 2:], x[:, :2]], 1), torch.zeros_like(x)), t=16
)
@tileflow.kernel
def under_a_mask(x):
    """Two masks: each pair has one."""
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0)):
        keep = x[t, 0] > 0
        a, b = (tfl.load(x, [t, i], extra_mask=keep) for i in (2, 3))
        tfl.store(out, [t, 0], a, extra_mask=keep)
        tfl.store(out, [t, 1], b, extra_mask=keep)
        lower = keep & (a == a)
        tfl.store(out, [t, 2], x[t, 0], extra_mask=lower)
        tfl.store(out, [t, 3], x[t, 1], extra_mask=lower)
    return out


@CASES.case(rand(5, 200, 2), wanted=lambda x: torch.stack([(x**2).sum((1, 2)), x.amax((1, 2))], 1), r=2)
@tileflow.kernel
def reduced(x):
    """Loops over blocks of what is reduced load pairs, too."""
    out = torch.empty(x.size(0), 2, device=x.device)
    for r in tfl.tile(x.size(0)):
        re, im = x[r, :, 0], x[r, :, 1]
        out[r, 0] = (re * re + im * im).sum(1)
        out[r, 1] = torch.maximum(re, im).amax(1)
    return out


@CASES.case(BOXES.bfloat16(), wanted=lambda x: (x.float() * 2).bfloat16(), t=16)
@tileflow.kernel
def halves(x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        for i in range(4):
            out[t, i] = x[t, i].float() * 2
    return out


@CASES.case(rand(7, 20, 30, 3), wanted=lambda x: x.flip(-1) * 2, ty=4, tx=16)
@tileflow.kernel
def pixels(x):
    """Three channels: no pairs, and no dimension of the tile that runs on in memory."""
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([x.size(0), x.size(1), x.size(2)], block_size=[1, None, None]):
        for i in range(3):
            out[tb, ty, tx, 2 - i] = x[tb, ty, tx, i] * 2
    return out


@CASES.case(rand(7, 20, 9, 2), wanted=lambda x: torch.stack([-x[..., 1], x[..., 0]], -1), ty=4, tx=16)
@tileflow.kernel
def quarter_turns(x):
    """Pairs of a tile of three dimensions."""
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([x.size(0), x.size(1), x.size(2)]):
        out[tb, ty, tx, 0] = -x[tb, ty, tx, 1]
        out[tb, ty, tx, 1] = x[tb, ty, tx, 0]
    return out
