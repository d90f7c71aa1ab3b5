"""Mistakes of operations; see table.py."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

import tileflow.language as tfl
from tile_testing.mistakes.table import X, meta, mistake
from tileflow.errors import (
    MissingAttribute,
    ShapeError,
    TraceError,
)

ARRAY = np.ones(3)
ONE_NUMBER = np.array(0.5)


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .expp", "near it: exp, exp2, ldexp"),
    "x[tile, :]",
)
def method_near(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].expp()  # <-


@mistake(
    MissingAttribute,
    (
        "a name of a module or an object in",
        "but got module 'torch' has no attribute 'expp'",
        "near it: exp, exp_, exp2",
    ),
    "torch.expp",
)
def torch_missing(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.expp(x[tile, :])  # <-


@mistake(MissingAttribute, ("a name of a module or an object in", "near it: zeros"), "tfl.zeroes")
def tfl_missing(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.zeroes([tile, 96])  # <-


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .item", "a 0-d tile is a number"),
    "x[0, 0]",
)
def item_device(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[0, 0].item()  # <-


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .tolist", "a 0-d tile is a number"),
    "x[0, tile]",
)
def tolist_device(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[0, tile].tolist()  # <-


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .numpy", "store the tile into a tensor"),
    "x[tile, :]",
)
def numpy_device(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].numpy()  # <-


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .cuda", "a kernel's tiles are on its"),
    "x[tile, :]",
)
def cpu_device(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].cuda()  # <-


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .add_", "a tile is a value: assign"),
    "row.add_",
)
def inplace(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        x[tile, :] = row.add_(1)  # <-


@mistake(
    TraceError,
    ("a method changes in place what brackets name in memory", "but got tensor x", "out[index] += value stores"),
    "x[tile.index, :]",
)
def inplace_of_a_copy(x):
    for tile in tfl.tile(x.size(0)):
        x[tile.index, :].zero_()  # <-


@mistake(TraceError, ("a tuple keeps its items", "but got tuple", "hold the tiles in a list"), "rows[0].zero_()")
def inplace_in_a_tuple(x):
    for tile in tfl.tile(x.size(0)):
        rows = x[tile, :] * 2, x[tile, :]
        rows[0].zero_()  # <-
        x[tile, :] = rows[0]


@mistake(
    MissingAttribute,
    ("device code changes a captured tensor by storing into it", "but got x.copy_", "x[tile] = value"),
    "x.copy_",
)
def inplace_captured2(x):
    for tile in tfl.tile(x.size(0)):
        x.copy_(x[tile, :])  # <-


@mistake(TraceError, ("a tile is a value: a torch function in a tile loop", "assign the result"), "torch.add")
def out_kw(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        torch.add(row, 1, out=row)  # <-


@mistake(TraceError, ("a tile in registers cannot be assigned to by", "x = torch.where(mask, value, x)"), "row[0] = 1")
def row_assign(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[0] = 1  # <-
        x[tile, :] = row


@mistake(TraceError, ("a tile in registers cannot be assigned to by", "x = torch.where(mask, value, x)"), "row[0] += 1")
def row_iadd(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[0] += 1  # <-
        x[tile, :] = row


@mistake(
    TraceError, ("a tile in registers cannot be assigned to by", "x = torch.where(mask, value, x)"), "row[...] = 0"
)
def row_ellipsis(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[...] = 0  # <-
        x[tile, :] = row


@mistake(
    TraceError, ("bool(...) takes a scalar", "but got tile float32[tile, 96]", "convert a tile by .bool()"), "bool"
)
def bool_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = 1.0 * bool(x[tile, :])  # <-


@mistake(TraceError, ("int(...) takes a scalar", "but got tile float32[tile, 96]", "convert a tile by .int()"), "int")
def int_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = int(x[tile, :])  # <-


@mistake(
    TraceError, ("float(...) takes a scalar", "but got tile float32[tile, 96]", "convert a tile by .float()"), "float"
)
def float_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = float(x[tile, :])  # <-


@mistake(TraceError, ("torch draws random floats", "but got int32", "torch.rand_like(x, dtype="), "torch.rand_like")
def random_ints_of_torch(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.rand_like(x[tile, :].int())  # <-


@mistake(TraceError, ("the offsets of random numbers are ints", "convert them: offsets.to"), "tfl.rand_at")
def random_at_floats(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.rand_at(1, x[tile, 0])  # <-


@mistake(
    TraceError,
    (
        "dropout in a kernel draws from a seed",
        "but got dropout with p=0.5",
        "torch.where(tfl.rand([tile_m, tile_n], seed) >= p, x",
    ),
    "F.dropout",
)
def dropout_f(x):
    for tile in tfl.tile(64):
        x[tile, :] = F.dropout(x[tile, :])  # <-


@mistake(
    TraceError,
    ("torch.where takes these operands", "but got float32, int, int", "condition to be a boolean tensor"),
    "torch.where",
)
def where_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(x[tile, :], 1, 0)  # <-


@mistake(TraceError, ("clamp has a min, a max or both", "but got neither", "torch.clamp(x, min=0)"), "torch.clamp")
def clamp_none(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.clamp(x[tile, :])  # <-


@mistake(
    TraceError, ("gelu is exact or by tanh", "but got 'tan'", 'F.gelu(x), F.gelu(x, approximate="tanh")'), "F.gelu"
)
def gelu_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = F.gelu(x[tile, :], approximate="tan")  # <-


@mistake(TraceError, ("device code must be what tileflow can record", "call the function as it is"), "torch.softmax")
def wrong_kw(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.softmax(x[tile, :], axes=1)  # <-


@mistake(
    TraceError,
    ("torch.sum must be called as tileflow implements it", "docs/reference/language.md lists the operations, and what"),
    "x[tile, :]",
)
def sum_dim_str(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, :].sum("a")  # <-


@mistake(
    TraceError,
    ("a tile of a loop is an index and", "but got __iter__ of tile", "tile.index is the 1-D tile of"),
    "x[tile, :]",
)
def sum_dim_tile(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, :].sum(tile)  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or", "but got str 'abc'", "combine tiles with tiles, sizes and"),
    "x[tile, :] + o",
    X,
    "abc",
)
def str_arith(x, o):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] + o  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or", "but got ndarray array([1., 1., 1.])", "pass the numbers to the kernel"),
    "x[tile, :] * ARRAY",
)
def np_array(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] * ARRAY  # <-


@mistake(
    TraceError,
    ("an operand must be a tile, a size or a", "but got ndarray array(0.5)", "array.item() is the number in it"),
    "x[tile, :] * ONE_NUMBER",
)
def array_without_dimensions(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] * ONE_NUMBER  # <-


@mistake(
    TraceError,
    ("a captured tensor is read in a tile loop", "but got tensor x: float32[64, 96]", "load a tile first: x[...]"),
    "x + 1",
)
def captured_plus(x):
    for tile in tfl.tile(64):
        x[tile, :] = x + 1  # <-


@mistake(
    TraceError,
    ("a captured tensor is read in a tile loop", "but got tensor x: float32[64, 96]", "load a tile first: x[...]"),
    "torch.exp",
)
def captured_fn(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.exp(x)  # <-


@mistake(
    TraceError,
    (
        "device code must be what tileflow can record",
        "but got 'NoneType' object is not subscriptable",
        "choose by `if x is not",
    ),
    "b[tile]",
    X,
    None,
)
def none_tensor(x, b):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] + b[tile]  # <-


@mistake(
    TraceError,
    ("a register tile's size must be a size, a", "but got tile int32[]", "load it as an index, or"),
    "tfl.zeros",
)
def zeros_tensor(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.zeros([tile, x[0, 0].int()])  # <-


@mistake(TraceError, ("a register tile's size must be a size, a", "but got 1.5", "divide sizes by //"), "tfl.zeros")
def zeros_float(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.zeros([tile, 1.5])  # <-


@mistake(
    TraceError,
    ("tfl.zeros must be called as tileflow implements it", "docs/reference/language.md lists the operations, and what"),
    "tfl.zeros",
)
def zeros_noarg(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.zeros()  # <-


@mistake(TraceError, ("arange's end is an integer scalar", "but got tile float32", "by .int()"), "tfl.arange")
def arange_of_a_tile(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.arange(x[tile, 0])  # <-


@mistake(
    TraceError, ("an arange has a length in sizes", "as many as a block"), "tfl.arange", X, meta(3, dtype=torch.int32)
)
def arange_as_long_as_what_is_loaded(x, n):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.arange(n[0]).sum()  # <-


@mistake(TraceError, ("an arange has a length in sizes", "a range of many turns", "tfl.static_range"), "tfl.arange")
def arange_as_long_as_a_turn_says(x):
    for tile in tfl.tile(64):
        for n in range(40):
            x[tile, 0] = tfl.arange(n + 1).sum()  # <-


@mistake(TraceError, ("torch.zeros takes sizes, dtype= and device=", "but got out=", "leave it out"), "torch.zeros")
def zeros_out(x):
    for tile in tfl.tile(64):
        x[tile, 0] = torch.zeros([tile], out=x)  # <-


# ---- accepted once, and wrong without a word (issue 14) -----------------------------------------


@mistake(
    TraceError, ("a tile that was changed in place, by inplace=True", "use the result: v = F.relu(v)"), "x[tile, :]"
)
def in_place_and_used(x):
    for tile in tfl.tile(x.size(0)):
        value = x[tile, :]
        F.relu(value, inplace=True)
        x[tile, :] = value  # <-


@mistake(TraceError, ("a tile that was changed in place, by inplace=True",), "value + top")
def in_place_by_position_and_used(x):
    for tile in tfl.tile(x.size(0)):
        value = x[tile, :]
        top = F.hardtanh(value, -1.0, 1.0, True)
        x[tile, :] = value + top  # <-


@mistake(
    ShapeError,
    ("roll without dims takes a dimension of a constant size", "but got [tile, 96]", "roll(shift, dims=1) stays"),
    "x[tile, :]",
)
def roll_of_all(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].roll(1)  # <-


@mistake(TraceError, ("roll takes a shift for each dim", "but got (1, 2) for None"), "x[0, :]")
def roll_of_two(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[0, :].roll((1, 2))  # <-


@mistake(
    TraceError,
    ("a table of numbers in device code has at most 64", "but got 96 of them", "make the tensor in host code"),
    "torch.tensor",
)
def table_of_many(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.tensor([0.0] * 96)  # <-


@mistake(
    TraceError,
    ("torch.tensor in device code takes numbers, and lists of them", "but got tile float32[96]", "torch.stack"),
    "torch.tensor",
)
def table_of_rows(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.tensor([x[0, :]])  # <-


@mistake(TraceError, ("not tile", "torch.tensor(list)[index]", "tfl.static_range"), "weights[index]")
def list_by_tile(x):
    weights = (0.5, 0.25)
    for tile in tfl.tile(x.size(0)):
        index = tile.index % 2
        x[tile, 0] = weights[index]  # <-


@mistake(
    TraceError, ("a search takes a table that is loaded", "but got tensor x", "load all of it, table[:]"), "torch.b"
)
def search_of_a_tensor(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.bucketize(x[tile, :], x)  # <-


@mistake(ShapeError, ("torch.isin takes a whole table", "but got [tile, tile_n]", "(table[t] =="), "torch.isin")
def isin_of_a_part(x):
    for tile in tfl.tile(x.size(0)):
        for tile_n in tfl.tile(x.size(1)):
            x[tile, :] = torch.isin(x[tile, :], x[tile, tile_n])  # <-


KTH = "kthvalue takes a k from 1 to the number of elements"


@mistake(TraceError, (KTH, "but got 0 of 96", "k=1"), "torch.kthvalue")
def kthvalue_of_0(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = torch.kthvalue(x[tile, :], 0)[0]  # <-


@mistake(TraceError, (KTH, "but got 97 of 96"), "torch.kthvalue")
def kthvalue_beyond(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = torch.kthvalue(x[tile, :], 97, dim=-1)[0]  # <-


@mistake(TraceError, ("kthvalue takes one int as k", "1 dimensions, torch.int32", "gather"), "torch.kthvalue")
def kthvalue_of_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = torch.kthvalue(x[tile, :], tile.index + 1)[0]  # <-
