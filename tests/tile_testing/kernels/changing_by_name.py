"""Reads that name no attribute by a dot: by ``getattr`` and the like, by operators; and numbers that torch does not see
change. More of ``CASES``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.changing_dialect import CASES, case, run
from tile_testing.kernels.outside_kernels import Step, X

__all__ = ["CASES", "run"]


class Named:
    factor = 2.0
    offset_1 = 1.0


class Looked:
    """What it gives is another object's."""

    def __getitem__(self, name: str) -> float:
        return TABLE[name]

    def __getattr__(self, name: str) -> float:
        return TABLE[name]  # a KeyError where there is none, which Python passes on

    def __len__(self) -> int:
        return int(TABLE["factor"])


TABLE, NAMES, looked, held = {"factor": 2.0}, ("factor",), Looked(), SimpleNamespace(word="mul")
number = torch.tensor(2.0)

WAYS: dict[str, Callable[[Any], Any]] = {
    "getattr": lambda x: x * getattr(Named, "factor"),  # noqa: B009
    "a_name_found_elsewhere": lambda x: x * sum([getattr(Named, name) for name in NAMES]),
    "a_name_that_is_made": lambda x: x * getattr(Named, f"{'fac'}tor"),
    "vars": lambda x: x * vars(Named)["factor"],
    "the_dictionary": lambda x: x * Named.__dict__["factor"],
    "attrgetter": lambda x: x * operator.attrgetter("factor")(Named),
    "an_index": lambda x: x * looked["factor"],
    "an_attribute_that_is_looked_up": lambda x: x * looked.factor,
    "a_length": lambda x: x * len(looked),
    "a_number_in_a_tensor": lambda x: x * number,
}


def _by(way: Callable[[Any], Any]) -> Callable[[], Iterator[Step]]:
    @tileflow.kernel
    def applied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = way(x[tile])
        return out

    def script() -> Iterator[Step]:
        meanings = set()
        for factor in (2.0, 3.0, 2.0, 4.0):
            Named.factor = TABLE["factor"] = factor
            number.numpy()[...] = factor
            meanings.add(applied.semantic_hash)
            yield applied(X), X * factor
        if "Named" in way.__code__.co_names:  # a class's constant is a part of what the kernel means
            yield len(meanings), 3

    return script


CASES |= {f"what_is_read_by_{name}": _by(way) for name, way in WAYS.items()}


@tileflow.kernel
def by_word(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * getattr(Named, "factor") if getattr(held, "word") == "mul" else x[tile]  # noqa: B009
    return out


@case
def what_device_code_itself_reads_by_getattr() -> Iterator[Step]:
    for word, factor in (("mul", 2.0), ("mul", 3.0), ("none", 3.0), ("mul", 2.0)):
        held.word, Named.factor = word, factor
        yield by_word(X), X * factor if word == "mul" else X


@case
def a_number_in_a_tensor_of_inference_mode() -> Iterator[Step]:
    """Torch counts no writes there: it was a RuntimeError."""
    global number
    before = number
    with torch.inference_mode():
        number = torch.tensor(2.0)
    kernel = _by(WAYS["a_number_in_a_tensor"])
    yield from kernel()
    number = before
