"""Gradients through host code, by torch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..runtime.argtree import is_traced, tensors


def pull_back(
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    others: Sequence[Any],
    asked: Sequence[int],
    grads: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """The gradients of ``inputs`` for ``function(*inputs, *others)``; zeros where nothing depends on one.

    ``asked``: which of the tensors that the function returns have gradients, ``grads``.
    """
    if any(map(is_traced, inputs)):  # only shapes are asked for, by an operator under which autograd records nothing
        return tuple(map(torch.empty_like, inputs))
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        found = [*tensors((function(*leaves, *others),))]
        results = [found[i] for i in asked]
    made = torch.autograd.grad(results, leaves, list(grads), allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, made, strict=True))
