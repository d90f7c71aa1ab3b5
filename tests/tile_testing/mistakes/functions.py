"""Mistakes of statements and functions; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: SIM105, F821

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import (
    KernelError,
    SplitError,
    TraceError,
)


def XX(x):
    return x[0, 0].int()


def rec(v, n):
    return rec(v, n - 1) + 1 if n > 0 else v


@tileflow.kernel
def KK(x):
    for tile in tfl.tile(64):
        x[tile, :] = 0
    return x


def rec2(v, n):
    return rec2(v, n) + 1  # <-


def star(*a, **k):
    return a[0] + k["b"]  # <-


NAMES = {}
exec("def nosrc(v):\n    return v + 1\n", NAMES)
nosrc = NAMES["nosrc"]


@mistake(SplitError, ("device code cannot contain try", "test before it what would raise"), "try")
def try_device(x):
    for tile in tfl.tile(x.size(0)):
        try:  # <-
            x[tile, :] = 0
        except ValueError:
            pass


@mistake(SplitError, ("device code cannot contain yield", "store into a tensor, or return"), "yield")
def yield_device(x):
    for tile in tfl.tile(x.size(0)):
        yield x[tile, :]  # <-


@mistake(SplitError, ("device code cannot contain class", "define it at the top of the module"), "class")
def class_device(x):
    for tile in tfl.tile(x.size(0)):

        class A:  # <-
            pass

        x[tile, :] = 0


@mistake(SplitError, ("device code cannot contain match", "write it with if, elif and else"), "match")
def match_device(x):
    for tile in tfl.tile(x.size(0)):
        match tile.id:  # <-
            case 0:
                x[tile, :] = 0


@mistake(SplitError, ("device code cannot contain del of what is no name", "make another list or"), "del")
def del_device(x):
    for tile in tfl.tile(x.size(0)):
        rows = [x[tile, :], x[tile, :]]
        del rows[0]  # <-


@mistake(TraceError, ("a variable is assigned on every way to its use", "but got r without a value"), "r")
def del_used(x):
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        del r
        x[tile, :] = r  # <-


@mistake(SplitError, ("device code cannot contain with", "put it around the tile loop"), "with")
def with_helper(x):
    def h(v):
        with torch.no_grad():  # <-
            return v

    for tile in tfl.tile(64):
        x[tile, :] = h(x[tile, :])


@mistake(SplitError, ("device code cannot contain yield", "store into a tensor, or return"), "yield")
def yield_helper(x):
    def h(tile):
        yield x[tile, 0]  # <-

    for tile in tfl.tile(x.size(0)):
        for r in h(tile):
            x[tile, 0] = r


@mistake(
    SplitError,
    ("device code cannot contain nonlocal n, an assignment to outer names", "return the value", "n = f(...)"),
    "nonlocal",
)
def lambda_mut(x):
    n = 0

    def h(tile):
        nonlocal n  # <-
        n = n + 1
        return x[tile, 0]

    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = h(tile)


@mistake(
    SplitError,
    ("device code cannot contain nonlocal top, an assignment to outer names", "return the value", "top = f(...)"),
    "nonlocal",
)
def nonlocal_of_a_function_inside(x):
    for tile in tfl.tile(x.size(0)):
        top = 0

        def push():
            nonlocal top  # <-
            top = top + 1

        push()
        x[tile, 0] = top


@mistake(SplitError, ("device code cannot contain yield", "store into a tensor, or return"), "yield")
def async_k(x):
    for tile in tfl.tile(64):
        x[tile, 0] = (lambda: (yield))()  # <-


@mistake(
    KernelError,
    ("the source of nosrc must be readable", "but got nothing under the name <string>", "define it in a .py file"),
    "nosrc",
)
def helper_nosrc(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = nosrc(x[tile, :])  # <-


@mistake(
    TraceError,
    ("a function of device code ends while it is", "but got endless recursion", "stop it by a Python number"),
    "rec2",
)
def recursion_inf(x):
    for tile in tfl.tile(64):
        x[tile, :] = rec2(x[tile, :], 3)


@mistake(
    TraceError,
    ("device code runs to its end while it is", "but got KeyError: 'b'", "it runs once, while the kernel"),
    'k["b"]',
)
def helper_wrong_args(x):
    for tile in tfl.tile(64):
        x[tile, :] = star(x[tile, :], c=x[tile, :])


@mistake(TraceError, ("device code must be what tileflow can record", "call the function as it is"), "rec")
def helper_wrong_args2(x):
    for tile in tfl.tile(64):
        x[tile, :] = rec(x[tile, :])  # <-


@mistake(
    TraceError,
    ("a name in device code must be defined", "but got undefined_thing", "define or import it in the"),
    "undefined_thing",
)
def undefined_name(x):
    for tile in tfl.tile(64):
        x[tile, :] = undefined_thing(x[tile, :])  # <-


@mistake(TraceError, ("a tile loop calls functions, not kernels", "leave @tileflow.kernel off: its loops become"), "KK")
def kernel_in_kernel(x):
    for tile in tfl.tile(64):
        x[tile, :] = KK(x)  # <-


@mistake(
    TraceError,
    ("a tile has no Python truth value while the", "but got a tile of type bool[]", "use torch.where for a choice per"),
    "(x[tile,",
)
def assert_tile(x):
    for tile in tfl.tile(64):
        assert (x[tile, :] > 0).all()  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("a breakpoint stops Python, which a compiled kernel is", "but got breakpoint()", "run the kernel as Python: with"),
    "breakpoint",
)
def bp(x):
    for tile in tfl.tile(64):
        breakpoint()  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    (
        "a tile has no text while the kernel is",
        "but got tile float32[tile, 96]",
        'print it from the GPU: tfl.device_print("x"',
    ),
    "f",
)
def pr_f(x):
    for tile in tfl.tile(64):
        print(f"v {x[tile, :]}")  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("print in device code takes values only", "but got sep", 'tfl.device_print("text", *values) prints from the GPU'),
    "print",
)
def pr_sep(x):
    for tile in tfl.tile(64):
        print("a", x[tile, :], sep=",")  # <-
        x[tile, :] = 0


@mistake(
    TraceError,
    ("torch.where must be called as tileflow implements it", "tile.where(condition, other) takes 2 arguments, 1 were"),
    "x[tile, :].where(x[tile, :] > 0)",
)
def where_without_the_other(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].where(x[tile, :] > 0)  # <-
