"""Names that the dialect keeps under ``experimental``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...derive.kernel import derive_backward
from .kernel import Kernel, aot_kernel

__all__ = ["aot_kernel", "backward"]

_made: dict[tuple[Kernel, Any], Kernel] = {}  # by the forward kernel and the derived one


def backward(
    kernel: Kernel,
    grad_out: torch.Tensor | Sequence[torch.Tensor],
    *inputs: Any,
    return_code: bool = False,
    autotune: bool = False,
    autotune_effort: str | None = None,
) -> Any:
    """The gradients of the floating-point tensors among ``inputs``: several as a tuple, one alone.

    ``grad_out``: the gradient of the result, a tuple of them of several. ``return_code``: also the derived kernel's
    text, and the Triton generated from it. ``autotune``: search for its config first, with any ``autotune_effort`` but
    "none". The kernel need not have been called before. Raises what :func:`tileflow.derive_backward` does.
    """
    args = kernel.normalize_args(*inputs)
    derived = derive_backward(kernel)
    kind = derived.kind(*args)
    made = _made.setdefault((kernel, kind), Kernel(kind.scope, settings=kernel.settings))
    grads = (grad_out,) if isinstance(grad_out, torch.Tensor) else tuple(grad_out)
    given = (*args, *grads)
    if autotune and autotune_effort != "none" and not made.configs:
        made.autotune(given)
    with torch.no_grad():
        found = made(*given)
    return (found, derived.source(*args), made.bind(given).to_triton_code()) if return_code else found
