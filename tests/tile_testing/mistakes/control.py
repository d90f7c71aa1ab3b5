"""Mistakes of loops, branches, carried values and functions; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: B007, RUF005, RUF059, RET503, SIM105, F821

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import (
    KernelError,
    ShapeError,
    SplitError,
    TraceError,
)

COUNT = 0


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


# ---- loops ---------------------------------------------------------------------------------------


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
        "use torch.where for a choice per",
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
        "use torch.where for a choice per",
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
        "use torch.where for a choice per",
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
    ("an outermost loop's bounds are ints", "but got float 64.0", "pass sizes: tensor.size(0), n // 2"),
    "tfl.tile",
)
def tile_float(x):
    for tile in tfl.tile(64.0):  # <-
        x[tile, :] = 0


@mistake(TraceError, ("an outermost loop's bounds are ints", "pass sizes: tensor.size(0), n // 2"), "tfl.tile")
def tile_tensor_arg(x):
    for tile in tfl.tile(x):  # <-
        x[tile, :] = 0


@mistake(TraceError, ("a loop's bound must be a size, a block", "but got 9.5", "divide sizes by //"), "for")
def tile_float_inner(x):
    for tile in tfl.tile(64):
        for tile_k in tfl.tile(9.5):  # <-
            x[tile, tile_k] = 0


@mistake(TraceError, ("a loop's bound must be a size, a block", "but got 48.0", "divide sizes by //"), "for")
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
    ("a tile has no Python truth value while the", "but got a tile of type bool[]", "use torch.where for a choice per"),
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
    ("a while loop of the kernel is of scalars", "but got i: tile", "for i in range(n), with what to"),
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


# ---- carried values and branches -----------------------------------------------------------------


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


@mistake(TraceError, ("a variable of a loop keeps its structure", "a list grows in unrolled loops"), "for")
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
    SplitError, ("device code cannot contain an assignment to outer names", "store into a tensor, or return"), "global"
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


# ---- statements and functions --------------------------------------------------------------------


@mistake(SplitError, ("device code cannot contain try", "move it into host code, or"), "try")
def try_device(x):
    for tile in tfl.tile(x.size(0)):
        try:  # <-
            x[tile, :] = 0
        except ValueError:
            pass


@mistake(SplitError, ("device code cannot contain yield", "move it into host code, or"), "yield")
def yield_device(x):
    for tile in tfl.tile(x.size(0)):
        yield x[tile, :]  # <-


@mistake(SplitError, ("device code cannot contain class", "move it into host code, or"), "class")
def class_device(x):
    for tile in tfl.tile(x.size(0)):

        class A:  # <-
            pass

        x[tile, :] = 0


@mistake(SplitError, ("device code cannot contain match", "move it into host code, or"), "match")
def match_device(x):
    for tile in tfl.tile(x.size(0)):
        match tile.id:  # <-
            case 0:
                x[tile, :] = 0


@mistake(SplitError, ("device code cannot contain del", "move it into host code, or"), "del")
def del_device(x):
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        del r  # <-


@mistake(SplitError, ("device code cannot contain with", "move it into host code, or"), "with")
def with_helper(x):
    def h(v):
        with torch.no_grad():  # <-
            return v

    for tile in tfl.tile(64):
        x[tile, :] = h(x[tile, :])


@mistake(SplitError, ("device code cannot contain yield", "move it into host code, or"), "yield")
def yield_helper(x):
    def h(tile):
        yield x[tile, 0]  # <-

    for tile in tfl.tile(x.size(0)):
        for r in h(tile):
            x[tile, 0] = r


@mistake(
    SplitError,
    ("device code cannot contain an assignment to outer names", "store into a tensor, or return"),
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


@mistake(SplitError, ("device code cannot contain yield", "move it into host code, or"), "yield")
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
