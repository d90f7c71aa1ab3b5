"""Mistakes of products, scans and atomics; see table.py."""

from __future__ import annotations

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import X, meta, mistake
from tileflow.errors import (
    ShapeError,
    TraceError,
)


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
    ("have their dimensions in one order", "[b, a]", "turn one of them: .T, or .permute(1, 0)"),
    "tfl.dot",
    X,
    meta(96, 64),
)
def dot_acc_turned(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = tfl.dot(x[a, :], y[:, b], acc=tfl.zeros([b, a]))  # <-


@mistake(
    ShapeError,
    ("dimensions that meet must have the same size", "but got a and b", "give both loops the same block"),
    "tfl.dot",
    X,
    meta(96, 64),
)
def dot_acc_shape(x, y):
    for a, b in tfl.tile([64, 64]):
        x[a, b] = tfl.dot(x[a, :], y[:, b], acc=tfl.zeros([a, a]))  # <-


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
        "reduce it: x.sum(0), x.amax(0)",
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
