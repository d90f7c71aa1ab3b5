"""Kernels that read globals, cells, attributes and entries, which change between calls: ``CASES``, and :func:`run`.

Each case is a script of steps: a change, then what the kernel must give after it. It runs in a process in which Triton
interprets, where a call is lowered, emitted and launched as on a GPU.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels import outside_other as other
from tile_testing.kernels.outside_other import Settings
from tileflow.api import Kernel

X = torch.linspace(-2, 2, 21)
Step = tuple[Any, Any]  # what the kernel gave, what it must give

CASES: dict[str, Callable[[], Iterator[Step]]] = {}


def case(script: Callable[[], Iterator[Step]]) -> Callable[[], Iterator[Step]]:
    CASES[script.__name__] = script
    return script


def run(names: list[str]) -> list[str]:
    """For each case what went wrong, "" for nothing."""
    return [*map(_run, names)]


def _run(name: str) -> str:
    try:
        for number, (got, wanted) in enumerate(CASES[name]()):
            same = torch.allclose(got, wanted) if isinstance(got, torch.Tensor) else got == wanted
            if not same:
                return f"step {number}: {got} instead of {wanted}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Traces:
    """Counts how often a kernel was compiled."""

    def __init__(self, kernel: Kernel) -> None:
        self.count, launchers = 0, kernel.launchers

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return launchers(*args, **kwargs)

        kernel.launchers = counted  # type: ignore[method-assign]


# ---- globals of the kernel itself -----------------------------------------------------------------------------------

FLAG, WORD, PAIR, TABLE = True, "add", (2, 3), [torch.sin]
NUMBER = 2


def op(x: Any) -> Any:
    return x + 1


def op2(x: Any) -> Any:
    return x * 3


@tileflow.kernel
def by_flag(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + 1 if FLAG else x[tile] - 1
    return out


@case
def bool_rebound() -> Iterator[Step]:
    global FLAG
    traces = Traces(by_flag)
    for FLAG in (True, False, True, False, True):
        yield by_flag(X), X + 1 if FLAG else X - 1
    yield traces.count, 2


@tileflow.kernel
def by_word(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        if WORD == "add":
            out[tile] = x[tile] + 1
        else:
            out[tile] = x[tile] * 3
    return out


@case
def string_rebound() -> Iterator[Step]:
    global WORD
    for WORD in ("add", "mul", "".join(["a", "dd"])):
        yield by_word(X), X + 1 if WORD == "add" else X * 3


@tileflow.kernel
def by_function(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = op(x[tile])
    return out


@case
def function_rebound() -> Iterator[Step]:
    """A function, a lambda, torch's own; the code and the defaults of one changed in place."""
    global op
    first = op
    traces = Traces(by_function)
    yield by_function(X), X + 1
    op = op2
    yield by_function(X), X * 3
    op = lambda x: x - 7  # noqa: E731
    yield by_function(X), X - 7
    op = torch.cos
    yield by_function(X), torch.cos(X)
    op = first
    yield by_function(X), X + 1
    yield traces.count, 4
    code, op.__code__ = op.__code__, op2.__code__
    yield by_function(X), X * 3
    op.__code__ = code
    yield by_function(X), X + 1


def shifted(x: Any, by: float = 1.0, *, more: float = 0.0) -> Any:
    return x + by + more


