"""What every family of templates writes a kernel with: names, lines, plan, types, tile geometry, host parameters.

A family is a set of rules, one for each kind of operation, and a subclass of :class:`Context` that says what only it
can: how lanes come about, which Gluon must be told the layout of, and what a kernel looks like around them. Triton's is
in :mod:`tileflow.emit.kernel`. Rules know the context, the context knows no rule.

Text says ``tl.`` for what is done element by element: Gluon kernels call the same functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from ..config import Config
from ..errors import InternalError, TileflowError
from ..expr import Expr
from ..ir.access import aligned_start, box_order
from ..ir.attributes import AccessAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.types import INT32_MAX, Dim, Value
from ..target import Target
from .casts import converted
from .dtypes import literal
from .module import ModuleText
from .names import Names
from .number_dtypes import NumberDtypes
from .parameters import Divisible, Parameters
from .plan import KernelPlan, constexpr_name
from .writer import Writer

# Parameters of the launch. To torch, which compiles a launch to see what it stores into, they are Python's numbers.
_NUMBERS = (OpKind.SCALAR, OpKind.SIZE)


class Context(ABC):
    """The state of one emission. ``rules``: of the family, by kind of operation.

    ``divisible``: in dynamic mode, which sizes and strides are assumed to be divisible by 16.
    """

    rules: Mapping[OpKind, Callable[[Any, Op], None]]
    is_interpreted: ClassVar[bool] = True  # whether Triton's interpreter may run the text, which knows no assembly

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: Divisible) -> None:
        self.plan = KernelPlan(ir, config)
        self.target = target
        self.divisible = divisible
        self.writer = Writer()
        self.module = ModuleText()
        self.parameters = Parameters(self.plan, divisible)
        self._bound: dict[Value, str] = {}
        self._held: dict[Value, str] = {}
        self.number_dtypes = NumberDtypes(ir)
        self._converted: list[dict[tuple[Value, str], str]] = [{}]
        self.names = Names(ir)

    # ---- what a family says itself --------------------------------------------------------------

    @abstractmethod
    def arange(self, extent: Expr, group: int = 1) -> str:
        """The numbers of a dimension's lanes, or of its groups of so many lanes."""

    @abstractmethod
    def full(self, dims: tuple[Dim, ...], value: str, dtype: str) -> str:
        """A tile of one number; ``dtype`` in Triton's spelling."""

    def number(self, value: float | int | bool, dtype: str) -> str:
        """A number as text for an operand of ``dtype``."""
        return literal(value, dtype)

    def before(self, op: Op) -> None:  # noqa: B027  most families have nothing to say
        """Write what an operation waits for."""

    def begin_side(self, op: Op, side: Block) -> None:  # noqa: B027  as above
        """Write what a side of a branch begins with."""

    def box_order(self, op: Op) -> tuple[int, ...] | None:
        """The tensor's dimensions in the order of the box that an access moves, None where it moves none."""
        return box_order(self.plan.ir, op)

    def is_copied(self, op: Op) -> bool:
        """Whether a launch copies the tensor of an access, so that its rows begin at aligned bytes."""
        return False

    def box_starts_aligned(self, op: Op, order: tuple[int, ...]) -> Expr:
        """The condition that its boxes begin at aligned bytes of a row."""
        access = AccessAttrs.of(op)
        aligned = aligned_start(self.plan.ir, access.index[order[-1]], self.plan.ir.tensor(access.tensor))
        assert aligned is not None
        return aligned

    # ---- names ----------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        """A name that begins with ``prefix`` and that the kernel has not used."""
        return self.names.fresh(prefix)

    @contextmanager
    def beside(self) -> Iterator[Writer]:
        """Lines of a helper: a writer and names of their own."""
        outer = self.writer, self.names
        self.writer, self.names = Writer(comments=False), Names(self.plan.ir)
        try:
            yield self.writer
        finally:
            self.writer, self.names = outer

    def define(self, out: Value, text: str, held: str) -> None:
        """Write ``name = text``; the value is held in dtype ``held``."""
        if text.isidentifier():
            self.bind(out, text, held)
            return
        name = self.names.of(out, "v")
        self.writer.line(f"{name} = {text}")
        self.bind(out, name, held)

    def bind(self, out: Value, name: str, held: str) -> None:
        """Say by which name the text knows ``out``, and in which dtype it is held there."""
        self._bound[out] = name
        self._held[out] = held

    def name(self, operand: Operand) -> str:
        """The text of an operand: the name of a value, or the number itself."""
        return self._bound[operand] if isinstance(operand, Value) else str(operand)

    def held(self, operand: Operand) -> str:
        """The dtype in which the text holds a value, which may be wider than the value's own."""
        assert isinstance(operand, Value)
        return self._held[operand]

    # ---- types ----------------------------------------------------------------------------------

    def as_dtype(self, operand: Operand, dtype: str, out: Value | None = None) -> str:
        """An operand in ``dtype``; a conversion is written once in a block, under the name of ``out`` if it is that."""
        if not isinstance(operand, Value):
            return self.number(operand, dtype)
        name, held = self.name(operand), self.held(operand)
        if held == dtype:
            return name
        text = converted(name, held, dtype, self.target, self.module)
        maker = self.plan.ir.definitions.get(operand)
        if maker is not None and maker.kind in _NUMBERS:
            text = text.replace(f"{name}.to(", f"tl.cast({name}, ", 1)
        for known in self._converted:
            if (operand, dtype) in known:
                return known[operand, dtype]
        name = self.fresh("v") if out is None else self.names.of(out, "v")
        self.writer.line(f"{name} = {text}")
        self._converted[-1][operand, dtype] = name
        return name

    # ---- lanes ----------------------------------------------------------------------------------

    def extent(self, dim: Dim) -> int:
        """How many lanes a dimension has in registers."""
        return self.plan.extent(dim.extent)

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """The extents of ``dims`` as a list in the generated text."""
        return "[" + ", ".join(self.plan.extent_text(d.extent) for d in dims) + "]"

    def lanes(self, text: str, axis: int, rank: int) -> str:
        """1-D ``text`` as an axis of ``rank`` dimensions."""
        return text if rank == 1 else f"{text}[{', '.join(':' if a == axis else 'None' for a in range(rank))}]"

    def lanes_except(self, text: str, axis: int, rank: int) -> str:
        """``text`` with an axis inserted."""
        return f"{text}[{', '.join('None' if a == axis else ':' for a in range(rank))}]"

    def mask_of(self, dim: Dim) -> str:
        """The 1-D mask of a dimension's lanes."""
        if dim.tile is not None:
            tile = self.plan.ir.tiles[dim.tile]
            return f"{self.tile(dim.tile)}_mask" if dim == tile.dim else self._merged_mask(dim, tile)
        return f"({self.arange(dim.extent)} < {self.plan.text(dim.extent)})"

    def _merged_mask(self, dim: Dim, tile: Tile) -> str:
        """The mask of a dimension in which a reshape merged a tile's lanes with others."""
        step = "" if dim.step.constant == 1 else f" // {self.plan.text(dim.step)}"
        lanes = f"{self.arange(dim.extent)}{step}"
        if dim.extent != dim.step * tile.block:
            lanes = f"{lanes} % {self.plan.extent_text(tile.block)}"
        return f"({self.tile(tile.name)}_begin + {lanes} < {self.bound(tile, tile.end)})"

    def lane_mask(self, dims: tuple[Dim, ...], axis: int) -> str:
        """The mask of the lanes of one dimension of a tile, with as many dimensions as the tile."""
        dim, rank = dims[axis], len(dims)
        lengths = None if dim.tile is None else self.plan.ir.tiles[dim.tile].lengths
        if dim.tile is None or lengths is None or lengths.dims[0] not in dims:
            return self.lanes(self.mask_of(dim), axis, rank)
        index = self.lanes(f"{self.tile(dim.tile)}_idx", axis, rank)
        return f"({index} < {self.lanes(self.name(lengths), dims.index(lengths.dims[0]), rank)})"

    # ---- tiles ----------------------------------------------------------------------------------

    def tile(self, name: str) -> str:
        """The prefix of a tile's variables."""
        return constexpr_name(name).lower()

    def bound(self, tile: Tile, bound: Expr | Value) -> str:
        """A bound of a tile loop, in the dtype of its indices."""
        return self.as_dtype(bound, tile.index_dtype) if isinstance(bound, Value) else self.plan.text(bound)

    def grid_tile(self, name: str, position: str) -> None:
        """The variables of one tile of the grid."""
        tile = self.plan.ir.tiles[name]
        begin = "" if tile.begin == Expr.of(0) else f"{self.bound(tile, tile.begin)} + "
        block = self.plan.step_text(tile.block)
        start = position if position.isidentifier() else f"({position})"
        if self.plan.ir.shape_mode.is_wide:  # the number came by way of other axes' counts, which may be long
            start = f"tl.cast({position}, tl.{tile.index_dtype})"
        elif tile.wide:
            start = f"tl.cast({position}, tl.int64)"
        start = start if block == "1" else f"{start} * {block}"
        self.writer.line(f"{self.tile(name)}_begin = {begin}{start}")
        self.tile_header(tile)

    def tile_header(self, tile: Tile) -> None:
        """Indices and mask of a tile whose begin is known."""
        name = self.tile(tile.name)
        if not tile.wide and isinstance(tile.end, Expr) and not self.plan.ir.shape_mode.is_static:
            # where a loop looks for the next tile, and a tile for its lanes, may be a block past the end
            step = self.plan.extent(tile.block) * self.plan.turns_at_once(tile)
            self.plan.guard(tile.end.le(INT32_MAX - step))
        self.writer.line(f"{name}_idx = {name}_begin + {self.arange(tile.block)}")
        if not self.plan.is_masked(tile.dim):
            self._assert_whole(tile)
        else:
            end = self.bound(tile, tile.end)
            if not self.plan.fills(tile.block):
                end = f"tl.minimum({end}, {name}_begin + {self.plan.step_text(tile.block)})"
            self.writer.line(f"{name}_mask = {name}_idx < {end}")

    def _assert_whole(self, tile: Tile) -> None:
        """Write an assertion that blocks are whole. It stops whoever changes a block size in the text, which has no
        mask."""
        if not isinstance(tile.begin, Expr) or not isinstance(tile.end, Expr) or not self.plan.is_folded(tile.block):
            return
        length = (tile.end - tile.begin).constant
        if length is not None:
            whole = f"{length} % {self.plan.extent_text(tile.block)} == 0"
            self.writer.line(f'tl.static_assert({whole}, "whole blocks of {self.tile(tile.name)}")')

    # ---- lines ----------------------------------------------------------------------------------

    @contextmanager
    def inner(self) -> Iterator[None]:
        """The lines of a loop's body or of a branch's side, with what it hands on: conversions that are written there
        are no names behind it, where it may not have run."""
        self._converted.append({})
        with self.writer.indented():
            yield
        self._converted.pop()

    def block(self, block: Block) -> None:
        """The lines of a block, each operation by the family's rule."""
        self._converted.append({})
        for op in block.ops:
            self.writer.at(op.loc)
            self.before(op)
            try:
                self.rules[op.kind](self, op)
            except (TileflowError, RecursionError):
                raise
            except Exception as error:
                raise InternalError(
                    f"the operation {op.kind} has a Triton text",
                    got=f"{type(error).__name__}: {error}",
                    where=op.loc,
                    hint="please report this with the kernel, or with kernel.repro(...) under a config that works",
                ) from error
        self.writer.at(None)
        self._converted.pop()
