"""Mistakes of Python's loops in device code: ranges, whiles, what leaves them, what they fill; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007

from __future__ import annotations

import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import SplitError, TraceError


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


@mistake(TraceError, ("a variable is assigned on every way to its use", "but got last without a value"), "last")
def only_an_inner_loop_assigns_it(x):
    for tile in tfl.tile(64):
        total = x[tile, 0]
        for i in range(20):
            for j in range(18):
                total, last = total + j, total
            if i > 3:
                total = total + last  # <-
        x[tile, 0] = total
