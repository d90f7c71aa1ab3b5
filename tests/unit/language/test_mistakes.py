"""Mistakes outside a loop's body: what is decorated, what a config says; the dialect's; and odd things that are right.

Those of loops, branches and stores stand in ``tile_testing.mistakes.loops``; ``frontend/test_errors.py`` checks them.
"""

# Code as a user would mistype it.
# ruff: noqa: B007, B023, RET503

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.mistakes import loops
from tile_testing.mistakes.table import H200, MISTAKES, X

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl
from tileflow.errors import CallError, ConfigError, KernelError, ShapeError, SplitError, TileflowError, TraceError

V = torch.zeros(96)


def plain(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = 1
    return x


def dialect(x: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        x[tile] = 1
    return x


async def asynchronous(x: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        x[tile] = 1


def generator(x: torch.Tensor) -> Any:
    for tile in tfl.tile(x.size(0)):
        x[tile] = 1
    yield x


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        return fn(*args)

    return call


class Holder:
    """Not a kernel."""


# ---- what is decorated --------------------------------------------------------------------------

PLAIN = "a kernel is made of a plain Python function"
ENDS = "a kernel runs to its end when it is called"
DECORATED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "async": (asynchronous, (ENDS, "asynchronous, an async function", "without yield or await")),
    "generator": (generator, (ENDS, "generator, a generator", "without yield or await")),
    "class": (Holder, (PLAIN, "Holder", "decorate a function")),
    "builtin": (len, (PLAIN, "built-in function len", "right above `def`")),
    "partial": (functools.partial(plain), (PLAIN, "functools.partial", "decorate the function that")),
    "static": (staticmethod(plain), (PLAIN, "staticmethod", "write @staticmethod above it")),
    "of a class": (classmethod(plain), (PLAIN, "classmethod", "write a function")),
    "cached": (functools.lru_cache(plain), (PLAIN, "_lru_cache_wrapper", "below all others")),
    "a name": ("plain", (PLAIN, "str 'plain'", "right above `def`")),
    "a kernel": (tileflow.kernel(plain), (PLAIN, "Kernel", "it is a kernel already")),
    "wrapped": (logged(plain), ("the function that holds its loops", "another decorator made of plain", "right above")),
    "without gradients": (torch.no_grad()(plain), ("the function that holds its loops", "right above `def`")),
}


@pytest.mark.parametrize("name", DECORATED)
def test_what_is_no_kernel(name: str) -> None:
    """An ``AssertionError`` without words before, or an error in the first call."""
    function, says = DECORATED[name]
    with pytest.raises(KernelError) as caught:
        tileflow.kernel(function)
    assert all(part in str(caught.value) for part in says), caught.value
    assert caught.value.got and caught.value.hint


PARTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "inputs": ({"inputs": 3}, ("inputs= of a kernel is a function", "int 3", "help(tileflow.kernel)")),
    "reference": ({"reference": "plain"}, ("reference= of a kernel is a function", "str 'plain'")),
    "baseline": ({"baseline": (plain,)}, ("baseline= of a kernel is a function", "tuple")),
    "sizes": ({"debug_sizes": 4}, ("debug_sizes= of a kernel is a dictionary", "int 4", "debug_sizes={")),
    "sizes by number": ({"debug_sizes": {0: 4}}, ("debug_sizes= of a kernel is a dictionary", "dict {0: 4}")),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_is_given_with_a_kernel(name: str) -> None:
    """It was refused in a sweep's workers, if at all, in Python's words."""
    given, says = PARTS[name]
    with pytest.raises(KernelError) as caught:
        tileflow.kernel(plain, **given)
    assert all(part in str(caught.value) for part in (*says, __file__)), caught.value


class WithMethods:
    """A class whose author writes kernels where functions would be methods."""

    @tileflow.kernel
    def method(self: Any, x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1
        return x

    @staticmethod
    @tileflow.kernel
    def static(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1
        return x


def test_a_kernel_of_a_class_is_no_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLOW_INTERPRET", "1")
    held, x = WithMethods(), torch.zeros(3)
    with pytest.raises(CallError, match=r"missing a required argument: 'x'\n.*give it the object first"):
        held.method(x)
    assert torch.equal(WithMethods.method(held, x), torch.ones(3))
    assert torch.equal(held.static(torch.zeros(3)), torch.ones(3))


# ---- what a config says -------------------------------------------------------------------------

CONFIGS: dict[str, tuple[Any, str]] = {
    "two blocks": ({"block_sizes": [16, 16]}, "block_sizes has one entry a call site.*the call sites are block:tile"),
    "no block": ({"block_sizes": []}, "got 0 for 1"),
    "a block below 0": ({"block_sizes": [-16]}, "a block size is an int of 1 or more, but got -16"),
    "a block of 0": ({"block_sizes": [0]}, "a block size is an int of 1 or more, but got 0"),
    "a text": ({"block_sizes": ["16"]}, "a block size is an int of 1 or more, but got '16'"),
    "a fraction": ({"block_sizes": [16.5]}, "a block size is an int of 1 or more, but got 16.5"),
    "no power": ({"block_sizes": [16], "num_warps": 3}, "num_warps is a power of two, but got 3"),
    "warps as text": ({"block_sizes": [16], "num_warps": "4"}, "num_warps is an int of 1 or more, but got '4'"),
    "stages": ({"block_sizes": [16], "num_stages": -1}, "num_stages is an int of 1 or more, but got -1"),
    "unknown": ({"block_sizes": [16], "blok": 3}, "a config's key is the dialect's.*'blok'"),
    "programs": ({"block_sizes": [16], "pid_type": "nope"}, "pid_type is one of.*'nope'"),
    "access": ({"block_sizes": [16], "indexing": "nope"}, "indexing are of.*nope"),
    "a list": ([16], "a config is a Config, or a dictionary of one's keys, but got list"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_of_the_dialect(name: str) -> None:
    """Blocks below 1 became 1, texts and fractions ints, three warps four: all without a word but a note."""
    config, says = CONFIGS[name]
    with pytest.raises(ConfigError, match="(?s)" + says):
        kernel = helion.kernel(dialect, config=config)
        kernel.bind((V,)).to_triton_code(kernel.configs[0])


@pytest.mark.parametrize("block", [0, -4, 2.5, "16", True])
def test_blocks_of_the_eager_meaning(block: Any) -> None:
    """0 ran as the default, -4 not at all."""
    with pytest.raises(ConfigError, match=r"a block size is an int of 1 or more, but got block:tile="):
        tileflow.kernel(plain).run_eagerly(V.clone(), config={"block:tile": block})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_quantized_tensor_is_none_of_a_kernels() -> None:
    with pytest.raises(CallError, match=r"a kernel's tensors are strided, but got x with torch\.qint8"):
        tileflow.kernel(plain)(torch.quantize_per_tensor(V, 1.0, 0, torch.qint8))


# ---- the same in the dialect --------------------------------------------------------------------


def hl_empty(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        pass


def hl_tile_of_a_tile(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        for inner in hl.tile(tile):
            x[inner, :] = 1


def hl_box_without_brackets(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(192, 128):
        x[tile, :] = 1


def hl_no_store(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        x[tile, :] + 1


def hl_two_shapes(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        y = x[tile, :]
        if tile.begin > 3:
            y = x[tile, 0:1]
        x[tile, 0] = y.sum(1)


def hl_sum_over_the_grid(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        x[0, 0] += hl.load(x, [tile, 1]).sum()


def hl_return(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        return x[tile, :]


def hl_break(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        for inner in hl.tile(x.size(1)):
            x[tile, inner] = 0
            break


def hl_after_the_loop(x):  # type: ignore[no-untyped-def]
    for tile in hl.tile(x.size(0)):
        x[tile, :] = 0
    return tile.begin


DIALECT: dict[Callable[..., Any], tuple[type[TileflowError], str]] = {
    hl_empty: (SplitError, "does something with its tiles"),
    hl_tile_of_a_tile: (TraceError, "a loop runs over sizes and scalars"),
    hl_box_without_brackets: (SplitError, "begin is at most its end"),
    hl_no_store: (TraceError, "stores what it computes"),
    hl_two_shapes: (ShapeError, "tiles of one shape"),
    hl_sum_over_the_grid: (TraceError, "do not overwrite each other"),
    hl_return: (SplitError, "device code cannot contain return"),
    hl_break: (SplitError, "break out of a tile loop"),
    hl_after_the_loop: (SplitError, "host code cannot read tile"),
}


@pytest.mark.parametrize("function", DIALECT, ids=lambda f: f.__name__)
def test_mistakes_in_the_dialect(function: Callable[..., Any]) -> None:
    error, says = DIALECT[function]
    with pytest.raises(error) as caught:
        helion.kernel(function, static_shapes=True).__tileflow_kernel__.lower((X,), H200)
    assert says in str(caught.value) and caught.value.where is not None


# ---- odd, and right -----------------------------------------------------------------------------


@tileflow.kernel
def odd_things(x: torch.Tensor) -> torch.Tensor:
    names = {"a": 1, "b": 2}
    for tile in tfl.tile(x.size(0)):
        added = 1

        def more(value):  # type: ignore[no-untyped-def]
            return value + added

        added = 2  # a function reads a name when it is called
        x[tile, 0] = more(x[tile, 0])
        for n, key in enumerate(names):
            x[tile, n + 1] = names[key]
        for tile_n in tfl.tile(4, 8, block_size=tile):
            x[tile, tile_n] = 3
        else:
            x[tile, 8] = 4
        for i in tfl.grid(12):
            if i < 11:
                continue
            if i < x.size(1):  # of an if, only the kernel knows what comes out
                x[tile, i] = 5
        print("a shape", x.shape, x.dtype)
        x[tile, 9:20] = 6
    return x


@tileflow.kernel
def guarded_stores(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        if tile.id == 0:
            out[0] = tile.end
        tfl.store(out, 1, tile.begin, extra_mask=tile.id == 1)
        out[2] = x.size(0)
        tfl.atomic_add(out, [3], x[tile, 0].sum())
    for tile in tfl.tile(x.size(0), block_size=64):
        out[4] = x[tile, 1].sum()


def test_what_is_odd_and_right_stays() -> None:
    for kernel, args in ((odd_things, (X,)), (guarded_stores, (X, torch.empty(5, device="meta")))):
        lowered = kernel.lower(args, H200)
        assert lowered.emit(lowered.default)
    x = torch.zeros(64, 12)
    wanted = torch.tensor([2.0, 1, 2, 0, 3, 3, 3, 3, 4, 6, 6, 6]).expand(64, 12)
    assert torch.equal(odd_things.run_eagerly(x), wanted)


def test_count_by_outcome() -> None:
    """How many of the table of loops end in which class, and that there are enough."""
    table = [m for m in MISTAKES.values() if m.function.__module__ == loops.__name__]
    counts = collections.Counter(m.error.__name__ for m in table)
    counts += collections.Counter(error.__name__ for error, _ in DIALECT.values())
    counts += {KernelError.__name__: len(DECORATED), ConfigError.__name__: len(CONFIGS)}
    print(f"{counts.total()} mistakes: {', '.join(f'{n} {name}' for name, n in counts.most_common())}")
    assert len(table) >= 40 and counts.total() >= 75
