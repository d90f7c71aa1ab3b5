"""Run as a script: compile a kernel with other constants in another process, or print the names of its operators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


class Side(Enum):
    LEFT = "left"
    RIGHT = "right"


class Pair(NamedTuple):
    first: Any
    second: Any


class Other(NamedTuple):
    first: Any
    second: Any


@tileflow.kernel
def cast(x: Tensor, dtype: torch.dtype, doubled: bool) -> Tensor:
    out = x.new_empty(x.shape, dtype=dtype)
    for tile in tfl.tile(x.size(0)):
        v = x[tile] * 2 if doubled else x[tile]
        out[tile] = v.to(dtype)
    return out


@tileflow.kernel
def takes(x: Tensor, what: Any, fixed: tfl.constexpr = 0) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + 1
    return out


def plus(bias: Tensor, cubed: bool = False) -> Callable[[Any], Any]:
    return lambda v: (v * v * v if cubed else v) + bias


def plus_again(bias: Tensor, cubed: bool = False) -> Callable[[Any], Any]:
    return lambda v: (v * v * v if cubed else v) + bias


def minus(bias: Tensor) -> Callable[[Any], Any]:
    return lambda v: v - bias


def named(fn: Callable[..., Any], *args: Any) -> str:
    """The name of the one operator that a function of a tensor becomes."""
    graph = make_fx(lambda x: fn(x, *args), tracing_mode="fake", _allow_non_fake_inputs=True)(torch.zeros(8)).graph
    (name,) = {str(node.target) for node in graph.nodes if str(node.target).startswith("tileflow.")}
    return name


W = torch.zeros(8)
WHAT: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "1": 1,
    "1.0": 1.0,
    "str": "1",
    "empty": "",
    "words": "None",
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "left": Side.LEFT,
    "right": Side.RIGHT,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "tuple": (True, 1),
    "other tuple": (1, True),
    "list": [True, 1],
    "nested": ((True,), 1),
    "pair": Pair(True, "a"),
    "other pair": Other(True, "a"),
    "dict": {"a": True},
    "other key": {"b": True},
    "key 1": {1: True},
    "key '1'": {"1": True},
    "tensor": W,
    "plus": plus(W),
    "plus, cubed": plus(W, True),
    "minus": minus(W),
    "partial": partial(plus(W), True),
    "partial by keyword": partial(plus(W), v=True),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}
FIXED: dict[str, Any] = {
    "0": 0, "1": 1, "1.0": 1.0, "True": True, "2": 2, "-0.0": -0.0, "str": "1", "(1, 2)": (1, 2), "(2, 1)": (2, 1),
    "(1, (2,))": (1, (2,)), "None": None, "float32": torch.float32,
}  # fmt: skip


def names(backwards: bool) -> dict[str, str]:
    """The names of all operators, made in one order or the other."""
    calls = [(f"what {key}", (value,)) for key, value in WHAT.items()]
    calls += [(f"fixed {key}", (None, value)) for key, value in FIXED.items()]
    return dict(sorted((key, named(takes, *args)) for key, args in (reversed(calls) if backwards else calls)))


def compiled(dtype: torch.dtype, doubled: bool) -> None:
    """Compile a function of the kernel by Inductor, and check it."""

    def squared(x: Tensor) -> Tensor:
        made = cast(x, dtype, doubled).view(8, 8)
        return (
            made @ made
        )  # into memory of a dtype that Inductor wrote down; and it builds no C++, which takes a minute

    x = torch.arange(64.0) / 8
    with tileflow.interpret():
        got = torch.compile(squared, fullgraph=True, backend="inductor")(x)
    wanted = (x * (2 if doubled else 1)).to(dtype).view(8, 8)
    torch.testing.assert_close(got, wanted @ wanted)


if __name__ == "__main__":
    if sys.argv[1] == "names":
        for key, name in names(sys.argv[2] == "backwards").items():
            print(key, name)
    else:
        compiled(getattr(torch, sys.argv[2]), sys.argv[3] == "doubled")
