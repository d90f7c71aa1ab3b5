"""Mistakes of indices and captured values; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007

from __future__ import annotations

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import (
    MissingAttribute,
    ShapeError,
    TraceError,
)


def XX(x):
    return x[0, 0].int()


# ---- indices -------------------------------------------------------------------------------------


@mistake(
    TraceError,
    ("an index is a tile, a slice, an int", "but got 1.5", "write x[tile, 0]; convert floats by"),
    "x[tile, 1.5]",
)
def float_index(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, 1.5]  # <-


@mistake(
    TraceError,
    ("a tile of indices holds ints", "but got float32", "boolean masks select with torch.where or"),
    "x[tile, v[0]",
    X,
    V,
)
def float_index_tile(x, v):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, v[0]]  # <-


@mistake(
    TraceError,
    ("an index is a tile, a slice, an int", "but got 'a'", "write x[tile, 0]; convert floats by"),
    'x[tile, "a"]',
)
def str_index(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, "a"]  # <-


@mistake(
    TraceError,
    ("an index is a tile, a slice, an int", "but got [0, 1]", "as a tile of them: torch.tensor([0, 1])"),
    "x[tile, [0, 1]",
)
def list_index(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, [0, 1]].sum(1)  # <-


@mistake(
    ShapeError,
    ("an index must lie inside x", "but got 200 in a dimension of 96", "count from 0, or from -1"),
    "x[tile, 200]",
)
def too_few_scalar_index_neg(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, 200]  # <-


@mistake(
    TraceError,
    ("a slice has a length in sizes and block", "but got tile int32[] : 5", "loop over what only the kernel"),
    "x[tile, XX(x) : 5]",
)
def slice_unknown(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, XX(x) : 5].sum(1)  # <-


@mistake(
    TraceError,
    ("a slice has a length in sizes and block", "tile's end is cut", "tile.begin + tile.block_size"),
    "x[0, tile.begin : tile.end + 2]",
)
def slice_with_a_halo(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[0, tile.begin : tile.end + 2].sum()  # <-


@mistake(
    TraceError,
    ("a slice has a length in sizes and block", "but got 0 : tile int32[]", "loop over what only the kernel"),
    "x[tile, 0:n]",
)
def slice_unknown2(x):
    for tile in tfl.tile(64):
        n = x[0, 0].int()
        x[tile, 0] = x[tile, 0:n].sum(1)  # <-


@mistake(
    TraceError,
    ("a slice is between ints, sizes and integer scalars", "but got 1.5", "divide sizes by //, convert a"),
    "x[tile, 0:1.5]",
)
def slice_float(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, 0:1.5].sum(1)  # <-


@mistake(
    ShapeError,
    ("a tile must not run past the end of", "loop over tfl.tile(x.size(...)), or use extra_mask="),
    "x[tile, :] = 0",
)
def tile_too_long(x):
    for tile in tfl.tile(100):
        x[tile, :] = 0  # <-


@mistake(
    ShapeError,
    (
        "a stored tile must broadcast to the index",
        "but got [tile, 96, 1] for [tile, 96]",
        "reduce it with .sum(dim), take an",
    ),
    "x[tile, :] = x[tile, :]",
)
def store_rank(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :][:, :, None]  # <-


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got 96 and 64", "shapes align at the right: ["),
    "x[tile, :] = x[:, 0]",
    X,
    V,
)
def store_shape(x, v):
    for tile in tfl.tile(64):
        x[tile, :] = x[:, 0]  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or", "but got str 'a'", "combine tiles with tiles, sizes and"),
    "x[tile, :]",
)
def store_str(x):
    for tile in tfl.tile(64):
        x[tile, :] = "a"  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or", "but got NoneType None", "choose by `if x is not"),
    "x[tile, :] = None",
)
def store_none(x):
    for tile in tfl.tile(64):
        x[tile, :] = None  # <-


@mistake(
    TraceError,
    ("a captured tensor is read in a tile loop", "but got tensor x: float32[64, 96]", "load a tile first: x[...]"),
    "x[tile, :] = x",
)
def store_captured(x):
    for tile in tfl.tile(64):
        x[tile, :] = x  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or", "but got list [1, 2]", "pass the numbers to the kernel"),
    "x[tile, 0:2]",
)
def store_list(x):
    for tile in tfl.tile(64):
        x[tile, 0:2] = [1, 2]  # <-


@mistake(
    ShapeError,
    ("an index of x has at most 2 items", "but got 3", "index each dimension once; [:, None]"),
    "x[*[tile, 0, 0]",
)
def starred_index(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[*[tile, 0, 0]]  # <-


@mistake(
    TraceError,
    ("a tile's indices are tile.index", "but got tile as a value", "tile.index is the 1-D tile of"),
    "x[tile, :] = tile",
)
def tile_as_value(x):
    for tile in tfl.tile(64):
        x[tile, :] = tile  # <-


@mistake(
    TraceError,
    ("a tile's indices are tile.index", "but got tile as a value", "tile.index is the 1-D tile of"),
    "x[tile, :] * tile",
)
def tile_plus(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] * tile  # <-


@mistake(
    TraceError,
    ("a tile of a loop is an index and", "but got __lt__ of tile", "tile.index is the 1-D tile of"),
    "tile < 3",
)
def tile_compare(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(tile < 3, 0, 1)  # <-


@mistake(
    TraceError,
    ("a tile of a loop is an index and", "but got __mul__ of tile", "tile.index is the 1-D tile of"),
    "tile * 2",
)
def tile_times(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile * 2, :]  # <-


@mistake(
    MissingAttribute,
    ("a tile of a loop has index, begin, end", "but got tile.start", "torch's methods are those of what"),
    "tile.start",
)
def unknown_attr_tile(x):
    for tile in tfl.tile(64):
        x[tile, :] = tile.start  # <-


@mistake(
    TraceError,
    ("tfl.load reads a tensor that reaches the kernel", "but got tile float32[tile, 96]", "tfl.load(x, [tile])"),
    "tfl.load",
)
def load_tile(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.load(x[tile, :], [tile, 0])  # <-


@mistake(
    TraceError,
    ("tfl.store writes to a tensor that reaches the kernel", "but got tile float32[tile, 96]", "tfl.store(out, [tile]"),
    "tfl.store",
)
def store_register(x):
    for tile in tfl.tile(64):
        tfl.store(x[tile, :], [tile, 0], 1)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 5", "count dimensions from 0, or from"), "x.size")
def captured_shape_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x.size(5)  # <-


@mistake(
    TraceError,
    (
        "device code runs to its end while it is",
        "but got IndexError: tuple index out of range",
        "it runs once, while the kernel",
    ),
    "x.shape[5]",
)
def captured_shape_bad2(x):
    for tile in tfl.tile(64):
        x[tile, :] = x.shape[5]  # <-


@mistake(
    MissingAttribute,
    ("a name of a module or an object in", "see docs/reference/language.md for what there is"),
    "x.foo = 1",
)
def captured_assign_attr(x):
    for tile in tfl.tile(64):
        x.foo = 1  # <-


@mistake(
    TraceError,
    ("a tile in registers cannot be assigned to by index", "store by one index, x[tile, 1:3] = x[tile, 0:2]"),
    "x[tile, :][:, 1:3]",
)
def store_through_a_view(x):
    for tile in tfl.tile(64):
        x[tile, :][:, 1:3] = x[tile, 0:2]  # <-


@mistake(
    TraceError,
    ("what is stored through a part of a tensor is known to lie inside it", "got tile int32[tile] of a part of"),
    "row[tile.index + 1]",
)
def store_beyond_a_part(x):
    for i in tfl.grid(64):
        row = x[i, 2:10]
        for tile in tfl.tile(8):
            row[tile.index + 1] = 0  # <-


@mistake(
    TraceError,
    ("is of one part of a tensor in all turns of a loop", "take the part inside the loop"),
    "a[n]",
)
def parts_that_change_places(x):
    for i in tfl.grid(32):
        a, b = x[2 * i], x[2 * i + 1]
        for n in range(x.size(1)):
            a[n] = b[n]  # <-
            a, b = b, a


@mistake(ShapeError, ("an index must lie inside x", "96 in a dimension of 96"), "row[96]")
def store_behind_a_part(x):
    for i in tfl.grid(64):
        row = x[i]
        row[96] = 0  # <-


# ---- torch's functions of whole tensors ---------------------------------------------------------


@mistake(MissingAttribute, ("but got x.index_select", "read it by a tile of ints: x[index, :]"), "torch.index_select")
def select_of_a_tensor(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.index_select(x, 0, tile.index)  # <-


@mistake(
    MissingAttribute, ("but got x.gather", "read it by tiles of ints", "x[tile.index[:, None], index]"), "x.gather"
)
def gather_of_a_tensor(x):
    for tile in tfl.tile(64):
        x[tile, :] = x.gather(1, tile.index[:, None])  # <-


@mistake(MissingAttribute, ("but got x.index_add_", "tfl.atomic_add(x, [index, tile], value)"), "x.index_add_")
def addition_to_a_tensor(x):
    for tile in tfl.tile(64):
        x.index_add_(0, tile.index, x[tile, :])  # <-


@mistake(TraceError, ("a captured tensor is read in a tile loop by indexing it", "but got tensor x"), "torch.roll")
def an_operation_of_a_tensor(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.roll(x, 1, 0)  # <-


@mistake(
    MissingAttribute,
    ("but got .scatter_add_", "into a tensor: tfl.atomic_add(", "in registers torch.where(index[:, None] =="),
    "x[0, :]",
)
def addition_to_a_tile(x):
    for tile in tfl.tile(64):
        x[0, :].scatter_add_(0, tile.index, x[tile, 0])  # <-


@mistake(
    ShapeError,
    ("the indices of a gather have the tile's other", "but got [tile, 96] by [tile]", "tile.gather(1, index[:, None])"),
    "torch.gather",
)
def gather_by_a_vector(x):
    for tile in tfl.tile(64):
        x[tile, 0] = torch.gather(x[tile, :], 1, tile.index)  # <-


@mistake(
    ShapeError,
    (
        "a stored tile must broadcast to the index",
        "but got [tile, tile_n, tile, tile_n] for [tile, tile_n]",
        "one element for each pair of lanes: x[tile.index[:, None], tile_n.index[None, :], y[tile, tile_n]]",
    ),
    "out",
    meta(4, 8, 16),
    meta(4, 8, dtype=torch.int64),
)
def pairs_of_lanes(x, y):
    out = torch.empty(y.shape)
    for tile, tile_n in tfl.tile(y.shape):
        out[tile, tile_n] = x[tile, tile_n, y[tile, tile_n]]  # <-


@mistake(
    TraceError,
    ("computed in as many bits", "one of int32 up to 4899930005", "tile.index.long() * n"),
    "flat[",
    meta(70000, 70000, dtype=torch.int8),
)
def place_beyond_32_bits(x):
    flat = x.view(-1)
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = flat[tile.index * x.size(1) + 5]  # <-
