"""What is kept beside a kernel of others: how its arguments are made, and plain torch for what it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import torch

from tileflow.runtime.argtree import tensors


@dataclass(frozen=True)
class Stranger:
    """``make(**small)``: arguments that an interpreter takes, at sizes that leave tails; ``make(**large)``: those that
    a GPU is worth. ``reference(*args)``: in plain torch, of its own dtypes. ``loops``: it goes over elements in Python,
    which takes minutes at the large size."""

    kernel: Any
    make: Callable[..., tuple[Any, ...]]
    reference: Callable[..., Any]
    small: dict[str, Any]
    large: dict[str, Any]
    loops: bool = False

    def arguments(self, size: str = "small", device: str = "cpu") -> tuple[Any, ...]:
        """The same values each time, on one kind of device."""
        return self._made(size, device, 0)

    def arguments_as_here(self, device: str, size: str = "large") -> tuple[Any, ...]:
        """The same shapes on every device, whose generators differ: made on the CPU where values say what they are."""
        if not self.is_sized_by_values:
            return self.arguments(size, device)
        made = BytesIO()
        torch.save(self.arguments(size), made)  # which keeps strides, and what shares memory
        made.seek(0)
        return tuple(torch.load(made, map_location=device, weights_only=False))

    @cached_property
    def is_sized_by_values(self) -> bool:
        """Whether a tensor is as long as random numbers say, as the elements of rows of random lengths are."""
        one, other = (tensors(self._made("small", "cpu", seed)) for seed in (0, 1))
        return any(a.shape != b.shape for a, b in zip(one, other, strict=True))

    def _made(self, size: str, device: str, seed: int) -> tuple[Any, ...]:
        torch.manual_seed(seed)
        with torch.device(device):
            return tuple(self.make(**(self.small if size == "small" else self.large)))


ALL: dict[str, Stranger] = {}


def stranger(
    make: Callable[..., tuple[Any, ...]],
    reference: Callable[..., Any],
    small: dict[str, Any],
    large: dict[str, Any],
    loops: bool = False,
) -> Callable[[Any], Any]:
    def register(kernel: Any) -> Any:
        def on_their_device(*args: Any) -> Any:
            with next(tensors(args)).device:
                return reference(*args)

        ours = getattr(kernel, "__tileflow_kernel__", kernel)  # of one in the dialect, what it is here
        ALL[kernel.__name__] = Stranger(ours, make, on_their_device, small, large, loops)
        return kernel

    return register


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)
