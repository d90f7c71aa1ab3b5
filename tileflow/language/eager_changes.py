"""What changes a tile, as plain Python: operators that assign, and torch's methods in place."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

import torch

from ..errors import ShapeError
from .eager_calls import followed_call
from .eager_parts import check_kept
from .in_place import is_operator
from .rules import KEPT, instead_of_growing, instead_of_in_place
from .unsigned import computed

# what torch calls for ``a op= b``, by name, and the operator with its sign
AUGMENTED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add_": (operator.add, "+"), "sub_": (operator.sub, "-"), "mul_": (operator.mul, "*"),
    "div_": (operator.truediv, "/"), "floor_divide_": (operator.floordiv, "//"), "remainder_": (operator.mod, "%"),
    "pow_": (operator.pow, "**"), "__iand__": (operator.and_, "&"), "__ior__": (operator.or_, "|"),
    "__ixor__": (operator.xor, "^"), "__ilshift__": (operator.lshift, "<<"), "__irshift__": (operator.rshift, ">>"),
}  # fmt: skip


def changed(name: str) -> Callable[..., torch.Tensor]:
    """What a method that changes a tile in place makes of it, of the tile's dtype and shape."""
    plain = _FILLING.get(name) or getattr(torch.Tensor, name[:-1])

    @wraps(plain, updated=())
    def call(tile: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = plain(tile, *args, **kwargs).to(tile.dtype)
        if made.shape != tile.shape:
            shapes = f"{tuple(tile.shape)} .{name} {tuple(made.shape)}"
            raise ShapeError(KEPT, got=shapes, hint=instead_of_in_place(name[:-1]))
        return made

    return call


_FILLING: dict[str, Callable[..., torch.Tensor]] = {
    "fill_": lambda tile, value: torch.full_like(tile, value),
    "zero_": lambda tile: torch.zeros_like(tile),
    "copy_": lambda tile, src, non_blocking=False: torch.as_tensor(src).expand(tile.shape).clone(),
}


def check_part(name: str, tile: Any, frame: FrameType) -> None:
    """Raises TraceError for an operator that assigns to the name of a part of a tensor."""
    if name in AUGMENTED and is_operator(frame):
        check_kept(f"{AUGMENTED[name][1]}=", tile)


def augmented(func: Any, tile: torch.Tensor, other: Any) -> torch.Tensor:
    """``tile op= other``: a new tile of the same dtype and shape, for tiles are values that other names may have."""
    operation, sign = AUGMENTED[func.__name__]

    def compute(tile: torch.Tensor, other: Any) -> torch.Tensor:
        result: torch.Tensor = computed(operation, (tile, other), {}).to(tile.dtype)
        if result.shape != tile.shape:
            shapes = f"{tuple(tile.shape)} {sign}= {tuple(result.shape)}"
            raise ShapeError(KEPT, got=shapes, hint=instead_of_growing(sign))
        return result

    return followed_call(func, (tile, other), {}, compute)  # type: ignore[no-any-return]
