"""Mistakes of tile loops; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007, RUF059, RET503

from __future__ import annotations

import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import SplitError, TraceError


@mistake(
    TraceError,
    ("a variable is assigned on every way to its", "but got y without a value", "assign it before the loop, or"),
    "y.sum",
)
def tile_after_loop(x):
    for tile in tfl.tile(x.size(0)):
        for tile_k in tfl.tile(x.size(1)):
            y = x[tile, tile_k]
        x[tile, 0] = y.sum(1)  # <-


@mistake(SplitError, ("the loop variable tile_k has no value after its", "assign it to another name inside"), "tile_k")
def loopvar_after(x):
    for tile in tfl.tile(x.size(0)):
        for tile_k in tfl.tile(x.size(1)):
            x[tile, tile_k] = 0
        x[tile, tile_k] = 1  # <-


@mistake(SplitError, ("host code cannot read tile, which the tile loop", "the iterations of an outermost tile"), "tile")
def loopvar_after_host(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = 0
    return tile  # <-


@mistake(
    TraceError,
    (
        "a loop in device code runs over tfl.tile, tfl.grid",
        "but got tile float32[tile, 96]",
        "for i in range(n), for t",
    ),
    "for",
)
def iter_tile(x):
    for tile in tfl.tile(x.size(0)):
        for row in x[tile, :]:  # <-
            x[tile, 0] = row


@mistake(
    TraceError,
    (
        "a loop in device code runs over tfl.tile, tfl.grid",
        "but got tensor x: float32[64, 96]",
        "for i in range(n), for t",
    ),
    "for",
)
def iter_captured(x):
    for tile in tfl.tile(x.size(0)):
        for row in x:  # <-
            x[tile, 0] = 1


@mistake(
    TraceError,
    (
        "a tile has no Python iteration while the kernel",
        "but got a tile of type float32[tile, 96]",
        "reduce it: x.sum(0), x.amax(0)",
    ),
    "a",
)
def list_tile(x):
    for tile in tfl.tile(x.size(0)):
        a, b = x[tile, :]  # <-
        x[tile, 0] = a


@mistake(
    TraceError,
    (
        "a tile has no Python iteration while the kernel",
        "but got a tile of type float32[tile, 96]",
        "reduce it: x.sum(0), x.amax(0)",
    ),
    "sum",
)
def sum_builtin(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = sum(x[tile, :])  # <-


@mistake(
    TraceError,
    (
        "a tile has no Python iteration while the kernel",
        "but got a tile of type float32[tile, 96]",
        "reduce it: x.sum(0), x.amax(0)",
    ),
    "max",
)
def max_builtin(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = max(x[tile, :])  # <-


@mistake(SplitError, ("a tile loop of host code must be a", "write `for tile in ...:` at"), "tfl.tile")
def enumerate_tile(x):
    for i, tile in enumerate(tfl.tile(x.size(0))):  # <-
        x[tile, :] = i


@mistake(
    TraceError,
    ("a tile loop in device code is a for", "but got tfl.tile or tfl.grid", "count with tile.id in place of"),
    "enumerate",
)
def enumerate_tile_inner(x):
    for tile in tfl.tile(x.size(0)):
        for i, tile_k in enumerate(tfl.tile(x.size(1))):  # <-
            x[tile, tile_k] = i


@mistake(SplitError, ("a tile loop of host code must be a", "write `for tile in ...:` at"), "tfl.tile")
def aliased_tile_iter(x):
    it = tfl.tile(x.size(0))  # <-
    for tile in it:
        x[tile, :] = 0


@mistake(SplitError, ("a tile loop of host code must be a", "write `for tile in ...:` at"), "tfl.tile")
def nested_fn_loop(x):
    def g():
        for tile in tfl.tile(x.size(0)):  # <-
            x[tile, :] = 0

    g()


@mistake(SplitError, ("a tile loop of host code must be a", "write `for tile in ...:` at"), "tfl.tile")
def return_helper_loop(x):
    def h(tile):
        for tile_k in tfl.tile(x.size(1)):  # <-
            return x[tile, tile_k]

    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = h(tile)


@mistake(
    TraceError,
    ("a loop has a begin, an end and a", "but got 2, 2 and 1 of them", "tfl.tile([a, b], [m, n], block_size=[16, 32])"),
    "tfl.tile",
)
def tile_block_lengths(x):
    for a, b in tfl.tile([64, 96], block_size=[16]):  # <-
        x[a, b] = 0


@mistake(
    TraceError,
    ("a loop has a begin, an end and a", "but got 2, 1 and 1 of them", "tfl.tile([a, b], [m, n], block_size=[16, 32])"),
    "tfl.tile",
)
def tile_lengths(x):
    for a, b in tfl.tile([0, 0], [64]):  # <-
        x[a, b] = 0


@mistake(
    TraceError,
    ("a tile loop has a variable for each axis", "but got a, b for 1 axes", "for a, b in tfl.tile([m, n])"),
    "for",
)
def tile_unpack(x):
    for a, b in tfl.tile(64):  # <-
        x[a, b] = 0


@mistake(
    TraceError,
    ("a tile loop has a variable for each axis", "but got a, b, c for 2 axes", "for a, b in tfl.tile([m, n])"),
    "for",
)
def tile_unpack_3(x):
    for a, b, c in tfl.tile([64, 96]):  # <-
        x[a, b] = 0


@mistake(TraceError, ("a tile of a loop is an index and", "but got __iter__ of a", "a.index is the 1-D tile of"), "a")
def tile_unpack_inner(x):
    for tile in tfl.tile(64):
        for a, b in tfl.tile(96):  # <-
            x[tile, a] = 0


@mistake(TraceError, ("device code runs to its end while it is", "it runs once, while the kernel"), "a")
def tile_unpack_inner3(x):
    for tile in tfl.tile(64):
        for a, b, c in tfl.tile([96, 3]):  # <-
            x[tile, a] = 0


@mistake(
    TraceError,
    ("a loop's bound must be a size, a block size or an int", "but got 64.0", "divide sizes by //, or int(x)"),
    "tfl.tile",
)
def tile_float(x):
    for tile in tfl.tile(64.0):  # <-
        x[tile, :] = 0


@mistake(TraceError, ("an outermost loop's bounds are ints", "pass sizes: tensor.size(0), n // 2"), "tfl.tile")
def tile_tensor_arg(x):
    for tile in tfl.tile(x):  # <-
        x[tile, :] = 0


@mistake(TraceError, ("a loop's bound must be a size, a block", "but got 9.5", "divide sizes by //"), "tfl.tile")
def tile_float_inner(x):
    for tile in tfl.tile(64):
        for tile_k in tfl.tile(9.5):  # <-
            x[tile, tile_k] = 0


@mistake(TraceError, ("a loop's bound must be a size, a block", "but got 48.0", "divide sizes by //"), "tfl.tile")
def tile_div_inner(x):
    for tile in tfl.tile(64):
        for tile_k in tfl.tile(x.size(1) / 2):  # <-
            x[tile, tile_k] = 0


@mistake(
    TraceError,
    ("tfl.tile must be called as tileflow implements it", "docs/reference/language.md lists the operations, and what"),
    "tfl.tile",
)
def tile_none(x):
    for tile in tfl.tile():  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("tfl.tile must be called as tileflow implements it", "docs/reference/language.md lists the operations, and what"),
    "tfl.tile",
)
def tile_kw(x):
    for tile in tfl.tile(64, blocksize=16):  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("a block size is an int of 1 or", "but got 0", "let the config choose it: tfl.register_block_size(high)"),
    "tfl.tile",
)
def tile_block_zero(x):
    for tile in tfl.tile(64, block_size=0):  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("a block size is an int of 1 or", "but got 16.0", "let the config choose it: tfl.register_block_size(high)"),
    "tfl.tile",
)
def tile_block_float(x):
    for tile in tfl.tile(64, block_size=16.0):  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("tile.count is known for loops over sizes only", "but got tile_k", "compute it from the bounds: (end"),
    "tile_k.count",
)
def tile_id_inner_count(x):
    for tile in tfl.tile(64):
        for tile_k in tfl.tile(tile.end):
            x[tile, 0] = tile_k.count  # <-


@mistake(
    TraceError,
    (
        "a barrier stands between two outermost tile loops",
        "but got one inside a tile loop",
        "end the loop, call tfl.barrier(), and",
    ),
    "tfl.barrier",
)
def barrier_inside(x):
    for tile in tfl.tile(64):
        tfl.barrier()  # <-
        x[tile, :] = 0
