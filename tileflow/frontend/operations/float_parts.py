"""Floats taken apart by their bits: mantissa and exponent, and the number next to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...errors import TraceError
from ..promotion import dtype_name
from ..torch_registry import named, register_torch
from ..trace import Tracer
from .special import meeting
from .views import view


@dataclass(frozen=True, slots=True)
class _Format:
    """Where the parts of a float lie. ``shift``: a power of two that makes each number below the normal ones one."""

    of_bits: torch.dtype
    mantissa: int
    bias: int
    shift: int

    @property
    def most(self) -> int:
        """The exponent's bits, all set: those of infinity and NaN."""
        return 2 * self.bias + 1


_FORMATS = {
    "float16": _Format(torch.int16, 10, 15, 12),
    "bfloat16": _Format(torch.int16, 7, 127, 24),
    "float32": _Format(torch.int32, 23, 127, 24),
    "float64": _Format(torch.int64, 52, 1023, 54),
}


@register_torch("frexp")
def frexp(t: Tracer, x: Any) -> Any:
    """``x`` as a mantissa of 1/2 up to 1 and an int32 exponent of 2; 0, infinity and NaN are themselves, with 0."""
    dtype = x.value.type.dtype
    if dtype not in _FORMATS:
        raise TraceError(
            "frexp takes floats, as torch's does", where=t.location(), got=dtype, hint="convert with .float()"
        )
    if dtype in ("float16", "bfloat16"):  # which have no mantissa that float32 lacks
        mantissa, exponent = frexp(t, t.cast(x, "float32"))
        return named("frexp", t.cast(mantissa, dtype), exponent)
    form = _FORMATS[dtype]
    is_small = t.pointwise("abs", x) < torch.finfo(x.dtype).tiny
    normal = t.pointwise("where", is_small, x * 2.0**form.shift, x)
    bits: Any = view(t, normal, form.of_bits)
    raised = (bits >> form.mantissa) & form.most
    exponent = raised - (form.bias - 1) - t.pointwise("where", is_small, form.shift, 0)
    mantissa = view(t, (bits & ~(form.most << form.mantissa)) | ((form.bias - 1) << form.mantissa), x.dtype)
    has_none = t.pointwise("logical_or", x == 0, raised == form.most)
    exponent = t.cast(t.pointwise("where", has_none, 0, exponent), "int32")
    return named("frexp", t.pointwise("where", has_none, x, mantissa), exponent)


@register_torch("nextafter")
def nextafter(t: Tracer, x: Any, towards: Any) -> Any:
    """The number next to ``x`` on the way to ``towards``; NaN where either is."""
    x, towards = meeting(t, x, towards)
    of_bits = _FORMATS[x.value.type.dtype].of_bits
    farther = (x < towards) == (x > 0)  # away from 0, where one more is the next number's bits
    step = t.cast(t.pointwise("where", farther, 1, -1), dtype_name(of_bits))
    least = t.cast(t.pointwise("where", towards > 0, 1, torch.iinfo(of_bits).min + 1), dtype_name(of_bits))
    found = view(t, t.pointwise("where", x == 0, least, view(t, x, of_bits) + step), x.dtype)
    found = t.pointwise("where", x == towards, towards, found)
    unordered = t.pointwise("logical_or", x != x, towards != towards)
    return t.pointwise("where", unordered, x + towards, found)
