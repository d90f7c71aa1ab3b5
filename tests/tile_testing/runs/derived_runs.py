"""What runs in the process that interprets: derived backward passes as Triton, against torch's autograd."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
from tile_testing.kernels.derived_kernels import EXAMPLES
from tileflow.target import target


def _made(spec: Any) -> Any:
    if isinstance(spec, tuple) and all(isinstance(n, int) for n in spec):
        return torch.randn(spec)
    return tuple(map(_made, spec)) if isinstance(spec, tuple) else spec


def _flat(values: Any) -> list[Any]:
    return [v for value in values for v in (_flat(value) if isinstance(value, tuple) else [value])]


def run(name: str) -> str:
    """What is wrong with a derived backward under the default config; empty where nothing is."""
    torch.manual_seed(0)
    kernel, meaning, spec = EXAMPLES[name]
    args = _made(spec)
    leaves = [a for a in _flat(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    copies = [x.clone().requires_grad_() for x in leaves]
    given = dict(zip(map(id, leaves), copies, strict=True))
    results = _flat((meaning(*_replaced(args, given)),))
    grads = [torch.randn_like(r) for r in results]
    wanted = torch.autograd.grad(results, copies, grads)
    backward = tileflow.derive_backward(kernel).kind(*args)
    lowered = backward.lower((*args, *grads), target("nvidia-h200"))
    found = backward.compile(lowered, lowered.interpretable(lowered.default), "cpu")(*args, *grads)
    try:
        torch.testing.assert_close(_flat((found,)), [*wanted], rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return f"{name}: {error}"
    return ""


def _replaced(value: Any, given: dict[int, torch.Tensor]) -> Any:
    return tuple(_replaced(v, given) for v in value) if isinstance(value, tuple) else given.get(id(value), value)
