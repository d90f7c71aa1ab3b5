"""Kernels that read globals, cells, attributes and entries, which change between calls: ``CASES``, and :func:`run`.

Each case is a script of steps: a change, then what the kernel must give after it. It runs in a process in which Triton
interprets, where a call is lowered, emitted and launched as on a GPU.
"""

from __future__ import annotations

import sys
import types
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import outside_other as other
import torch
import torch.nn.functional as F
from outside_other import Settings

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel

HERE = sys.modules[__name__]
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


# ---- ints ------------------------------------------------------------------------------------------------------------

STEPS, SIZES = 2, [4, 5]


@tileflow.kernel
def by_global_int(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * STEPS + SIZES[1] + PAIR[0]
    return out


@case
def global_ints() -> Iterator[Step]:
    """They become run-time values, so that a further one needs no trace."""
    global STEPS, PAIR
    traces = Traces(by_global_int)
    for number in range(2, 8):
        STEPS, SIZES[1], PAIR = number, number + 1, (number + 2, 3)
        yield by_global_int(X), X * number + 2 * number + 3
    yield traces.count <= 4, True


@dataclass
class Shape:
    """A dataclass with ints, and one that nobody reads."""

    rows: int
    inner: tuple[int, ...] = ()
    more: dict[str, int] = field(default_factory=dict)


Pair = namedtuple("Pair", "a b")


@tileflow.kernel
def by_container(x: torch.Tensor, held: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * held[0] + held[1]
    return out


@case
def ints_in_sequences() -> Iterator[Step]:
    traces = Traces(by_container)
    for number in range(2, 6):
        yield by_container(X, (number, 1)), X * number + 1
        yield by_container(X, [number, 2]), X * number + 2
        yield by_container(X, Pair(number, 3)), X * number + 3
    yield traces.count, 6


@tileflow.kernel
def by_record(x: torch.Tensor, held: Shape) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * held.rows + held.inner[0] - held.more["k"]
    return out


@case
def ints_in_dataclasses_and_dictionaries() -> Iterator[Step]:
    traces = Traces(by_record)
    for number in range(2, 6):
        yield by_record(X, Shape(number, (number + 1,), {"k": 2 * number})), X * number + 1 - number
    yield traces.count, 2


@case
def ints_that_a_function_argument_closes_over() -> Iterator[Step]:
    for number in (2, 3, 4):
        yield with_epilogue(X, lambda x: x * number + 1), X * number + 1  # noqa: B023


@tileflow.kernel
def by_made_int(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The second launch captures what host code reads from data, after the first one stored into an argument."""
    out = torch.empty_like(x)
    count = int(y[0])
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] + 1
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * count
    return out


@case
def an_int_that_host_code_reads() -> Iterator[Step]:
    for number in (2, 3, 4, 2):
        x = X.clone()
        yield by_made_int(x, torch.tensor([number])), (X + 1) * number
        yield x, X + 1


HOSTS = 2


@tileflow.kernel
def by_host_int(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = HOSTS + 1
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] + 1
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * count
    return out


@case
def an_int_of_host_code_in_a_second_launch() -> Iterator[Step]:
    global HOSTS
    traces = Traces(by_host_int)
    for HOSTS in (2, 3, 4, 5, 2):
        x = X.clone()
        yield by_host_int(x), (X + 1) * (HOSTS + 1)
        yield x, X + 1
    yield traces.count <= 2, True


@tileflow.kernel
def in_second_launch(x: torch.Tensor, read: Any, held: Any) -> torch.Tensor:
    """The first launch changes an argument, so that the call cannot begin anew where the second one is declined."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] + 1
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * read(held)
    return out


def of_item(held: Any) -> Any:
    return held[0]


def of_key(held: Any) -> Any:
    return held["k"]


def of_attribute(held: Any) -> Any:
    return held.rows


def of_function(held: Any) -> Any:
    return held()


HOLDERS: dict[str, tuple[Any, Any]] = {
    "tuple": (of_item, lambda n: (n,)),
    "list": (of_item, lambda n: [n]),
    "named_tuple": (of_item, lambda n: Pair(n, 1)),
    "dictionary": (of_key, lambda n: {"k": n}),
    "dataclass": (of_attribute, lambda n: Shape(n)),
    "closure": (of_function, lambda n: lambda: n),
}


def _holding(name: str) -> Callable[[], Iterator[Step]]:
    def script() -> Iterator[Step]:
        read, hold = HOLDERS[name]
        traces = Traces(in_second_launch)
        for number in (2, 3, 4, 5, 2):
            x = X.clone()
            yield in_second_launch(x, read, hold(number)), (X + 1) * number
            yield x, X + 1
        yield traces.count <= 2, True

    return script


CASES |= {f"an_int_in_a_{name}_in_a_second_launch": _holding(name) for name in HOLDERS}


@tileflow.kernel
def by_width(x: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + tfl.zeros([tile, shape[0]]).sum(1) + shape[1]
    return out


@case
def an_int_that_a_shape_needs() -> Iterator[Step]:
    """It selects code: each value has a variant."""
    for number in (4, 8, 4, 16):
        yield by_width(X, (number, number)), X + number


# ---- what host code makes --------------------------------------------------------------------------------------------


@tileflow.kernel
def by_made_constant(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty_like(x)
    flag, word = n > 3, "add" if n > 5 else "mul"
    f = op if n > 7 else op2
    for tile in tfl.tile(x.numel()):
        value = f(x[tile])
        value = value + 1 if flag else value
        out[tile] = value + 1 if word == "add" else value * 2
    return out


@case
def constants_that_host_code_makes() -> Iterator[Step]:
    for n in (2, 4, 6, 8, 2, 9):
        value = (X + 1 if n > 7 else X * 3) + (1 if n > 3 else 0)
        yield by_made_constant(X, n), value + 1 if n > 5 else value * 2


CHOSEN = {"a": op, "b": op2}


@tileflow.kernel
def by_chosen(x: torch.Tensor, name: str) -> torch.Tensor:
    out = torch.empty_like(x)
    f = CHOSEN[name]
    for tile in tfl.tile(x.numel()):
        out[tile] = f(x[tile])
    return out


@case
def a_function_that_host_code_chooses() -> Iterator[Step]:
    yield by_chosen(X, "a"), X + 1
    CHOSEN["a"] = middle
    other.SCALE = 2.0
    yield by_chosen(X, "a"), X * 2
    other.SCALE = 3.0
    yield by_chosen(X, "a"), X * 3
    yield by_chosen(X, "b"), X * 3
