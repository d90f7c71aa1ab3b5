"""What torch computes of floating-point tensors alone: its functions of this kind refuse ints, and so do kernels."""

from __future__ import annotations

from typing import Any

from ..errors import Location, TraceError
from .values import TileValue

_OF_FLOATS = frozenset({
    "celu", "elu", "frac", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "huber_loss", "hypot",
    "layer_norm", "leaky_relu", "lerp", "logaddexp", "logaddexp2", "logcumsumexp", "logsigmoid", "mish", "mse_loss",
    "normalize", "prelu", "rms_norm", "selu", "silu", "smooth_l1_loss", "softplus", "softshrink",
})  # fmt: skip


def check_floats(name: str, args: tuple[Any, ...], where: Location | None) -> None:
    """Raises TraceError where all tiles that a function of floats is given hold ints. A number is none."""
    if name not in _OF_FLOATS:
        return
    tiles = [x for x in args if isinstance(x, TileValue) and not x.value.type.weak]
    if tiles and not any(x.is_floating_point() for x in tiles):
        raise TraceError(
            f"torch.{name} takes floats, as in torch",
            got=", ".join(x.value.type.dtype for x in tiles),
            where=where,
            hint="convert with .float()",
        )
