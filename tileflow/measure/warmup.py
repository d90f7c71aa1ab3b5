"""A trial without a kernel, before there is one: what the first in a process loads takes longer than measuring.

That is the device's context, the libraries of products, and torch's kernels for inputs, references, checks, timing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .check import check_call, make_reference
from .inputs import poisoned
from .timing import DeviceSampler, Effort, measure

if TYPE_CHECKING:
    import torch

SIZE = 256
DTYPES = ("float32", "float16", "bfloat16")
_EFFORT = Effort(max_samples=7)


def warm_up_libraries() -> None:
    """Check and time a plain torch function on the current CUDA device, in each of :data:`DTYPES`."""
    import torch

    for name in DTYPES:
        with poisoned():
            args = tuple(torch.randn(SIZE, SIZE, dtype=getattr(torch, name), device="cuda") for _ in range(2))
        check_call(_weights, args, make_reference(_weights, args))
        measure(DeviceSampler(_weights, args), _EFFORT)


def _weights(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """(n, n), (n, n) -> (n, n). A product, a reduction over rows, arithmetic by element."""
    import torch

    return torch.softmax(x @ y, dim=-1)
