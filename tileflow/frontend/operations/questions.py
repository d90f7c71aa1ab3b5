"""What a tensor says of itself, as functions of torch: answers that Python has while the kernel is compiled."""

from __future__ import annotations

from typing import Any

import torch

from ..described import Described
from ..language_registry import QUALIFIED
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .language_functions import is_instance


@register_torch("numel")
def numel(t: Tracer, x: Described) -> Any:
    """How many elements it has."""
    return x.numel()


@register_torch("is_floating_point")
def is_floating_point(t: Tracer, x: Described) -> bool:
    """Whether the dtype is a floating-point one."""
    return x.is_floating_point()


@register_torch("is_complex")
def is_complex(t: Tracer, x: Described) -> bool:
    """Whether the dtype is a complex one."""
    return x.is_complex()


@register_torch("is_signed")
def is_signed(t: Tracer, x: Described) -> bool:
    """Whether the dtype has negative numbers."""
    return x.is_signed()


@register_torch("result_type")
def result_type(t: Tracer, *operands: Any) -> torch.dtype:
    """The dtype of an operation on both."""
    with t.plain_torch():
        return torch.result_type(*map(_stand_in, operands))


def _stand_in(x: Any) -> Any:
    """A tensor, or a number, whose part in torch's promotion is that of ``x``."""
    if not isinstance(x, Described):
        return x
    if isinstance(x, TileValue) and x.is_number:
        return {"bool": False, "int64": 2}.get(x.value.type.dtype, 0.5)
    return torch.empty((1,) * x.ndim, dtype=x.dtype, device="meta")


def _is_tensor(t: Tracer, x: Any) -> bool:
    return is_instance(t, x, torch.Tensor)


QUALIFIED["torch", "is_tensor"] = _is_tensor
