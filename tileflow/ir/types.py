"""What a value in a kernel is: a dtype and dimensions, each with an explicit extent and an explicit mask identity."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Location
from ..expr import Expr

INT32_MAX = 2**31 - 1
FLOAT_BITS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
}
INT_BITS = {
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "uint8": 8,
    "bool": 1,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
}


def is_float(dtype: str) -> bool:
    """Whether ``dtype``, by its name, is a floating-point one."""
    return dtype in FLOAT_BITS


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return max((FLOAT_BITS.get(dtype) or INT_BITS[dtype]) // 8, 1)


def fills_registers(size: int) -> bool:
    """Whether a dimension of so many elements fills its registers; one without any leaves a lane over."""
    return size > 0 and size & (size - 1) == 0


_ONE = Expr.of(1)


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension. ``extent`` decides the shape: a size, or a polynomial over block symbols.

    ``tile`` decides the mask: the loop whose lanes these are, or None (every lane up to ``extent`` is valid).
    ``step``: where a reshape merged the tile's dimension with others, how many neighbours share one of its lanes: lane
    ``j`` of this dimension is lane ``j // step % block`` of the tile. ``number``: which of the dimensions without a
    tile it is that are as long and have nothing else to do with one another.
    """

    extent: Expr
    tile: str | None = None
    step: Expr = _ONE
    number: int = 0

    def bare(self) -> Dim:
        """The same extent with no mask identity."""
        return Dim(self.extent)

    def __str__(self) -> str:
        if self.tile and (self.step.constant != 1 or self.extent.op == "prod"):
            return f"{self.tile}:{self.extent}/{self.step}"
        return f"{self.tile}" if self.tile else str(self.extent) + "'" * self.number


ONE = Dim(Expr.of(1))


@dataclass(frozen=True, slots=True)
class TileType:
    """``dtype`` is torch's name. ``weak``: a scalar that takes part in promotion as a Python number does."""

    dtype: str
    dims: tuple[Dim, ...] = ()
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]" + ("~" if self.weak else "")


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of one op. ``id`` is unique in its KernelIR, and the value's identity."""

    id: int
    type: TileType
    loc: Location | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions of the value's type; none for a scalar."""
        return self.type.dims

    def __str__(self) -> str:
        return f"%{self.id}"


def width(value: Value) -> int:
    """The dimensions of a value that may have more than one element."""
    return sum(dim.extent.constant != 1 for dim in value.dims)
