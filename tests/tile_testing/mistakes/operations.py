"""Mistakes of operations, dtypes and shapes; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: RUF059

from __future__ import annotations

import math

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


# ---- operations ----------------------------------------------------------------------------------


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
        row.add_(1)  # <-
        x[tile, :] = row


@mistake(
    MissingAttribute,
    ("a tile has torch's methods that tileflow implements", "but got .zero_", "tile = torch.zeros_like(tile)"),
    "x[tile, :]",
)
def inplace_captured(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :].zero_()  # <-


@mistake(
    MissingAttribute,
    ("device code changes a captured tensor by storing into it", "but got x.copy_", "x[tile] = value"),
    "x.copy_",
)
def inplace_captured2(x):
    for tile in tfl.tile(x.size(0)):
        x.copy_(x[tile, :])  # <-


@mistake(TraceError, ("torch.add must be called as tileflow implements it", "a tile is a value: assign"), "torch.add")
def out_kw(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        torch.add(row, 1, out=row)  # <-


@mistake(TraceError, ("a tile in registers cannot be assigned to by", "use torch.where with a mask, or"), "row[0] = 1")
def row_assign(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[0] = 1  # <-
        x[tile, :] = row


@mistake(TraceError, ("a tile in registers cannot be assigned to by", "use torch.where with a mask, or"), "row[0] += 1")
def row_iadd(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[0] += 1  # <-
        x[tile, :] = row


@mistake(
    TraceError, ("a tile in registers cannot be assigned to by", "use torch.where with a mask, or"), "row[...] = 0"
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


@mistake(
    TraceError,
    ("torch.tensor in device code takes a number", "but got [2.0, 1.0]", "make the tensor in host code"),
    "torch.tensor",
)
def torch_tensor3(x):
    for tile in tfl.tile(64):
        x[tile, 0] = torch.tensor([2.0, 1.0])  # <-


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
    ("torch.where takes these operands", "but got float32, int, int", "expected predicate to be bool, got"),
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
    ("an operand must be a tile, a size or", "but got complex 1j", "combine tiles with tiles, sizes and"),
    "x[tile, :] * 1j",
)
def complex_const(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] * 1j  # <-


@mistake(
    TraceError,
    (
        "a dtype is torch.float32, torch.int8, torch.bool ...",
        "but got torch.complex64",
        "of complex tensors pass torch.view_as_real(x); a",
    ),
    "tfl.tile",
    meta(64, 96, dtype=torch.complex64),
)
def complex_tensor(x):
    for tile in tfl.tile(64):  # <-
        x[tile, :] = x[tile, :] * 2


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
    (
        "a dtype is torch.float32, torch.int8, torch.bool ...",
        "but got 'float'",
        "of complex tensors pass torch.view_as_real(x); a",
    ),
    "tfl.zeros",
)
def zeros_dtype(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.zeros([tile, 96], dtype="float")  # <-


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


@mistake(TraceError, ("torch.zeros takes sizes, dtype= and device=", "but got out=", "leave it out"), "torch.zeros")
def zeros_out(x):
    for tile in tfl.tile(64):
        x[tile, 0] = torch.zeros([tile], out=x)  # <-


@mistake(
    TraceError, ("other is a number of x's dtype", "but got 0.5", "promotes both"), "tfl.load",
    meta(64, 96, dtype=torch.int32),
)  # fmt: skip
def fill_of_another_dtype(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.load(x, [tile, 0], extra_mask=tile.index > 3, other=0.5)  # <-


# ---- products, scans and atomics -----------------------------------------------------------------


@mistake(
    TraceError,
    (
        "the operands of a matrix product have one dtype",
        "but got float32 and float16",
        "convert one: .to(torch.float32)",
    ),
    "tfl.dot",
    X,
    meta(96, 64, dtype=torch.float16),
)
def dot_mixed(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = tfl.dot(x[a, :], y[:, b])  # <-


@mistake(
    ShapeError,
    (
        "the inner dimensions of a matrix product agree",
        "but got [a, 96] @ [b, 96]",
        "transpose one: b.T; index both by",
    ),
    "tfl.dot",
    X,
    X,
)
def dot_inner(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = tfl.dot(x[a, :], y[b, :])  # <-


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got b and a", "give both loops the same block"),
    "tfl.dot",
    X,
    meta(96, 64),
)
def dot_acc_shape(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = tfl.dot(x[a, :], y[:, b], acc=tfl.zeros([b, a]))  # <-


@mistake(
    TraceError,
    ("a captured tensor is read in a tile loop", "but got tensor x: float32[64, 96]", "load a tile first: x[...]"),
    "x @ y[:, b]",
    X,
    meta(96, 64),
)
def dot_captured(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = x @ y[:, b]  # <-


@mistake(
    TraceError,
    ("a scaled product takes known formats", "but got e9", "there are: e2m1, e4m3, e5m2, bf16"),
    "tfl.dot_scaled",
)
def dot_scaled_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0:64] = tfl.dot_scaled(x[tile, :], None, "e9", x[tile, :], None, "bf16")  # <-


@mistake(
    TraceError,
    (
        "atomic_add updates a tensor of float16, bfloat16, int32, int64",
        "but got int8",
        "accumulate into a tensor of such",
    ),
    "tfl.atomic_add",
    meta(64, dtype=torch.int8),
)
def atomic_i8(x):
    for tile in tfl.tile(64):
        tfl.atomic_add(x, [tile], 1)  # <-


@mistake(
    TraceError,
    (
        "atomic_min updates a tensor of int32, int64, float32, float64",
        "but got float16",
        "accumulate into a tensor of such",
    ),
    "tfl.atomic_min",
    meta(64, dtype=torch.float16),
)
def atomic_min_f16(x):
    for tile in tfl.tile(64):
        tfl.atomic_min(x, [tile], 1)  # <-


@mistake(
    TraceError,
    ("atomic_and updates a tensor of int32, int64", "but got float32", "accumulate into a tensor of such"),
    "tfl.atomic_and",
    meta(64),
)
def atomic_and_f32(x):
    for tile in tfl.tile(64):
        tfl.atomic_and(x, [tile], 1)  # <-


@mistake(
    TraceError,
    (
        "sem is one of relaxed, acquire, release, acq_rel",
        "but got 'strong'",
        "relaxed orders nothing else; acq_rel orders",
    ),
    "tfl.atomic_add",
    meta(64),
)
def atomic_sem(x):
    for tile in tfl.tile(64):
        tfl.atomic_add(x, [tile], 1, sem="strong")  # <-


@mistake(
    TraceError,
    (
        "atomic_add updates a tensor that reaches the kernel from",
        "but got tile float32[tile]",
        "pass it and the index: tfl.atomic_add(out",
    ),
    "tfl.atomic_add",
    meta(64),
)
def atomic_register(x):
    for tile in tfl.tile(64):
        tfl.atomic_add(x[tile], [0], 1)  # <-


@mistake(
    TraceError,
    (
        "a combining function computes with its arguments and constants",
        "but got load",
        "sizes become constants with tfl.specialize; pass",
    ),
    "x[0, 0]",
)
def scan_loads(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.associative_scan(lambda a, b: a + b + x[0, 0], x[tile, :], 1)  # <-


@mistake(
    TraceError,
    (
        "tfl.associative_scan must be called as tileflow implements it",
        "docs/reference/language.md lists the operations, and what",
    ),
    "tfl.associative_scan",
)
def scan_wrong_n(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.associative_scan(lambda a: a, x[tile, :], 1)  # <-


@mistake(
    TraceError,
    ("a combining function gives 1 item(s)", "but got (tile float32[], tile float32[])", "one for each tile of the"),
    "tfl.associative_scan",
)
def scan_tuple(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.associative_scan(lambda a, b: (a, b), x[tile, :], 1)  # <-


@mistake(
    TraceError,
    (
        "a combining function computes with its arguments and constants",
        "but got if",
        "sizes become constants with tfl.specialize; pass",
    ),
    "if",
)
def scan_branch(x):
    def f(a, b):
        if a > b:  # <-
            return a
        return b

    for tile in tfl.tile(64):
        x[tile, :] = tfl.associative_scan(f, x[tile, :], 1)


@mistake(
    ShapeError, ("dim must lie in [-2, 1]", "but got 5", "count dimensions from 0, or from"), "tfl.associative_scan"
)
def scan_dim(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.associative_scan(torch.add, x[tile, :], 5)  # <-


@mistake(
    TraceError,
    (
        "tfl.reduce must be called as tileflow implements it",
        "but got 'str' object is not callable",
        "docs/reference/language.md lists the operations, and what",
    ),
    "tfl.reduce",
)
def reduce_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.reduce("add", x[tile, :], 1)  # <-


@mistake(
    TraceError,
    ("a seed and a bound of random ints are", "but got tile float32[]~", "pass an int argument, or load"),
    "tfl.rand",
    X,
    1.5,
)
def rand_float(x, seed):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.rand([tile, 96], seed)  # <-


@mistake(
    TraceError,
    ("a seed and a bound of random ints are", "but got tile int32[tile, 96]", "pass an int argument, or load"),
    "tfl.rand",
)
def rand_tile_seed(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.rand([tile, 96], x[tile, :].int())  # <-


@mistake(
    TraceError,
    ("tfl.rand must be called as tileflow implements it", "docs/reference/language.md lists the operations, and what"),
    "tfl.rand",
)
def rand_noseed(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.rand([tile, 96])  # <-


@mistake(
    TraceError, ("a placeholder of inline Triton is an argument", "but got {3}", "there are {0}"), "tfl.inline_triton"
)
def inline_triton_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.inline_triton("tl.fma({0}, {3}, {0})", (x[tile, :],), x[tile, :])  # <-


@mistake(
    TraceError,
    (
        "a tile has no Python iteration while the kernel",
        "but got a tile of type float32[tile, 96]",
        "use torch.where for a choice per",
    ),
    "tfl.inline_triton",
)
def inline_triton_args(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.inline_triton("tl.exp({0})", x[tile, :], x[tile, :])  # <-


@mistake(TraceError, ("inline Triton is Python text", "write one expression"), "tfl.inline_triton")
def inline_triton_syntax(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.inline_triton("tl.exp({0}", (x[tile, :],), x[tile, :])  # <-


# ---- shapes --------------------------------------------------------------------------------------


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got 96 and 5", "shapes align at the right: ["),
    "x[tile, :] = math.exp",
)
def math_func(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = math.exp(x[0, :5])  # <-


@mistake(
    ShapeError,
    (
        "a reshape keeps the number of elements",
        "but got [tile, 96] as [tile, 5, 5]",
        "write sizes with the same product",
    ),
    "x[tile, :]",
)
def view_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0] = x[tile, :].view(tile, 5, 5).sum(-1).sum(-1)  # <-


@mistake(
    TraceError,
    ("a tile is reinterpreted as a dtype of the", "but got float32 as float16", "convert by .to(dtype)"),
    "x[tile, :]",
)
def view_dtype(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].view(torch.float16)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 5", "count dimensions from 0, or from"), "x[tile, :]")
def squeeze_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].squeeze(5)  # <-


@mistake(
    ShapeError,
    ("permute names each of 2 dimensions once", "but got (0, 0)", "permute(1, 0) of two, (0, 2"),
    "x[tile, :]",
)
def permute_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].permute(0, 0)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 2", "count dimensions from 0, or from"), "x[tile, :]")
def permute_bad2(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].permute(0, 1, 2)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 3", "count dimensions from 0, or from"), "x[tile, :]")
def transpose_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].transpose(0, 3)  # <-


@mistake(ShapeError, ("a dimension must lie in [-3, 2]", "but got 5", "count dimensions from 0, or from"), "x[tile, :]")
def unsqueeze_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].unsqueeze(5)  # <-


@mistake(ShapeError, ("a dimension must lie in [-2, 1]", "but got 3", "count dimensions from 0, or from"), "x[tile, :]")
def flatten_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].flatten(3)  # <-


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got tile and 5", "shapes align at the right: ["),
    "x[tile, :]",
)
def expand_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :].expand(5, 5)  # <-


@mistake(
    ShapeError,
    ("a reduction's dim must lie in [-2, 1]", "but got 4", "count dimensions from 0, or from"),
    "torch.softmax",
)
def softmax_dim(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.softmax(x[tile, :], dim=4)  # <-


@mistake(
    ShapeError,
    ("tiles that are joined have one shape", "but got [tile, 32] and [tile, 64]", "expand the smaller one"),
    "torch.cat",
)
def cat_unequal(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.cat([x[tile, 0:32], x[tile, 0:64]], 0)  # <-


@mistake(
    ShapeError,
    ("tiles that are joined have one shape", "but got [tile, 32] and [tile, 64]", "expand the smaller one"),
    "torch.stack",
)
def stack_unequal(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.stack([x[tile, 0:32], x[tile, 0:64]], 1).sum(1)  # <-


@mistake(TraceError, ("device code runs to its end while it is", "it runs once, while the kernel"), "torch.stack")
def stack_empty(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.stack([], 1).sum(1)  # <-


@mistake(
    ShapeError,
    (
        "tfl.split takes a tile whose last dimension is 2",
        "but got [tile, 96]",
        "reshape or permute it first; torch.chunk",
    ),
    "tfl.split",
)
def split_dim(x):
    for tile in tfl.tile(64):
        a, b = tfl.split(x[tile, :])  # <-
        x[tile, 0] = a


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got tile and 64", "shapes align at the right"),
    "tfl.join",
)
def join_bad(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.join(x[tile, :], x[:, tile]).sum(-1).sum(-1)  # <-


@mistake(
    ShapeError,
    ("a tile of a loop is cut into a power of two", "but got tile in 5", "load the parts from the tensor"),
    "x[tile, :]",
)
def chunk3(x):
    for tile in tfl.tile(64):
        a, b, c, d, e = x[tile, :].chunk(5, 0)  # <-
        x[tile, 0] = a.sum(1)


@mistake(
    TraceError,
    ("a tile of indices holds ints", "but got float32", "boolean masks select with torch.where"),
    "torch.gather",
)
def gather_bad(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.gather(x[tile, :], 1, x[tile, :])  # <-


# finding 1: these normalised over the whole block, so that its size changed the result
@mistake(ShapeError, ("softmax without dim normalises a whole dimension", "loop `tile`", "say dim=0"), "F.softmax")
def softmax_of_a_block(x):
    for tile in tfl.tile(96):
        x[0, tile] = F.softmax(x[0, tile])  # <-


@mistake(ShapeError, ("softmin without dim", "dimension 1, of which a block of the loop `tile_n`"), "F.softmin")
def softmin_of_a_block(x):
    for tile_m, tile_n in tfl.tile([64, 96]):
        x[tile_m, tile_n] = F.softmin(x[tile_m, tile_n])  # <-


@mistake(ShapeError, ("log_softmax without dim", "accumulate over the loop"), "F.log_softmax")
def log_softmax_of_a_block(x):
    for tile in tfl.tile(96):
        x[0, tile] = F.log_softmax(x[0, tile])  # <-


# finding 7: it ran, and what it returned was never written
@mistake(TraceError, ("an outermost tile loop stores what it computes", "a launch without an effect"), "for tile")
def without_effect(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(64):  # <-
        x[tile, :] * 2
    return out