@tileflow.kernel
def by_default(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = shifted(x[tile])
    return out


@case
def defaults_changed() -> Iterator[Step]:
    yield by_default(X), X + 1
    shifted.__defaults__ = (5.0,)
    yield by_default(X), X + 5
    assert shifted.__kwdefaults__ is not None
    shifted.__kwdefaults__["more"] = 1.0
    yield by_default(X), X + 6


@tileflow.kernel
def by_table(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        value = x[tile]
        for f in TABLE:
            value = f(value)
        out[tile] = value
    return out


@case
def list_of_functions_changed() -> Iterator[Step]:
    yield by_table(X), torch.sin(X)
    TABLE[0] = torch.cos
    yield by_table(X), torch.cos(X)
    TABLE.append(op2)
    yield by_table(X), torch.cos(X) * 3
    TABLE[:] = [torch.sin]
    yield by_table(X), torch.sin(X)


leaky = torch.nn.LeakyReLU(0.1)


@tileflow.kernel
def by_module_object(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = leaky(x[tile])
    return out


@case
def attribute_of_a_librarys_object() -> Iterator[Step]:
    global leaky
    for slope in (0.1, 0.5, 0.1):
        leaky.negative_slope = slope
        yield by_module_object(X), F.leaky_relu(X, slope)
    leaky = torch.nn.LeakyReLU(0.7)
    yield by_module_object(X), F.leaky_relu(X, 0.7)


class Options:
    """A user's object: its methods and properties are device code or read natively."""

    kind = "double"

    def __init__(self) -> None:
        self.bias, self.negate, self._steps, self.level = 1.0, False, 2, 3

    @property
    def is_high(self) -> bool:
        return self.level > 2

    def apply(self, x: Any) -> Any:
        x = -x if self.negate else x
        x = x * 2 if self.kind == "double" else x
        return x + self.bias


options = Options()


@tileflow.kernel
def by_object(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        value = options.apply(x[tile])
        out[tile] = value + 10 if options.is_high else value
    return out


@case
def attribute_of_a_users_object() -> Iterator[Step]:
    yield by_object(X), X * 2 + 11
    options.negate = True
    yield by_object(X), 11 - X * 2
    options.bias = 2.0
    yield by_object(X), 12 - X * 2
    options.level = 1
    yield by_object(X), 2 - X * 2
    Options.kind = "single"
    yield by_object(X), 2 - X
    old, Options.apply = Options.apply, lambda self, x: x * self.bias  # type: ignore[method-assign,assignment]
    yield by_object(X), X * 2
    Options.apply = old  # type: ignore[method-assign]
    yield by_object(X), 2 - X


@tileflow.kernel
def by_class(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + Settings.offset if Settings.name == "add" else x[tile]
    return out


@case
def attribute_of_a_class() -> Iterator[Step]:
    yield by_class(X), X + 1
    Settings.offset = 4
    yield by_class(X), X + 4
    Settings.name = "none"
    yield by_class(X), X


# ---- what helpers read ----------------------------------------------------------------------------------------------


@tileflow.kernel
def by_module(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        value = other.apply(x[tile])
        out[tile] = other.inner(value) if other.FLAG else value
    return out


@case
def modules_and_their_contents() -> Iterator[Step]:
    global other
    yield by_module(X), X * 2 + 3
    other.SCALE = 4.0
    yield by_module(X), X * 4 + 3
    other.COUNT = 5
    yield by_module(X), X * 4 + 5
    other.FLAG = False
    yield by_module(X), X * 4
    first, third = other, types.ModuleType("third")
    exec("FLAG = True\ndef apply(x): return x\ndef inner(x): return x", vars(third))
    third.apply, third.inner = op2, op2  # type: ignore[attr-defined]
    other = third
    yield by_module(X), X * 9
    other = first
    yield by_module(X), X * 4


@tileflow.kernel
def by_library(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = F.silu(x[tile])
    return out


@case
def library_rebound() -> Iterator[Step]:
    global F
    first = F
    yield by_library(X), first.silu(X)
    F = types.SimpleNamespace(silu=op2)  # type: ignore[assignment]
    yield by_library(X), X * 3
    F = first
    yield by_library(X), first.silu(X)


def outer(x: Any) -> Any:
    return middle(x) + NUMBER


def middle(x: Any) -> Any:
    return other.apply(x)


@tileflow.kernel
def through_helpers(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = outer(x[tile])
    return out


@case
def globals_of_helpers() -> Iterator[Step]:
    global NUMBER, middle
    other.SCALE = 2.0
    yield through_helpers(X), X * 2 + 2
    NUMBER = 5
    yield through_helpers(X), X * 2 + 5
    other.SCALE = 3.0
    yield through_helpers(X), X * 3 + 5
    before, middle = middle, lambda x: x
    yield through_helpers(X), X + 5
    NUMBER, middle = 2, before
    yield through_helpers(X), X * 3 + 2


def made(flag: bool, count: int) -> tuple[Any, Callable[[bool, int], None]]:
    @tileflow.kernel
    def closing(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = x[tile] * count if flag else x[tile]
        return out

    def change(to: bool, number: int) -> None:
        nonlocal flag, count
        flag, count = to, number

    return closing, change


@case
def cells_of_the_kernel() -> Iterator[Step]:
    closing, change = made(True, 3)
    yield closing(X), X * 3
    change(False, 3)
    yield closing(X), X
    for number in (4, 5, 6):
        change(True, number)
        yield closing(X), X * number


ALPHA = 2.0


@tileflow.kernel
def with_epilogue(x: torch.Tensor, epilogue: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = epilogue(x[tile])
    return out


@case
def globals_of_a_function_argument() -> Iterator[Step]:
    global ALPHA

    def epilogue(x: Any) -> Any:
        return x * ALPHA

    yield with_epilogue(X, op2), X * 3
    for ALPHA in (2.0, 3.0, 2.0):
        yield with_epilogue(X, epilogue), X * ALPHA
    yield with_epilogue(X, op2), X * 3
