"""Mistakes of jagged tiles; see table.py."""

from __future__ import annotations

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import TraceError


@mistake(TraceError, ("an operand must be a tile, a size or", "combine tiles with tiles, sizes and"), "tfl.jagged_tile")
def jagged_outer(x):
    for tile in tfl.jagged_tile(x):  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    (
        "jagged_tile takes a 1-D tile of ints over the",
        "but got tile float32[tile, 96]",
        "load one length for each lane",
    ),
    "tfl.jagged_tile",
    X,
    V,
)
def jagged_2d(x, v):
    for tile in tfl.tile(64):
        for j in tfl.jagged_tile(x[tile, :]):  # <-
            x[tile, j] = 0


@mistake(
    TraceError,
    ("jagged_tile takes a 1-D tile of ints over the", "but got tile float32[tile]", "load one length for each lane"),
    "tfl.jagged_tile",
    X,
    meta(64),
)
def jagged_float(x, v):
    for tile in tfl.tile(64):
        for j in tfl.jagged_tile(v[tile]):  # <-
            x[tile, j] = 0


@mistake(
    TraceError,
    ("a captured tensor is read in a tile loop", "but got tensor v: int32[64]", "load a tile first: v[...]"),
    "tfl.jagged_tile",
    X,
    meta(64, dtype=torch.int32),
)
def jagged_captured(x, v):
    for tile in tfl.tile(64):
        for j in tfl.jagged_tile(v):  # <-
            x[tile, j] = 0


@mistake(
    TraceError,
    ("jagged_tile takes a 1-D tile of ints over the", "but got 5", "load one length for each lane"),
    "tfl.jagged_tile",
)
def jagged_int(x):
    for tile in tfl.tile(64):
        for j in tfl.jagged_tile(5):  # <-
            x[tile, j] = 0


@mistake(
    TraceError,
    ("statistics over a jagged tile are made of sums", "but got j", "accumulate sums over the loop, and"),
    "x[tile, j]",
    X,
    meta(64, dtype=torch.int32),
)
def jagged_mean(x, v):
    for tile in tfl.tile(64):
        for j in tfl.jagged_tile(v[tile]):
            x[tile, 0] = x[tile, j].mean(1)  # <-
