"""Mistakes of loops; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007, RUF059, RET503

from __future__ import annotations

import enum

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import (
    SplitError,
    TraceError,
)


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
    ("a loop of Python ends while the kernel is", "but got 20000 conditions", "count by a Python int, or"),
    "True",
)
def tile_in_while(x, _=0):
    for tile in tfl.tile(64):
        while True:  # <-
            x[tile, 0] = 0


@mistake(TraceError, ("device code runs to its end while it is", "it runs once, while the kernel"), "range")
def range_step0(x):
    for tile in tfl.tile(64):
        for i in range(0, 5, 0):  # <-
            x[tile, i] = 0


@mistake(
    TraceError,
    (
        "a loop's bound is an integer scalar",
        "but got tile float32[tile]",
        "reduce a tile first: lengths[tile].max(); convert",
    ),
    "for",
)
def range_tile(x):
    for tile in tfl.tile(64):
        for i in range(x[tile, 0]):  # <-
            x[tile, i] = 0


@mistake(
    TraceError,
    (
        "a loop's bound is an integer scalar",
        "but got tile float32[]",
        "reduce a tile first: lengths[tile].max(); convert",
    ),
    "for",
)
def range_float(x):
    for tile in tfl.tile(64):
        for i in range(x[0, 0]):  # <-
            x[tile, 0] = 0


@mistake(
    SplitError, ("device code cannot contain break out of a tile", "bound the loop instead: tile(begin, end)"), "break"
)
def break_grid(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = 0
        break  # <-


@mistake(
    TraceError,
    ("are decided while the kernel is compiled", "but got a condition of the kernel, tile bool[]", "while i < n and"),
    "x[0, 0] > 3",
)
def break_scalar_if(x):
    for tile in tfl.tile(x.size(0)):
        for i in range(4):
            if x[0, 0] > 3:  # <-
                break
            x[tile, i] = i


@mistake(
    TraceError,
    (
        "a while with break, return or := is a loop of Python",
        "but got a condition of the kernel, tile bool[]",
        "let the condition end it: while top >= 1 and not (x[0, top - 1] < 0)",
    ),
    "break",
)
def break_of_a_device_while(x):
    for tile in tfl.tile(x.size(0)):
        top = x[0, 0].int()
        while top >= 1:
            if x[0, top - 1] < 0:
                break  # <-
            top -= 1
        x[tile, 0] = top


@mistake(
    TraceError, ("is a loop of Python", "tile bool[]", "let the condition end it: while top >= 1 and st["), "break"
)
def late_break_of_a_device_while(x):
    for tile in tfl.tile(x.size(0)):
        top = x[0, 0].int()
        while top >= 1:
            top -= 1
            if top == 40:
                continue
            if x[0, top] < 0:
                break  # <-
        x[tile, 0] = top


@mistake(TraceError, ("is a loop of Python", "tile bool[]", "assign in statements of their own"), "(top := top - 1)")
def assignment_in_a_device_while(x):
    for tile in tfl.tile(x.size(0)):
        top = x[0, 0].int()
        while (top := top - 1) >= 1:  # <-
            x[tile, top] = 0


@mistake(TraceError, ("are decided while the kernel", "let the condition end it: while not (top < 1)"), "top < 1")
def device_break_of_while_true(x):
    for tile in tfl.tile(x.size(0)):
        top = x[0, 0].int()
        while True:
            if top < 1:  # <-
                break
            top -= 1
        x[tile, 0] = top


@mistake(
    TraceError,
    ("ends for all lanes of a program at once", "but got the condition", "while (condition).any(), with what"),
    "i < 3",
)
def while_on_lanes(x):
    for tile in tfl.tile(64):
        i = x[tile, 0].int()
        while i < 3:  # <-
            i = i + 1
        x[tile, 0] = i


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


@mistake(
    TraceError,
    (
        "an if, and, or, not, while and a chained comparison in device code take scalars",
        "but got tile float32[tile, 96]",
        "torch.where(a != 0, a, b)",
    ),
    "x[tile, :]",
)
def or_of_numbers(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] or 1.0  # <-


OF_CONDITIONS = (
    "an if, and, or, not, while and a chained comparison in device code take scalars",
    "but got tile bool[tile, 96]",
    "conditions are (a) & (b), (a) | (b), ~a",
)


@mistake(TraceError, OF_CONDITIONS, "-0.5 < x[tile, :] < 0.5")
def chain_of_tiles(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(-0.5 < x[tile, :] < 0.5, 1.0, 0.0)  # <-


@mistake(TraceError, OF_CONDITIONS, "(x[tile, :] > 0) and (x[tile, :] < 1)")
def and_of_tiles(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where((x[tile, :] > 0) and (x[tile, :] < 1), 1.0, 0.0)  # <-


@mistake(TraceError, OF_CONDITIONS, "not x[tile, :] > 0")
def not_of_a_tile(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(not x[tile, :] > 0, 1.0, 0.0)  # <-


@mistake(TraceError, ("a tile has no Python truth value while the", "(x == 2) | (x == 3)"), "x[0, 0].int() in")
def number_in_numbers(x):
    for tile in tfl.tile(64):
        if x[0, 0].int() in (2, 3):  # <-
            x[tile, :] = 0


@mistake(TraceError, ("Python's dictionaries and sets are of what Python knows", "(x == 2) | (x == 3)"), "i in")
def number_in_a_set(x):
    for tile in tfl.tile(64):
        for i in range(20):
            if i in {2, 3}:  # <-
                x[tile, i] = 0


@mistake(
    TraceError, ("Python's dictionaries and sets are of what", "a range of up to 16 turns", "static_range"), "w.get"
)
def dictionary_by_a_long_ranges_counter(x):
    w = {3: 1.0}
    for tile in tfl.tile(64):
        for i in range(20):
            x[tile, i] = w.get(i, 0.0)  # <-


@mistake(TraceError, ("indexed by a tile or a scalar", "a range of up to 16 turns is written out"), "w[i]")
def list_by_a_long_ranges_counter(x):
    w = [1.0] * 20
    for tile in tfl.tile(64):
        for i in range(20):
            x[tile, i] = w[i]  # <-


@mistake(TraceError, ("keeps its length in the loops", "a range of up to 16 turns is written out"), "for i")
def list_that_grows_in_a_long_range(x):
    for tile in tfl.tile(64):
        parts = []
        for i in range(20):  # <-
            parts.append(x[tile, i])
        x[tile, 0] = sum(parts)


class Colour(enum.Enum):
    RED = 1


@mistake(
    TraceError, ("an operand must be a tile, a size or a number", "Colour", ".value", "enum.IntEnum"), "x[tile, :]"
)
def member_of_an_enum_as_a_number(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] * Colour.RED  # <-


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
    ("a tile is sorted by keys of 32 bits", "float64", "with a loss"),
    "torch.sort",
    meta(64, 96, dtype=torch.float64),
)
def sort_of_doubles(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.sort(x[tile, :], 1).values  # <-


@mistake(TraceError, ("keys of 32 bits", "int64", "wrap around"), "torch.sort", meta(64, 96, dtype=torch.int64))
def sort_of_wide_ints(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.sort(x[tile, :], 1).values  # <-


@mistake(
    TraceError,
    ("what Python goes through while the kernel is compiled", "got range(0, tile int32[]~, 1)", "a for statement"),
    "range(tile.id)",
)
def comprehension_over_a_loaded_length(x):
    for tile in tfl.tile(64):
        x[tile, 0] = sum([x[tile, i] for i in range(tile.id)])  # <-


@mistake(TraceError, ("is as long as sizes say", "while i < n and x[i] > 0"), "range")
def break_of_a_loaded_length(x):
    for tile in tfl.tile(64):
        for i in range(x[0, 0].int()):  # <-
            if i == 2:
                break
            x[tile, i] = i


@mistake(TraceError, ("is as long as sizes say", "a for statement"), "enumerate")
def enumerate_of_a_loaded_length(x):
    for tile in tfl.tile(64):
        for i, j in enumerate(range(x[0, 0].int())):  # <-
            x[tile, i] = j
