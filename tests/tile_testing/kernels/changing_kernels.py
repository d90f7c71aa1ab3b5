"""Ints that change between calls, wherever they are read, and what host code makes: more of ``CASES``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels import outside_other as other
from tile_testing.kernels.outside_kernels import CASES, Step, Traces, X, case, middle, op, op2, run, with_epilogue

__all__ = ["CASES", "run"]

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


@tileflow.kernel
def sum_of_parts(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(4)
    parts = x.split(4)
    for tile in tfl.tile(4):
        total = tfl.zeros([tile])
        for part in parts:
            total = total + part[tile]
        out[tile] = total
    return out


@case
def a_list_that_host_code_makes_longer() -> Iterator[Step]:
    """A loop over it is written out, for as many parts as there were."""
    for count in (2, 3, 1, 3):
        x = torch.arange(4.0 * count)
        yield sum_of_parts(x), x.view(count, 4).sum(0)


WHOLE = torch.arange(21.0)  # sums of which are exact in any order


def centred(x: torch.Tensor, size: int) -> torch.Tensor:
    return torch.cat([part - part.sum() for part in x.split(size)])


@tileflow.kernel
def by_block_argument(x: torch.Tensor, size: int) -> torch.Tensor:
    """An int that nothing but the size of blocks is made of."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel(), block_size=size):
        out[tile] = x[tile] - x[tile].sum()
    return out


@case
def a_block_size_that_is_an_argument() -> Iterator[Step]:
    for size in (4, 4, 8, 2, 4):
        yield by_block_argument(WHOLE, size), centred(WHOLE, size)


BLOCKS, BLOCK = [4], 4


@tileflow.kernel
def by_held_block(x: torch.Tensor, held: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel(), block_size=held[0]):
        out[tile] = x[tile] - x[tile].sum()
    return out


@tileflow.kernel
def by_global_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    one, other = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.numel(), block_size=BLOCKS[0]):
        one[tile] = x[tile] - x[tile].sum()
    for tile in tfl.tile([x.numel()], block_size=[BLOCK]):
        other[tile] = x[tile] - x[tile].sum()
    return one, other


@case
def block_sizes_that_only_host_code_reads() -> Iterator[Step]:
    """They stayed those of the first call."""
    global BLOCK
    for size in (4, 8, 2, 4):
        BLOCKS[0], BLOCK = size + 1, size + 2
        yield by_held_block(WHOLE, [size]), centred(WHOLE, size)
        one, other = by_global_blocks(WHOLE)
        yield one, centred(WHOLE, size + 1)
        yield other, centred(WHOLE, size + 2)


@tileflow.kernel
def up_to_each(x: torch.Tensor, blocks: Sequence[int], ends: Sequence[int]) -> torch.Tensor:
    """One launch for each item of a list, of which host code that loops makes as many as there are."""
    out = torch.zeros_like(x)
    for end in ends:
        for tile in tfl.tile(end, block_size=blocks[0]):
            out[tile] = x[tile] - x[tile].sum() + end
    return out


@case
def block_sizes_in_a_list_beside_another_list() -> Iterator[Step]:
    """They raised a VariantError from the second size on: host code like this was said to write into its arguments."""
    for blocks, ends in (([4, 2], [8, 12]), ([4, 2], [12, 8]), ([4, 2], [4, 12]), ([2, 4], [12, 12])):
        wanted = torch.zeros_like(WHOLE)
        for end in ends:
            wanted[:end] = centred(WHOLE[:end], blocks[0]) + end
        yield up_to_each(WHOLE, blocks, ends), wanted


@tileflow.kernel
def plus_those_above(x: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
    out = torch.empty_like(x)
    some = [n for n in numbers if n > 1]
    for tile in tfl.tile(x.numel()):
        total = x[tile]
        for number in some:
            total = total + number
        out[tile] = total
    return out


@case
def ints_that_host_code_chooses() -> Iterator[Step]:
    """A shorter list was an IndexError in Triton's interpreter."""
    for numbers in ([2, 3, 3], [2, 1, 2], [1, 1, 1], [3, 3, 2]):
        yield plus_those_above(WHOLE, numbers), WHOLE + sum(n for n in numbers if n > 1)
