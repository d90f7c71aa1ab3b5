"""Mistakes of host code, its block sizes and its knobs; see table.py."""

# Code as a user would mistype it.
# ruff: noqa: F841

from __future__ import annotations

import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import CallError, HostDataError, TraceError


@mistake(HostDataError, ("host code of a kernel that is lowered without", "lower it from real example inputs"), "x.sum")
def host_if_tile(x):
    if x.sum() > 0:  # <-
        x = x + 1
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = 0


@mistake(
    HostDataError, ("host code of a kernel that is lowered without", "lower it from real example inputs"), "x[0, 0]"
)
def host_item(x):
    n = int(x[0, 0].item())  # <-
    for tile in tfl.tile(n):
        x[tile, :] = 0


@mistake(HostDataError, ("host code of a kernel that is lowered without", "lower it from real example inputs"), "x[0]")
def host_tolist(x):
    n = x[0].tolist()  # <-
    for tile in tfl.tile(64):
        x[tile, :] = n[0]


@mistake(
    HostDataError, ("host code of a kernel that is lowered without", "lower it from real example inputs"), "x.nonzero"
)
def host_nonzero(x):
    n = x.nonzero()  # <-
    for tile in tfl.tile(64):
        x[tile, :] = n.size(0)


@mistake(
    HostDataError, ("host code of a kernel that is lowered without", "lower it from real example inputs"), "x.numpy"
)
def host_numpy(x):
    n = x.numpy()  # <-
    for tile in tfl.tile(64):
        x[tile, :] = n[0]


@mistake(
    CallError,
    (
        "tileflow.language.full works inside a @tileflow.kernel function only",
        "decorate the function, or use tileflow.interpret()",
    ),
    "tfl.zeros",
)
def host_tfl(x):
    z = tfl.zeros([4, 4])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = 0


@mistake(
    TraceError,
    ("a block size has no Python number: the config", "but got block:tile", "use it in shapes, bounds and"),
    "tfl.static_range",
)
def static_range_block(x):
    for tile in tfl.tile(64):
        for i in tfl.static_range(tile.block_size):  # <-
            x[i, :] = 0


@mistake(
    TraceError,
    ("a block size has no Python number", "but got block:tile", "use it in shapes, bounds and arithmetic"),
    "{16: 1,",
)
def dict_block(x):
    for tile in tfl.tile(64):
        x[tile, :] = {16: 1, 32: 2}[tile.block_size]  # <-


@mistake(
    TraceError,
    (
        "the config is asked in host code",
        "but got register_block_size inside a tile loop",
        "call it before the loop, and",
    ),
    "tfl.register_block_size",
)
def reg_block_device(x):
    for tile in tfl.tile(64):
        b = tfl.register_block_size(16)  # <-
        for tile_k in tfl.tile(96, block_size=b):
            x[tile, tile_k] = 0


@mistake(
    CallError,
    (
        "a block size lies between two ints, the lower",
        "but got 1, 32.5",
        "tfl.register_block_size(high), tfl.register_block_size(low, high)",
    ),
    "tfl.register_block_size",
)
def reg_block_float(x):
    b = tfl.register_block_size(32.5)  # <-
    for tile in tfl.tile(64, block_size=b):
        x[tile, :] = 0


@mistake(
    CallError,
    (
        "tfl.register_block_size must be called as it is defined",
        "but got missing a required argument: 'low'",
        "tfl.register_block_size(low: 'int', high: 'int | None'",
    ),
    "tfl.register_block_size",
)
def reg_block_none(x):
    b = tfl.register_block_size()  # <-
    for tile in tfl.tile(64, block_size=b):
        x[tile, :] = 0


@mistake(
    TraceError,
    ("the config is asked in host code", "but got register_tunable inside a tile loop", "call it before the loop, and"),
    "tfl.register_tunable",
)
def tun_device(x):
    for tile in tfl.tile(64):
        b = tfl.register_tunable("a", [1, 2])  # <-
        x[tile, :] = b


@mistake(
    CallError,
    ("the tunable a is one of some ints, some", "but got ()", 'tfl.register_tunable("a", [1, 2]); choose floats by'),
    "tfl.register_tunable",
)
def tun_empty(x):
    b = tfl.register_tunable("a", [])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = b


@mistake(
    CallError,
    (
        "the tunable a is one of some ints, some",
        "but got (1.5, 2.5)",
        'tfl.register_tunable("a", [1, 2]); choose floats by',
    ),
    "tfl.register_tunable",
)
def tun_float(x):
    b = tfl.register_tunable("a", [1.5, 2.5])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = b


@mistake(
    CallError,
    (
        "the tunable a is one of some ints, some",
        "but got (1, 'a')",
        'tfl.register_tunable("a", [1, 2]); choose floats by',
    ),
    "tfl.register_tunable",
)
def tun_mixed(x):
    b = tfl.register_tunable("a", [1, "a"])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = 1


@mistake(
    CallError,
    ("a tunable has a name and a list of", "but got 3, [1, 2]", 'tfl.register_tunable("name", [1, 2, 4])'),
    "tfl.register_tunable",
)
def tun_name(x):
    b = tfl.register_tunable(3, [1, 2])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = 1


@mistake(
    CallError,
    ("a tunable has one set of choices", "but got tunable:a: (1, 2) and (3, 4)", "give the second another name"),
    "tfl.register_tunable",
)
def tun_twice(x):
    b = tfl.register_tunable("a", [1, 2])
    c = tfl.register_tunable("a", [3, 4])  # <-
    for tile in tfl.tile(64):
        x[tile, :] = b + c


@mistake(
    TraceError,
    (
        "tfl.specialize takes a size or an int argument",
        "but got tile float32[tile, 96]",
        "what a tensor holds is known",
    ),
    "tfl.specialize",
)
def specialize_tile(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.specialize(x[tile, :])  # <-


@mistake(
    TraceError,
    ("a block size has no Python number: the config", "but got block:tile", "use it in shapes, bounds and"),
    "tfl.specialize",
)
def specialize_block(x):
    for tile in tfl.tile(64):
        x[tile, :] = tfl.specialize(tile.block_size)  # <-
