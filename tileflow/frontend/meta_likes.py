"""``torch.empty_like`` and its kin of contiguous meta tensors, made directly while host code runs on metadata.

torch computes what they return in Python, by a module that imports SymPy: 0.3 s of a process's first kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MADE: dict[Any, Callable[..., torch.Tensor]] = {
    torch.empty_like: torch.empty,
    torch.zeros_like: torch.zeros,
    torch.ones_like: torch.ones,
}


class MetaLikes(TorchFunctionMode):
    """Answers ``zeros_like`` and its like for contiguous meta tensors, given a dtype at most; other calls go to
    torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        make = _MADE.get(func)
        if make is not None and len(args) == 1 and kwargs.keys() <= {"dtype"} and type(args[0]) is torch.Tensor:
            (like,) = args
            if like.device.type == "meta" and like.is_contiguous():
                return make(like.shape, dtype=kwargs.get("dtype") or like.dtype, device="meta")
        return func(*args, **kwargs)
