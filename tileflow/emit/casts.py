"""Conversions between dtypes, as torch converts.

torch rounds to the short floating types by way of float32. Past the largest number, float8_e4m3fn keeps the largest,
as NVIDIA's instruction does; float8_e5m2 becomes infinite and AMD's fnuz types NaN, as no instruction does.
"""

from __future__ import annotations

from ..ir.types import is_float, itemsize
from ..target import Target
from .dtypes import triton_dtype
from .module import ModuleText

# from where on a number rounds to more than the largest, and the bits of what it becomes, positive and negative
_OVERFLOW = {
    "float8_e5m2": (61440.0, 0x7C, 0xFC),
    "float8_e4m3fnuz": (248.0, 0x80, 0x80),
    "float8_e5m2fnuz": (61440.0, 0x80, 0x80),
}
_LARGEST_E4M3 = 448.0


def converted(name: str, held: str, dtype: str, target: Target, module: ModuleText) -> str:
    """The text of ``name``, held in another dtype, in ``dtype``; ``module``: where it may need a helper."""
    if held.startswith("float8") and dtype != "float32":
        name, held = f"{name}.to(tl.float32)", "float32"  # fp8 is converted, and nothing else
    if dtype == "bool":
        return f"({name} != 0)"
    if dtype.startswith("float8"):
        return _to_fp8(name if held == "float32" else f"{name}.to(tl.float32)", dtype, target, module)
    if is_float(dtype) and itemsize(dtype) < 4 and not (is_float(held) and itemsize(held) <= 4):
        name = f"{name}.to(tl.float32)"
    return f"{name}.to({triton_dtype(dtype)})"


def _to_fp8(name: str, dtype: str, target: Target, module: ModuleText) -> str:
    if dtype == "float8_e4m3fn":
        if target.vendor == "amd":
            limits = f"-{_LARGEST_E4M3}, {_LARGEST_E4M3}, propagate_nan=tl.PropagateNan.ALL"
            name = f"tl.clamp({name}, {limits})"
        return f"{name}.to({triton_dtype(dtype)})"
    limit, positive, negative = _OVERFLOW[dtype]
    overflow = module.helper(
        f"_to_{dtype}",
        f"(x):\n    bits = x.to({triton_dtype(dtype)}).to(tl.uint8, bitcast=True)\n"
        f"    beyond = tl.where(x < 0, {negative}, {positive}).to(tl.uint8)\n"
        f"    return tl.where(tl.abs(x) >= {limit}, beyond, bits).to({triton_dtype(dtype)}, bitcast=True)\n",
    )
    return f"{overflow}({name})"
