"""A construct's kernel with what it must give beside it, and the data that such kernels are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SHORT_TILES = "a tile at the end of a size is as short as it is eagerly, and is no tile of its block's size to reshape"


@dataclass(frozen=True)
class Case:
    """``kernel(*args)`` must give ``wanted(*args)``. ``eager``: why the eager meaning is another, or empty."""

    kernel: Any
    args: tuple[Any, ...]
    wanted: Callable[..., torch.Tensor]
    config: tuple[tuple[str, Any], ...] = ()
    eager: str = ""


class Cases(dict[str, Case]):
    """The cases of one module, by the names of their kernels."""

    def case(
        self,
        *args: Any,
        wanted: Callable[..., torch.Tensor],
        knobs: dict[str, Any] | None = None,
        eager: str = "",
        **blocks: Any,
    ) -> Callable[[Any], Any]:
        """Decorates a kernel; ``blocks`` holds sizes of its blocks, ``knobs`` other choices."""

        def register(kernel: Any) -> Any:
            config = {f"block:{name}": size for name, size in blocks.items()} | (knobs or {})
            self[kernel.__name__] = Case(kernel, args, wanted, tuple(config.items()), eager)
            return kernel

        return register


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ints(high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))
