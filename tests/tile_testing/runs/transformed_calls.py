"""What runs in the process that interprets: calls inside transforms that follow torch's operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tile_testing.runs.threaded_calls import shifted


def _inside(v: torch.Tensor) -> torch.Tensor:
    return shifted(v, 1.0)


TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "vmap": lambda fn: torch.vmap(fn),
    "grad": lambda fn: torch.func.grad(lambda v: fn(v).sum()),
    "functionalize": lambda fn: torch.func.functionalize(fn),
    "make_fx": lambda fn: make_fx(fn),
    "make_fx of functionalize": lambda fn: make_fx(torch.func.functionalize(fn)),
    "make_fx before dispatch": lambda fn: make_fx(fn, pre_dispatch=True),
}


def said(name: str, is_warm: bool) -> str:
    """What a call inside a transform raises. ``is_warm``: after one outside, which leaves how calls like it run."""
    x = torch.ones(2, 5 + 10 * is_warm)
    if is_warm:
        for _ in range(2):
            _inside(x[0])
    try:
        TRANSFORMS[name](_inside)(x if name == "vmap" else x[0])
    except Exception as error:  # torch's own among them
        return f"{type(error).__name__}: {error}"
    return "nothing"


def graph_of_fake_tensors() -> list[str]:
    """The operators that ``make_fx`` records of tensors without data."""
    graph = make_fx(_inside, tracing_mode="fake")(torch.ones(5)).graph
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]
