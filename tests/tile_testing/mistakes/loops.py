"""Mistakes that were accepted, or ended in Python's own error: loops, branches, shared results; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B006, B007, B023, F841

from __future__ import annotations

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import ShapeError, SplitError, TraceError

EMPTY = ("a tile loop does something with its tiles", "but got an empty body", "leave the loop out")
NO_STORE = ("an outermost tile loop stores what it computes", "but got a launch without an effect")
OVER_A_TILE = ("a loop runs over sizes and scalars", "but got the tile tile", "tfl.tile(tile.begin, tile.end)")
WRONG_WAY = ("a loop's begin is at most its end", "for a box write its sizes as a list")
BEFORE_0 = ("a loop begins at 0 or later", "x[tile - 4]")
ONE_SHAPE = ("both branches of a device if give a name tiles of one shape", ".expand(...)")
STEP = ("a grid's step is an int of 1 or more", "n - 1 - i")
BLOCK = ("a block size is an int of 1 or more", "tfl.register_block_size(high)")
OVERWRITES = ("programs that run in parallel do not overwrite each other's results", "tfl.atomic_add")
DEFAULTS = ("a function of device code keeps the defaults of its parameters", "default to None")
NO_TEXT = ("a tile has no text while the kernel is compiled", "but got the tile tile")


# ---- loops that do nothing ----------------------------------------------------------------------


@mistake(SplitError, EMPTY, "for tile in")
def empty_loop(x):
    for tile in tfl.tile(x.size(0)):  # <-
        pass


@mistake(SplitError, EMPTY, "for tile in")
def loop_of_an_ellipsis(x):
    for tile in tfl.tile(x.size(0)):  # <-
        ...


@mistake(SplitError, EMPTY, "for tile in")
def loop_of_a_text(x):
    for tile in tfl.tile(x.size(0)):  # <-
        "To be written."


@mistake(SplitError, EMPTY, "for tile_n in")
def empty_loop_inside(x):
    for tile in tfl.tile(x.size(0)):
        for tile_n in tfl.tile(x.size(1)):  # <-
            pass
        x[tile, 0] = 1


@mistake(TraceError, NO_STORE, "for tile in")
def loop_without_a_store(x):
    for tile in tfl.tile(x.size(0)):  # <-
        y = x[tile, :] * 2


# finding 14.7: whatever Python had chosen or written out in the loop, it ran and what it returned was never written
@mistake(TraceError, NO_STORE, "for tile in", X, True)
def an_if_without_a_store(x, doubled):
    for tile in tfl.tile(x.size(0)):  # <-
        y = x[tile, :]
        if doubled:
            y = torch.exp(y) * 2


@mistake(TraceError, NO_STORE, "for tile in")
def turns_without_a_store(x):
    for tile in tfl.tile(x.size(0)):  # <-
        parts = [0, 0]
        for i in range(2):
            parts[i] = (x[tile, :] * i).sum(1)


def _scaled(y, factor):
    return y * factor if factor is not None else y


@mistake(TraceError, NO_STORE, "for tile in")
def a_helper_without_a_store(x):
    for tile in tfl.tile(x.size(0)):  # <-
        y = _scaled(x[tile, :], None)


@mistake(TraceError, NO_STORE, "for tile in")
def product_of_a_loop_that_is_lost(x):
    for tile in tfl.tile(x.size(0)):  # <-
        acc = tfl.zeros([tile])
        for tile_n in tfl.tile(x.size(1)):
            acc += x[tile, tile_n].sum(1)


# ---- what a loop runs over ----------------------------------------------------------------------


@mistake(TraceError, OVER_A_TILE, "for tile_n")
def tile_of_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        for tile_n in tfl.tile(tile):  # <-
            x[tile_n, :] = 1


@mistake(TraceError, ("a loop runs over sizes and scalars", "but got the tile tile_m"), "for a")
def tile_of_two_tiles(x):
    for tile_m, tile_n in tfl.tile([64, 96]):
        for a, b in tfl.tile([tile_m, tile_n]):  # <-
            x[a, b] = 1


@mistake(TraceError, OVER_A_TILE, "for i")
def grid_of_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        for i in tfl.grid(tile):  # <-
            x[i, 0] = 1


@mistake(TraceError, ("device code must be what tileflow can record", "a tile is no number", "tile.begin"), "range")
def range_of_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        for i in range(tile):  # <-
            x[i, 0] = 1


@mistake(TraceError, ("a loop in device code runs over", "but got tile"), "for tile_n")
def tile_as_a_loop(x):
    for tile in tfl.tile(x.size(0)):
        for tile_n in tile:  # <-
            x[tile_n, :] = 1


@mistake(SplitError, (*WRONG_WAY, "but got 192 and 128", "[192, 128]"), "tfl.tile")
def box_without_brackets(x):
    for tile in tfl.tile(192, 128):  # <-
        x[tile, :] = 1


@mistake(SplitError, WRONG_WAY, "tfl.tile")
def box_without_brackets_inside(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96, 64):  # <-
            x[tile, tile_n] = 1


@mistake(SplitError, WRONG_WAY, "tfl.grid")
def grid_without_brackets(x):
    for i in tfl.grid(30, 10):  # <-
        x[i, :] = 1


@mistake(SplitError, WRONG_WAY, "tfl.tile")
def begins_after_ends(x):
    for tile, tile_n in tfl.tile([0, 40], [64, 30]):  # <-
        x[tile, tile_n] = 1


@mistake(SplitError, ("a loop ends at 0 or later", "but got -4", "tensor.size(0) - n"), "tfl.tile")
def end_before_0(x):
    for tile in tfl.tile(-4):  # <-
        x[tile, :] = 1


@mistake(SplitError, (*BEFORE_0, "but got -4"), "tfl.tile")
def begin_before_0(x):
    for tile in tfl.tile(-4, 60):  # <-
        x[tile, :] = 1


@mistake(SplitError, BEFORE_0, "tfl.tile")
def begin_before_0_inside(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(-3, 96):  # <-
            x[tile, tile_n] = 1


@mistake(ShapeError, ("a tile must not run past the end of x", "but got tile tile from -4 up to 60"), "x[tile")
def begin_before_0_by_a_size(x):
    for tile in tfl.tile(x.size(0) - 68, 60):
        x[tile, :] = 1  # <-


@mistake(TraceError, ("a tile loop has an axis or more", "but got an empty list"), "tfl.tile")
def tile_of_no_axis(x):
    for tile in tfl.tile([]):  # <-
        x[0, 0] = 1


@mistake(TraceError, (*STEP, "but got -1"), "for i")
def grid_that_counts_down(x):
    for tile in tfl.tile(64):
        for i in tfl.grid(10, 0, -1):  # <-
            x[tile, i] = 1


@mistake(TraceError, (*STEP, "but got 0"), "for i")
def grid_that_stands_still(x):
    for tile in tfl.tile(64):
        for i in tfl.grid(0, 10, 0):  # <-
            x[tile, i] = 1


@mistake(TraceError, (*BLOCK, "but got 0"), "for tile_n")
def block_of_none(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96, block_size=0):  # <-
            x[tile, tile_n] = 0


@mistake(TraceError, (*BLOCK, "but got -8"), "for tile_n")
def block_below_0(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96, block_size=-8):  # <-
            x[tile, tile_n] = 0


@mistake(TraceError, (*BLOCK, "but got True"), "for tile_n")
def block_of_true(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96, block_size=True):  # <-
            x[tile, tile_n] = 0


@mistake(TraceError, ("block_size must be a size", "but got tile int32[]"), "for tile_n")
def block_that_is_loaded(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96, block_size=x[0, 0].int()):  # <-
            x[tile, tile_n] = 0


# ---- indices of loops ---------------------------------------------------------------------------


@mistake(TraceError, ("a variable is assigned on every way to its use", "but got last without a value"), "last]")
def tile_kept_by_a_name(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(96):
            last = tile_n
            x[tile, tile_n] = 1
        x[tile, last] = 0  # <-


@mistake(
    TraceError,
    ("keeps its length", "but got kept with 1 in place of 0", "store into a tensor"),
    "for tile_n in tfl.tile(96)",
)
def list_that_grows_in_a_loop(x):
    for tile in tfl.tile(64):
        kept = []
        for tile_n in tfl.tile(96):  # <-
            kept.append(tile_n)
            x[tile, tile_n] = 1
        x[tile, kept[0]] = 0


@mistake(TraceError, ("a loop carries tiles and numbers", "but got kept[0] = "), "for tile_n in tfl.tile(96)")
def tile_kept_in_a_list(x):
    for tile in tfl.tile(64):
        kept = [None]
        for tile_n in tfl.tile(96):  # <-
            kept[0] = tile_n
            x[tile, tile_n] = 1
        x[tile, kept[0]] = 0


@mistake(SplitError, ("the loop variable tile has no value after its", "assign it to another name"), "tile, 0")
def one_name_for_two_loops(x):
    for tile in tfl.tile(64):
        for tile in tfl.tile(96):
            x[0, tile] = 1
        x[tile, 0] = 2  # <-


@mistake(ShapeError, ("a tile must not run past the end of v", "up to 64 in a dimension of 10"), "v[tile]", X, meta(10))
def tile_of_a_longer_loop(x, v):
    for tile in tfl.tile(x.size(0)):
        v[tile] = x[tile, 0]  # <-


# ---- branches -----------------------------------------------------------------------------------


@mistake(ShapeError, (*ONE_SHAPE, "but got y: [tile, 96] and [tile, 1]"), "if")
def branches_of_sizes_that_broadcast(x):
    for tile in tfl.tile(64):
        if tile.begin > 3:  # <-
            y = x[tile, :]
        else:
            y = x[tile, 0:1]
        x[tile, 0] = y.sum(-1)


@mistake(ShapeError, (*ONE_SHAPE, "but got y: [] and [tile]"), "if")
def branches_of_a_scalar_and_a_tile(x):
    for tile in tfl.tile(64):
        y = x[tile, 0]
        if tile.begin > 3:  # <-
            y = x[0, 0]
        x[tile, 0] = y.sum()


@mistake(ShapeError, (*ONE_SHAPE, "the value: [tile, 96] and [tile]"), "x[tile, :] if")
def conditional_of_two_shapes(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, :] if tile.begin > 3 else x[tile, 0]  # <-


@mistake(TraceError, ("both branches of a device if give a name a tile", "y: tile float32[tile] and (tile"), "if")
def branches_of_a_tile_and_a_pair(x):
    for tile in tfl.tile(64):
        if tile.begin > 3:  # <-
            y = x[tile, 0]
        else:
            y = (x[tile, 0], x[tile, 1])
        x[tile, 0] = y


# ---- what the programs of a launch share --------------------------------------------------------


@mistake(TraceError, (*OVERWRITES, "a value for each tile stored to one element of s"), "s[()]", meta(), X)
def sum_over_the_grid(s, x):
    for tile in tfl.tile(64):
        s[()] = s[()] + x[tile, 0].sum()  # <-


@mistake(TraceError, (*OVERWRITES, "one element of v", "by tfl.atomic_add(v, 0, x[tile, 0].sum())"), "v[0]", V, X)
def sum_into_an_element(v, x):
    for tile in tfl.tile(64):
        v[0] += x[tile, 0].sum()  # <-


@mistake(TraceError, (*OVERWRITES, "a value for each tile_n", "index by tile_n.id"), "v[tile]", meta(64), X)
def row_sums_over_the_grid(v, x):
    for tile, tile_n in tfl.tile([64, 96]):
        v[tile] = x[tile, tile_n].sum(1)  # <-


@mistake(TraceError, OVERWRITES, "v[0]", V, X)
def last_one_of_the_grid(v, x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile(tile.begin, tile.end):
            v[0] = x[tile_n, 0].max()  # <-


@mistake(TraceError, ("the iterations of a tile loop change no list", "but got a change of kept"), "kept.append")
def tiles_in_a_host_list(x):
    kept = []
    for tile in tfl.tile(64):
        kept.append(lambda: tile)  # <-
        x[tile, 0] = 1


@mistake(SplitError, ("x is read and assigned by the iterations",), "x[tile, 0]")
def argument_assigned_in_the_loop(x):
    for tile in tfl.tile(64):
        y = x[tile, 0]  # <-
        x = y
    return x


# ---- functions ----------------------------------------------------------------------------------


def remembered(value, seen=[]):
    seen.append(value)
    return seen[0]


def counted(value, *, seen={}):
    seen[len(seen)] = value
    return value


@mistake(TraceError, (*DEFAULTS, "but got remembered, which changes a list"), "remembered")
def default_that_grows(x):
    for tile in tfl.tile(64):
        x[tile, 0] = remembered(x[tile, 1])  # <-


@mistake(TraceError, (*DEFAULTS, "but got counted, which changes a dict"), "counted")
def default_dictionary_that_grows(x):
    for tile in tfl.tile(64):
        x[tile, 0] = counted(x[tile, 1])  # <-


@mistake(TraceError, NO_TEXT, "str")
def text_of_a_tile(x):
    for tile in tfl.tile(64):
        x[tile, 0] = len(str(tile))  # <-


@mistake(TraceError, NO_TEXT, "f")
def formatted_tile(x):
    for tile in tfl.tile(64):
        print(f"{tile}")  # <-
        x[tile, 0] = 1


@mistake(TraceError, ("a tile has no Python truth value",), "tile.begin in")
def scalar_in_a_list(x):
    for tile in tfl.tile(64):
        if tile.begin in [0, 16]:  # <-
            x[tile, 0] = 1


@mistake(
    TraceError, ("an operand must be a tile, a size or a number", "but got complex", "tiles are real"), "x[tile, 0]"
)
def complex_number(x):
    for tile in tfl.tile(64):
        x[tile, 0] = complex(1, 2)  # <-


@mistake(ShapeError, ("dimensions that meet must have the same size", "but got 4 and 8"), "x[tile, 0:4]")
def wider_than_its_place(x):
    for tile in tfl.tile(64):
        x[tile, 0:4] = x[tile, 0:8]  # <-


@mistake(
    TraceError,
    ("a loop's bound must be a size, a block size or", "but got (0, 3)", "tfl.tile([0, 2], [m, n])"),
    "tfl.tile",
)
def pairs_of_bounds(x):
    for tile, tile_n in tfl.tile([(0, 3), (2, 4)]):  # <-
        x[tile, tile_n] = 0


@mistake(
    TraceError,
    ("a loop's bound must be a size, a block size or", "but got None", "tfl.tile([0, 2], [m, n])"),
    "tfl.tile",
)
def a_bound_of_none(x):
    for tile in tfl.tile(64):
        for tile_n in tfl.tile([None, 4]):  # <-
            x[tile, tile_n[0]] = 0
