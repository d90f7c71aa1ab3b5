"""Mistakes of dtypes, and of numbers that a dtype does not hold; see table.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow.language as tfl
from tile_testing.mistakes.table import X, meta, mistake
from tileflow.errors import TraceError

INTS = meta(64, dtype=torch.int32), meta(64, dtype=torch.int8), 0.5
FACTOR = "the factor {0}= of {1} operands is one that {1} holds"
NOT_BY_0 = "ints are divided by what is not 0"


@mistake(TraceError, (FACTOR.format("alpha", "int32"), "but got alpha=0.5", ".float()"), "torch.add", *INTS)
def sum_of_ints_by_a_fraction(x, y, s):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.add(x[tile], y[tile], alpha=0.5)  # <-


@mistake(TraceError, (FACTOR.format("value", "int32"), "but got a value= of torch.float32"), "torch.addcmul", *INTS)
def product_of_ints_by_a_fraction(x, y, s):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.addcmul(x[tile], y[tile], y[tile], value=s)  # <-


@mistake(TraceError, (FACTOR.format("alpha", "int8"), "but got alpha=300"), "y[tile].sub", *INTS)
def sum_of_ints_by_more_than_they_hold(x, y, s):
    for tile in tfl.tile(x.size(0)):
        y[tile] = y[tile].sub(y[tile], alpha=300)  # <-


@mistake(
    TraceError,
    (FACTOR.format("beta", "int32"), "but got beta=0.5"),
    "torch.addmm",
    meta(64, 64, dtype=torch.int32),
    meta(64, 64, dtype=torch.int8),
)
def product_of_int_matrices_by_a_fraction(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.addmm(x[tile, :], y[tile, :], y[:, :], beta=0.5)  # <-


@mistake(
    TraceError,
    (
        "an operand must be a tile, a size or",
        "but got complex 1j",
        "tiles are real: keep the real and the imaginary parts",
    ),
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
        "of complex tensors pass torch.view_as_real(x)",
    ),
    "tfl.tile",
    meta(64, 96, dtype=torch.complex64),
)
def complex_tensor(x):
    for tile in tfl.tile(64):  # <-
        x[tile, :] = x[tile, :] * 2


@mistake(
    TraceError,
    (
        "a dtype is torch.float32, torch.int8, torch.bool ...",
        "but got 'float'",
        "a dtype's name is no dtype",
    ),
    "tfl.zeros",
)
def zeros_dtype(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.zeros([tile, 96], dtype="float")  # <-


@mistake(
    TraceError, ("other is a number of x's dtype", "but got 0.5", "promotes both"), "tfl.load",
    meta(64, 96, dtype=torch.int32),
)  # fmt: skip
def fill_of_another_dtype(x):
    for tile in tfl.tile(64):
        x[tile, 0] = tfl.load(x, [tile, 0], extra_mask=tile.index > 3, other=0.5)  # <-


@mistake(TraceError, (".to in a tile loop takes a dtype, but got 'float16'", "torch.float16, no text"), "x[tile, :].to")
def dtype_as_text(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].to("float16")  # <-


@mistake(TraceError, ("extra_mask is a tile of bool", "compare: extra_mask=x > 0"), "tfl.load")
def mask_of_floats(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = tfl.load(x, [tile, slice(None)], extra_mask=x[tile, :])  # <-


@mistake(TraceError, ("softmax is of floats", "softmax(x.float(), dim)"), "torch.softmax", meta(96, dtype=torch.int64))
def softmax_of_ints(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.softmax(x[tile], 0)  # <-


@mistake(
    TraceError, ("a number is one that uint8 holds, but got 300", "-255 to 255"), "x[tile]", meta(96, dtype=torch.uint8)
)
def number_too_large_for_a_store(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = 300  # <-


@mistake(TraceError, ("a number is one that int8 holds, but got 128",), "tfl.full", meta(96, dtype=torch.int8))
def number_too_large_to_fill(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = tfl.full([tile], 128, dtype=torch.int8)  # <-


OF_INTS = meta(64, dtype=torch.int32), meta(64, dtype=torch.int8)


@mistake(TraceError, ("torch.silu takes floats", "but got int32", ".float()"), "F.silu", *OF_INTS)
def activation_of_ints(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile] = F.silu(x[tile])  # <-


@mistake(TraceError, ("torch.lerp takes floats", "but got int32, int32"), "torch.lerp", *OF_INTS)
def lerp_of_ints(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.lerp(x[tile], x[tile], 0.5)  # <-


@mistake(TraceError, ("torch.addcdiv divides floats", "int32[tile]", ".float()"), "torch.addcdiv", *OF_INTS)
def addcdiv_of_ints(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.addcdiv(y[tile].float(), x[tile], x[tile])  # <-


@mistake(TraceError, ("a bool as the factor alpha=", "alpha=True of float32 operands"), "torch.add", X)
def sum_by_a_bool(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.add(x[tile, :], x[tile, :], alpha=True)  # <-


@mistake(TraceError, (NOT_BY_0, "floordiv of int32 by 0", "torch.where"), "x[tile] // 0", *OF_INTS)
def quotient_by_0(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[tile] // 0  # <-


@mistake(TraceError, (NOT_BY_0, "remainder of int8 by 256"), "y[tile] % 256", *OF_INTS)
def remainder_by_what_wraps_to_0(x, y):
    for tile in tfl.tile(x.size(0)):
        y[tile] = y[tile] % 256  # <-


@mistake(TraceError, (NOT_BY_0, "truncdiv of int32 by 0"), "torch.div", *OF_INTS)
def cut_quotient_by_0(x, y):
    for tile in tfl.tile(x.size(0)):
        x[tile] = torch.div(x[tile], 0, rounding_mode="trunc")  # <-


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
