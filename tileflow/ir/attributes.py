"""What an op says besides its operands: one frozen class for each kind, or for a family of kinds.

``AccessAttrs.of(op)`` gives an op's attributes under their own type; a pass makes others by ``dataclasses.replace``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from ..errors import InternalError
from ..expr import Expr

if TYPE_CHECKING:
    from .graph import IndexItem, Op

Number = int | float


@dataclass(frozen=True, slots=True)
class Attrs:
    """The base of all attributes, and the attributes of kinds that have none."""

    @classmethod
    def of(cls, op: Op) -> Self:
        """The attributes of an op, which are these or a family of these."""
        if isinstance(op.attrs, cls):
            return op.attrs
        raise InternalError(f"an op of kind {op.kind} has {cls.__name__}", got=type(op.attrs).__name__, where=op.loc)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values as the printed form has them: by name, without what is None unless said."""
        cls: Any = type(self)
        found = [(name, getattr(self, name), is_optional) for name, is_optional in _names(cls)]
        return [(name, value) for name, value, is_optional in found if not is_optional or value is not None]


@cache
def _names(cls: Any) -> list[tuple[str, bool]]:
    """The fields by name, and whether each is None by default."""
    return sorted((f.name, f.default is None) for f in fields(cls))


NO_ATTRS = Attrs()


@dataclass(frozen=True, slots=True)
class AccessAttrs(Attrs):
    """The attributes of what reads or writes a tensor. ``tensor``: its path. ``has_mask``: whether the last input is a
    mask."""

    tensor: str
    index: tuple[IndexItem, ...]
    site: str
    has_mask: bool


@dataclass(frozen=True, slots=True)
class LoadAttrs(AccessAttrs):
    """``other``: what lanes hold that are not read. ``eviction``: the cache policy that the author chose."""

    other: Number
    eviction: str | None


@dataclass(frozen=True, slots=True)
class StoreAttrs(AccessAttrs):
    """The attributes of ``store``."""


@dataclass(frozen=True, slots=True)
class AtomicAttrs(AccessAttrs):
    """``fn``: what is done with the element. ``sem``: the memory order."""

    fn: str
    sem: str


@dataclass(frozen=True, slots=True)
class HistogramAttrs(AtomicAttrs):
    """``number``: what each lane adds; None: its own value, 0 or 1. ``chosen``: the tensor's dimensions that lanes
    choose an element of. ``places``: how many elements those have at most, a power of two."""

    number: Number | None
    chosen: tuple[int, ...]
    places: int


@dataclass(frozen=True, slots=True)
class PointwiseAttrs(Attrs):
    """``fn``: a row of ``POINTWISE``. ``operand``: the dtype in which the operands meet."""

    fn: str
    operand: str


@dataclass(frozen=True, slots=True)
class SizeAttrs(Attrs):
    """The expression that a size op evaluates."""

    value: Expr


@dataclass(frozen=True, slots=True)
class ScalarAttrs(Attrs):
    """``path``: of the captured number."""

    path: str


@dataclass(frozen=True, slots=True)
class TileAttrs(Attrs):
    """``tile``: the name of a tile of the region."""

    tile: str


@dataclass(frozen=True, slots=True)
class LoopAttrs(TileAttrs):
    """``bounds``: how many inputs are bounds of the tile, in front of what the loop carries."""

    bounds: int


@dataclass(frozen=True, slots=True)
class TilePartAttrs(TileAttrs):
    """``part``: 0 for the left half of the tile ``whole``, 1 for the right one."""

    whole: str
    part: int


@dataclass(frozen=True, slots=True)
class ArangeAttrs(Attrs):
    """``start``: the first of the consecutive ints; the op's output says how many there are."""

    start: Expr


