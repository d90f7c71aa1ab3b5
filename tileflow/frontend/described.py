"""What a tensor says of itself, of captured tensors and of tiles alike: sizes, dtype, and the answers that follow."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..errors import ShapeError
from ..expr import Expr
from .sizes import SymInt
from .traced import Operand


class Sizes(tuple[Any, ...]):
    """A ``torch.Size`` whose sizes may be symbolic."""

    __slots__ = ()

    def numel(self) -> Any:
        """Their product."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Sizes(found) if isinstance(index, slice) else found


class Described(Operand):
    """What has sizes and a dtype. Subclasses say which: ``extents`` and ``dtype``."""

    __slots__ = ()

    layout = torch.strided
    requires_grad = is_sparse = is_quantized = is_nested = False

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The sizes as they are in the IR."""
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the elements."""
        raise NotImplementedError

    @property
    def shape(self) -> Sizes:
        """One size for each dimension: an int where it is a constant, else a symbolic one."""
        return Sizes(map(self.tracer.size, self.extents))

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.extents)

    @property
    def device(self) -> torch.device:
        """The device of the call that is traced."""
        return self.tracer.device

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.numel() * self.itemsize

    def dim(self) -> int:
        """How many dimensions it has."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the one of ``dim``."""
        return self.shape if dim is None else self.of_axis(self.shape, dim)

    def numel(self) -> Any:
        """The product of all sizes."""
        return self.tracer.size(math.prod(self.extents, start=Expr.of(1)))

    def nelement(self) -> Any:
        """The product of all sizes."""
        return self.numel()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one, of which there is none."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def of_axis(self, items: tuple[Any, ...], axis: Any) -> Any:
        """The one of ``items``, one a dimension, that is of ``axis``. Raises ShapeError where there is no such."""
        if isinstance(axis, SymInt):
            axis = int(axis)
        if not isinstance(axis, int) or not -len(items) <= axis < len(items):
            raise ShapeError(
                f"a dimension must lie in [{-len(items)}, {len(items) - 1}]",
                got=repr(axis),
                where=self.tracer.location(),
                hint="count dimensions from 0, or from -1 at the end",
            )
        return items[axis]
