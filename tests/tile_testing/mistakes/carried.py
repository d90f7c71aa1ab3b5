"""Mistakes of carried values and branches; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007, RUF005

from __future__ import annotations

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import X, meta, mistake
from tileflow.errors import (
    ShapeError,
    SplitError,
    TraceError,
)

COUNT = 0


@mistake(
    TraceError,
    (
        "values that one name takes have dtypes that promote",
        "but got bool and float8_e4m3fn",
        "convert one of them: .to(torch.float32)",
    ),
    "for",
)
def carried_dtype(x):
    for tile in tfl.tile(x.size(0)):
        acc = x[tile, 0] > 0
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = (
                x[tile, tile_k].sum(1).to(torch.float8_e4m3fn) if False else tfl.zeros([tile], dtype=torch.float8_e5m2)
            )
            y = acc.to(torch.float8_e4m3fn)
            acc = y
        x[tile, 0] = acc.float()


@mistake(
    TraceError,
    ("a loop carries tiles and numbers", "but got acc = {'a': tile float32[tile]}", "tuples and lists of tiles are"),
    "for",
)
def carried_object(x):
    for tile in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile])
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = {"a": acc}
        x[tile, 0] = acc["a"]


@mistake(
    TraceError,
    ("a loop carries tiles and numbers", "but got acc = None before the loop", "give acc a tile or a"),
    "for",
)
def carried_none(x):
    for tile in tfl.tile(x.size(0)):
        acc = None
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = x[tile, tile_k].sum(1) if acc is None else acc + x[tile, tile_k].sum(1)
        x[tile, 0] = acc


@mistake(TraceError, ("a loop carries tiles and numbers", "but got acc = 'ab'", "tuples and lists of tiles are"), "for")
def carried_str(x):
    for tile in tfl.tile(x.size(0)):
        acc = "a"
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = acc + "b"
            x[tile, tile_k] = len(acc)


@mistake(
    ShapeError,
    ("a loop's variable keeps its shape", "but got acc: tile and tile_k meet", "give acc its final shape before"),
    "for",
)
def carried_size(x):
    for tile in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile])
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = x[tile, tile_k].sum(0)
        x[tile, 0] = acc


@mistake(
    TraceError,
    ("a variable of a loop keeps its structure", "a list grows where turns are written out: a range of up to 16"),
    "for",
)
def carried_list_len(x):
    for tile in tfl.tile(x.size(0)):
        acc = []
        for tile_k in tfl.tile(x.size(1)):  # <-
            acc = acc + [x[tile, tile_k].sum(1)]
        x[tile, 0] = acc[0]


@mistake(TraceError, ("a loop carries tiles and numbers", "give s a tile or a"), "for")
def carried_captured(x):
    for tile in tfl.tile(x.size(0)):
        s = x
        for tile_k in tfl.tile(x.size(1)):  # <-
            s[tile, tile_k] = 0
            s = s[tile, tile_k]


@mistake(TraceError, ("both branches of a device if give a name", "choose objects by what Python decides"), "if", X, X)
def if_tensor(x, y):
    for tile in tfl.tile(x.size(0)):
        if tile.id == 0:  # <-
            s = x
        else:
            s = y[tile, :]
        x[tile, :] = s


@mistake(TraceError, ("both branches of a device if give a name", "choose objects by what Python decides"), "x", X, X)
def if_two_captured(x, y):
    for tile in tfl.tile(x.size(0)):
        s = x if tile.id == 0 else y  # <-
        x[tile, :] = s[tile, :]


@mistake(
    TraceError,
    (
        "both branches of a device if give a name",
        "but got s: tile float32[tile, 96] and None",
        "choose objects by what Python decides",
    ),
    "if",
)
def if_none(x):
    for tile in tfl.tile(x.size(0)):
        s = None
        if tile.id == 0:  # <-
            s = x[tile, :]
        x[tile, :] = s


@mistake(
    TraceError,
    ("both branches of a device if give a name", "but got s: 'b' and 'a'", "choose objects by what Python decides"),
    "if",
)
def if_str(x):
    for tile in tfl.tile(x.size(0)):
        s = "a"
        if tile.id == 0:  # <-
            s = "b"
        x[tile, :] = 1 if s == "a" else 2


@mistake(
    ShapeError,
    ("both branches of a device if give a name tiles of one shape", "but got s: [tile] and [tile, 96]", ".expand("),
    "if",
)
def if_shapes(x):
    for tile in tfl.tile(x.size(0)):
        s = x[tile, :]
        if tile.id == 0:  # <-
            s = x[tile, 0]
        x[tile, :] = s


@mistake(
    SplitError,
    ("x is read and assigned by the iterations of", "the iterations of an outermost tile"),
    "x[tile, :] = x[tile, :]",
)
def alias_helper_out(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :]  # <-
        x = x + 1


@mistake(
    TraceError,
    ("the iterations of a tile loop change no list", "but got a change of d", "store into a tensor; a list"),
    'd["a"] = x[tile, :]',
)
def dict_mut(x):
    d = {}
    for tile in tfl.tile(64):
        d["a"] = x[tile, :]  # <-
    return d


@mistake(
    TraceError,
    ("the iterations of a tile loop change no list", "but got a change of parts", "store into a tensor; a list"),
    "parts.append",
)
def list_mut_host(x):
    parts = []
    for tile in tfl.tile(64):
        parts.append(x[tile, :])  # <-
    return parts


@mistake(
    SplitError, ("device code cannot contain an assignment to the outer", "store into a tensor, or rename"), "COUNT = 1"
)
def global_device(x):
    global COUNT
    for tile in tfl.tile(x.size(0)):
        COUNT = 1  # <-
        x[tile, :] = 0


@mistake(
    SplitError,
    ("device code cannot contain global COUNT, an assignment to outer names", "or store into a tensor"),
    "global",
)
def global_device2(x):
    for tile in tfl.tile(x.size(0)):
        global COUNT  # <-
        COUNT = 1
        x[tile, :] = 0


@mistake(
    TraceError,
    ("device code runs to its end while it is", "but got ValueError: x", "it runs once, while the kernel"),
    "raise",
)
def raise_device(x):
    for tile in tfl.tile(x.size(0)):
        if tile.id == 0:
            raise ValueError("x")  # <-
        x[tile, :] = 0


HELD = "an int that a loop or a branch makes a scalar with a dtype is one that this dtype holds"
STEPS = meta(64, dtype=torch.int8), meta(4, dtype=torch.int64), 1000


@mistake(TraceError, (HELD, "got place: start and int8", "step[k].int()"), "for k in range(ends[0]):", *STEPS)
def carried_beyond_bytes(steps, ends, start):
    for i in tfl.grid(ends.size(0)):
        place = start
        for k in range(ends[0]):  # <-
            place = place + steps[k]
        ends[i] = place


@mistake(TraceError, (HELD, "got place: 200 and int8"), "if steps[i] > 5:", *STEPS)
def chosen_beyond_bytes(steps, ends, start):
    for i in tfl.grid(ends.size(0)):
        place = 200
        if steps[i] > 5:  # <-
            place = steps[i]
        ends[i] = place


@mistake(TraceError, (HELD, "and int8"), "for k in range(ends[0]):", *STEPS)
def counted_beyond_bytes(steps, ends, start):
    for i in tfl.grid(ends.size(0)):
        last = steps[0]
        for k in range(ends[0]):  # <-
            last = k
        ends[i] = last