@dataclass(frozen=True, slots=True)
class RandomAttrs(Attrs):
    """``stream``: which sequence of numbers. ``sizes``, ``offsets``: of the whole in each dimension, and where this
    tile begins in it; the first size is None where only the kernel knows it."""

    stream: tuple[int, int]
    sizes: tuple[Expr | None, ...]
    offsets: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AxisAttrs(Attrs):
    """``axis``: a dimension of the first input; the inserted one's place among the output's, of ``unsqueeze``."""

    axis: int


@dataclass(frozen=True, slots=True)
class FoldAttrs(AxisAttrs):
    """``fn``: a row of ``NEUTRAL``."""

    fn: str


@dataclass(frozen=True, slots=True)
class ReduceAttrs(FoldAttrs):
    """``site``: the structural name of the reduction, after which its knobs are called."""

    site: str


@dataclass(frozen=True, slots=True)
class ClusterReduceAttrs(Attrs):
    """``fn``: a row of ``NEUTRAL``, by which the blocks' values are put together. ``to_all``: every block has the
    result, as of an all-reduce, else the first one alone."""

    fn: str
    to_all: bool = False


@dataclass(frozen=True, slots=True)
class ClusterExchangeAttrs(Attrs):
    """``fns``: for each input, the row of ``NEUTRAL`` by which the blocks' numbers are put together."""

    fns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScanAttrs(FoldAttrs):
    """``reverse``: the scan starts at the last element of the dimension."""

    reverse: bool


@dataclass(frozen=True, slots=True)
class CombineAttrs(AxisAttrs):
    """``other``: for each input, what leaves the region's function unchanged; None where the author named nothing."""

    other: tuple[Number, ...] | None


@dataclass(frozen=True, slots=True)
class CombineScanAttrs(AxisAttrs):
    """``reverse``: the scan by the author's function starts at the last element of the dimension."""

    reverse: bool


@dataclass(frozen=True, slots=True)
class PermuteAttrs(Attrs):
    """``order``: for each dimension of the output, which one of the input it is."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReshapeAttrs(Attrs):
    """``needs``: conditions on block sizes and sizes under which no tile that is cut or merged is a shorter one."""

    needs: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class NibblesAttrs(Attrs):
    """``signed``: whether a nibble holds -8 to 7, or else 0 to 15."""

    signed: bool


@dataclass(frozen=True, slots=True)
class WhereMaskAttrs(Attrs):
    """``axes``: the dimensions whose masked lanes take the other value."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DotAttrs(Attrs):
    """``precision``: of products of float32. ``acc``: the dtype of the sum."""

    precision: str
    acc: str
    site: str


@dataclass(frozen=True, slots=True)
class DotScaledAttrs(Attrs):
    """``formats``: of both sides. ``scaled``: whether each side has a scale among the inputs."""

    formats: tuple[str, str]
    scaled: tuple[bool, bool]
    site: str


@dataclass(frozen=True, slots=True)
class InlineAsmAttrs(Attrs):
    """The attributes of ``inline_asm``. ``vendor``: whose assembly it is."""

    asm: str
    constraints: str
    pack: int
    is_pure: bool
    vendor: str


@dataclass(frozen=True, slots=True)
class ForeignAttrs(Attrs):
    """Triton text of the author's. ``arguments``: placeholders, and what stands for each. ``functions``: names and
    texts of those that it calls. ``tensors``: the paths of those whose pointers it is given."""

    text: str
    arguments: tuple[tuple[str, Any], ...]
    functions: tuple[tuple[str, str], ...]
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrintAttrs(Attrs):
    """``prefix``: the text printed before the values."""

    prefix: str


@dataclass(frozen=True, slots=True)
class IfAttrs(Attrs):
    """``test``: a condition that the config answers; None where the first input is it. ``first_holds``: the first side
    gives what the second one does where that is taken, in more operations; None: nothing is known."""

    test: Expr | None = None
    first_holds: bool | None = None


def site_of(op: Op) -> str:
    """The id under which an op's knobs are; empty for ops that have none."""
    attrs = op.attrs
    return attrs.site if isinstance(attrs, (AccessAttrs, ReduceAttrs, DotAttrs, DotScaledAttrs)) else ""
