"""Mistakes of shapes; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: RUF059

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import tileflow.language as tfl
from tile_testing.mistakes.table import X, meta, mistake
from tileflow.errors import (
    ShapeError,
    TraceError,
)


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got 96 and 5", "shapes align at the right: ["),
    "x[tile, :] = math.exp",
)
def math_func(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = math.exp(x[0, :5])  # <-


@mistake(
    ShapeError,
    (
        "a reshape keeps the number of elements",
        "but got [tile, 96] as [tile, 5, 5]",
        "write sizes with the same product",
    ),
    "x[tile, :]",
)
def view_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, :].view(tile, 5, 5).sum(-1).sum(-1)  # <-


@mistake(
    TraceError,
    ("a tile is reinterpreted as a dtype of the", "but got float32 as float16", "convert by .to(dtype)"),
    "x[tile, :]",
)
def view_dtype(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].view(torch.float16)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 5", "count dimensions from 0, or from"), "x[tile, :]")
def squeeze_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].squeeze(5)  # <-


@mistake(
    ShapeError,
    ("permute names each of 2 dimensions once", "but got (0, 0)", "permute(1, 0) of two, (0, 2"),
    "x[tile, :]",
)
def permute_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].permute(0, 0)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 2", "count dimensions from 0, or from"), "x[tile, :]")
def permute_bad2(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].permute(0, 1, 2)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 3", "count dimensions from 0, or from"), "x[tile, :]")
def transpose_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].transpose(0, 3)  # <-


@mistake(ShapeError, ("a dimension must lie in [-3, 2]", "but got 5", "count dimensions from 0, or from"), "x[tile, :]")
def unsqueeze_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].unsqueeze(5)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 3", "count dimensions from 0, or from"), "x[tile, :]")
def flatten_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].flatten(3)  # <-


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got tile and 5", "shapes align at the right: ["),
    "x[tile, :]",
)
def expand_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].expand(5, 5)  # <-


@mistake(
    ShapeError,
    ("a reduction's dim must lie in [-2, 1]", "but got 4", "count dimensions from 0, or from"),
    "torch.softmax",
)
def softmax_dim(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.softmax(x[tile, :], dim=4)  # <-


@mistake(
    ShapeError,
    ("tiles that are joined have one shape", "but got [tile, 32] and [tile, 64]", "expand the smaller one"),
    "torch.cat",
)
def cat_unequal(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.cat([x[tile, 0:32], x[tile, 0:64]], 0)  # <-


@mistake(
    ShapeError,
    ("tiles that are joined have one shape", "but got [tile, 32] and [tile, 64]", "expand the smaller one"),
    "torch.stack",
)
def stack_unequal(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.stack([x[tile, 0:32], x[tile, 0:64]], 1).sum(1)  # <-


@mistake(TraceError, ("device code runs to its end while it is", "it runs once, while the kernel"), "torch.stack")
def stack_empty(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.stack([], 1).sum(1)  # <-


@mistake(
    ShapeError,
    (
        "tfl.split takes a tile whose last dimension is 2",
        "but got [tile, 96]",
        "reshape or permute it first; torch.chunk",
    ),
    "tfl.split",
)
def split_dim(x):
    for tile in tfl.tile(64):
        a, b = tfl.split(x[tile, :])  # <-
        x[tile, 0] = a


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got tile and 64", "shapes align at the right"),
    "tfl.join",
)
def join_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.join(x[tile, :], x[:, tile]).sum(-1).sum(-1)  # <-


@mistake(
    ShapeError,
    ("a tile of a loop is cut into a power of two", "but got tile in 5", "load the parts from the tensor"),
    "x[tile, :]",
)
def chunk3(x):
    for tile in tfl.tile(64):
        a, b, c, d, e = x[tile, :].chunk(5, 0)  # <-
        x[tile, 0] = a.sum(1)


@mistake(
    TraceError,
    ("a tile of indices holds ints", "but got float32", "boolean masks select with torch.where"),
    "torch.gather",
)
def gather_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.gather(x[tile, :], 1, x[tile, :])  # <-


# finding 1: these normalised over the whole block, so that its size changed the result
@mistake(ShapeError, ("softmax without dim normalises a whole dimension", "loop `tile`", "say dim=0"), "F.softmax")
def softmax_of_a_block(x):
    for tile in tfl.tile(96):
        x[0, tile] = F.softmax(x[0, tile])  # <-


@mistake(ShapeError, ("softmin without dim", "dimension 1, of which a block of the loop `tile_n`"), "F.softmin")
def softmin_of_a_block(x):
    for tile_m, tile_n in tfl.tile([64, 96]):
        x[tile_m, tile_n] = F.softmin(x[tile_m, tile_n])  # <-


@mistake(ShapeError, ("log_softmax without dim", "accumulate over the loop"), "F.log_softmax")
def log_softmax_of_a_block(x):
    for tile in tfl.tile(96):
        x[0, tile] = F.log_softmax(x[0, tile])  # <-


# finding 7: it ran, and what it returned was never written
@mistake(TraceError, ("an outermost tile loop stores what it computes", "a launch without an effect"), "for tile")
def without_effect(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(64):  # <-
        x[tile, :] * 2
    return out


@mistake(TraceError, ("a tile in registers is sliced between ints and sizes", "tile int32[]", "index the tensor"), "r[")
def slice_of_a_tile_by_a_loaded_number(x):
    for tile in tfl.tile(64):
        r = x[tile, :]
        x[tile, :] = r[:, : x[0, 0].int()]  # <-


@mistake(
    TraceError,
    ("the ends of a slice are sizes, or scalars of int32 or int64", "but got one of int8", "s = s.int()"),
    "x[0, s",
    X,
    meta(64, dtype=torch.int8),
)
def slice_from_a_narrow_start(x, n):
    for tile in tfl.tile(64):
        s = n[0]
        x[tile, 0] = x[0, s : s + 4].sum()  # <-
