"""A trial without a kernel, while the first one compiles: what a process loads for its first takes longer than trials.

That is the libraries of products, and torch's kernels for references, checks and timing, which are others for each
dtype. So it is made for those of a problem alone: for three of them it took 4.6 s on an H200.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..runtime.argtree import tensors
from .check import check_call, make_reference
from .inputs import poisoned
from .timing import DeviceSampler, Effort, measure

if TYPE_CHECKING:
    import torch

SIZE = 256
DTYPES = ("float32", "float16", "bfloat16")
_EFFORT = Effort(max_samples=7)


def warm_up_libraries(args: tuple[Any, ...]) -> None:
    """Check and time a plain torch function on the current CUDA device, in the dtypes of ``args`` that products are of
    as a rule, once a process."""
    named = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors(args)}
    for name in DTYPES:
        if name in named:
            _warm_up(name)


@functools.cache
def _warm_up(dtype: str) -> None:
    import torch

    with poisoned():
        args = tuple(torch.randn(SIZE, SIZE, dtype=getattr(torch, dtype), device="cuda") for _ in range(2))
    check_call(_weights, args, make_reference(_weights, args))
    measure(DeviceSampler(_weights, args), _EFFORT)


def _weights(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """(n, n), (n, n) -> (n, n). A product, a reduction over rows, arithmetic by element."""
    import torch

    return torch.softmax(x @ y, dim=-1)
