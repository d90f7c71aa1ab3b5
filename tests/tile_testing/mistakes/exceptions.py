"""What Python raises while device code is recorded, and what it would have raised for numbers; see table.py."""

from __future__ import annotations

import torch.nn.functional as F

import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import ShapeError, TraceError

SCALES, NAMED = [1.0, 2.0], {"scale": 2.0}

BY_PYTHON = ("a divisor of device code that Python computes is not 0", "max(n, 1)")
OF_A_SIZE = ("a size is divided by another number than 0", "max(n, 1)")
ENDS = "device code runs to its end while it is recorded"


@mistake(TraceError, (*BY_PYTHON, "integer division or modulo by zero"), "64 // 0")
def number_by_zero(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = 64 // 0  # <-


@mistake(TraceError, BY_PYTHON, "n //= 0")
def updated_by_zero(x):
    for tile in tfl.tile(x.size(0)):
        n = 64
        n //= 0  # <-
        x[tile, 0] = n


@mistake(TraceError, (*OF_A_SIZE, "x.shape.0 by 0"), "n %= 0", mode="dynamic")
def size_updated_by_zero(x):
    for tile in tfl.tile(x.size(0)):
        n = x.size(0)
        n %= 0  # <-
        x[tile, 0] = n


@mistake(TraceError, OF_A_SIZE, "x.size(0) // 0", mode="dynamic")
def size_by_zero(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.size(0) // 0  # <-


@mistake(TraceError, OF_A_SIZE, "x.size(0) / 0", mode="dynamic")
def fraction_of_a_size(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.size(0) / 0  # <-


@mistake(TraceError, (*OF_A_SIZE, "block:tile by 0"), "tile.block_size % 0")
def block_by_zero(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = tile.block_size % 0  # <-


@mistake(TraceError, BY_PYTHON, "for i", mode="dynamic")
def range_in_steps_of_zero(x):
    for tile in tfl.tile(x.size(0)):
        for i in range(0, x.size(1), x.size(0) - 64):  # <-
            x[tile, i] = 0


@mistake(
    TraceError, ("a size is shifted by 0 bits or more", "by -1", "the other way"), "x.size(0) << -1", mode="dynamic"
)
def size_shifted_backwards(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.size(0) << -1  # <-


@mistake(TraceError, (ENDS, "IndexError: list index out of range"), "SCALES[5]")
def item_of_a_list(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = SCALES[5]  # <-


@mistake(TraceError, (ENDS, "KeyError: 'bias'"), 'NAMED["bias"]')
def key_of_a_dictionary(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = NAMED["bias"]  # <-


@mistake(TraceError, ("can only concatenate str", "it runs as Python once", "run_eagerly"), '"a" + 1')
def text_and_number(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = "a" + 1  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 7"), "x.stride(7)")
def stride_of_no_dimension(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.stride(7)  # <-


# ---- arguments of torch's functions, of which ours raised -------------------------------------------------------


@mistake(ShapeError, "avg_pool1d's window fits", "F.avg_pool1d")
def window_in_steps_of_zero(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = F.avg_pool1d(x[tile, :], 2, 0)  # <-


@mistake(ShapeError, ("adaptive_max_pool1d's windows tile the dimension", "[0] of [96]"), "F.adaptive_max_pool1d")
def no_windows(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = F.adaptive_max_pool1d(x[tile, :], 0)  # <-


@mistake(ShapeError, ("a destination for each source", "(0,) to (1, 0)"), "x[tile, :].movedim")
def more_destinations(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].movedim((0,), (1, 0))  # <-


@mistake(ShapeError, "a slice of a tile in registers has elements", "row[:, ::0]")
def slice_in_steps_of_zero(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        x[tile, :] = row[:, ::0]  # <-


@mistake(TraceError, ("torch.flip must be called as", "dims"), "x[tile, :].flip")
def flip_of_nothing(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].flip()  # <-


@mistake(ShapeError, ("normalized_shape must be the tile's last sizes", "[4, 64, 96]"), "F.rms_norm")
def too_many_dimensions_to_normalise(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = F.rms_norm(x[tile, :], (4, 64, 96))  # <-
