"""What a tensor says of itself, of captured tensors and of tiles alike: sizes, dtype, and the answers that follow."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch

from ..errors import ShapeError, TraceError
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


def refuse_device(asked: str) -> NoReturn:
    """Raises TraceError: a kernel is lowered without its tensors, once for all devices of a class."""
    raise TraceError(
        "which device a call is on is asked in host code",
        got=f"{asked} of a tensor in a tile loop",
        hint="before the tile loop: on_gpu = x.device.type == 'cuda'",
    )


class CallDevice(str):
    """A tensor's device in device code: it says where a tile is made, and is equal to that of any other tensor. A text,
    since torch's functions take nothing else in a device's place."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """For ``isinstance`` in device code."""
        return torch.device

    @property
    def type(self) -> NoReturn:
        """Raises TraceError."""
        refuse_device("device.type")

    @property
    def index(self) -> NoReturn:
        """Raises TraceError."""
        refuse_device("device.index")

    def __eq__(self, other: object) -> bool:
        if type(other) is not CallDevice:
            refuse_device("whether device is another")
        return True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        refuse_device("hash(device)")

    def __str__(self) -> str:
        refuse_device("str(device)")

    def __repr__(self) -> str:
        return "the device of the call"

    def __format__(self, spec: str) -> str:
        refuse_device("the text of device")


def _device_question(name: str) -> Any:
    return property(lambda _: refuse_device(name))


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
    def device(self) -> CallDevice:
        """The device of the call, where the tiles are too."""
        return CallDevice(str(self.tracer.device))

    is_cuda, is_cpu, is_meta, is_xpu, is_mps = map(
        _device_question, ("is_cuda", "is_cpu", "is_meta", "is_xpu", "is_mps")
    )

    def get_device(self) -> NoReturn:
        """Raises TraceError."""
        refuse_device("get_device()")

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

    def ndimension(self) -> int:
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
