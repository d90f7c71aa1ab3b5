"""What the author's operations are written with inside a consumer: layouts, lanes of a group's rows, functions.

A tile of rows by columns has the layout of the product that is as wide, so that what one product gives can be the next
one's operand without a move; a row's number has the layout that a reduction of the scores leaves it in. Lanes counted
from nothing (indices, masks) have no layout until they meet a tile that has one: Gluon's *auto* layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...config import Config
from ...errors import ConfigError
from ...expr import Expr
from ...ir.graph import Block, KernelIR, Op, Tile
from ...ir.kinds import OpKind
from ...ir.types import INT32_MAX, Dim, Value
from ...schedule.attention import NAMES
from ...schedule.chained import LARGEST_WIDTH, Chained, Refusal
from ...schedule.structure import Structure, find_structure
from ...schedule.types import ROWS_OF_A_GROUP
from ...target import Target
from ..context import Context
from ..dtypes import rounded
from ..parameters import Divisible
from ..table import COMMON, Rules
from ..writer import Writer
from .functions import Function, free_names, function

# LLVM may compute both sides of a branch and select between them, 64 numbers a thread in every turn of a loop. Whether
# it does depends on facts as far from the branch as the number of rows (1000: it does, 4000: it does not). It does not
# where a side has an effect, which this assembly text of no instruction might have. Nor does it compute in front of the
# branch what follows from the text's result.
_KEEP_BRANCH = """():
    zero = tl.cast(0, tl.int32)
    return gl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)
"""
_LEAST_WIDTH = 8  # columns of an instruction
_FROM_NOTHING = frozenset({OpKind.TILE_INDEX, OpKind.ARANGE})
_LANE_BY_LANE = frozenset(
    {OpKind.POINTWISE, OpKind.CAST, OpKind.BITCAST, OpKind.UNSQUEEZE, OpKind.WHERE_MASK, OpKind.EXPAND}
)


class GluonContext(Context):
    """One emission. ``functions``: of the module so far, in order."""

    rules = Rules["GluonContext"](COMMON)
    is_interpreted = False
    own_names = NAMES  # which the schedule takes

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: Divisible) -> None:
        super().__init__(ir, config, target, divisible)
        found = find_structure(ir)
        if isinstance(found, Refusal):
            raise ConfigError(
                "a warp-specialised schedule is of a structure that has one",
                got=str(found),
                hint="choose the schedule pipelined",
            )
        self.structure: Structure = found
        self.functions: list[Function] = []
        self._auto: set[Value] = set()
        self._taken: tuple[tuple[Op, ...], int] = ((), 0)  # branches, and the side that the turns written now take
        self._spread = False
        self.names.reserve(self.own_names)

    @property
    def found(self) -> Chained:
        """The structure of a kernel of two chained products."""
        assert isinstance(self.structure, Chained)
        return self.structure

    @property
    def boxes(self) -> Mapping[str, Op]:
        """The loads that the copy engine does, by the buffer that they fill."""
        return {"query": self.found.query, "key": self.found.key, "value": self.found.value}

    @property
    def saves(self) -> Mapping[str, Op]:
        """The stores that it does, by the registers that they write."""
        return {} if self.found.saved is None else {"result": self.found.saved}

    @property
    def turn_scalars(self) -> tuple[Op, ...]:
        """The operations among which are those that a turn's boxes have their places from."""
        return self.found.weigh

    def owner(self, buffer: str) -> Op:
        """The load or store whose box a buffer has. The buffer ``out`` belongs to the store of ``result``."""
        return self.boxes.get(buffer) or self.saves[buffer.replace("out", "result")]

    @property
    def group_rows(self) -> int:
        """Rows of a tile in one consumer group."""
        return ROWS_OF_A_GROUP

    # ---- layouts --------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns of the products that rows are reduced in: keys in a turn."""
        return self.extent(self.structure.columns)

    @property
    def depth(self) -> int:
        """What one instruction of the matrix units sums over."""
        return 16

    def by(self, columns: int) -> str:
        """The layout of a group's rows by so many columns: that of a product's result."""
        columns = max(columns, _LEAST_WIDTH)
        if columns > LARGEST_WIDTH:
            raise ConfigError(
                f"a consumer's tiles have at most {LARGEST_WIDTH} columns",
                got=columns,
                hint="smaller blocks of keys; a head of 256 or less",
            )
        text = f"gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {columns}, {self.depth}]))"
        return self.module.constant(f"BY_{columns}", text)

    @property
    def by_row(self) -> str:
        """The layout of a number for each of a group's rows."""
        return self.module.constant("BY_ROW", f"gl.constexpr(gl.SliceLayout(1, {self.by(self.width)}))")

    @property
    def operand_layout(self) -> str:
        """The layout in which the second product takes its left operand from registers."""
        return self.operand_of(self.found.sums, "AS_OPERAND")

    def operand_of(self, product: Op, name: str) -> str:
        """The layout, by a name, in which a product takes its left operand from registers."""
        parent = self.by(self.extent(product.output.dims[1]))
        return self.module.constant(name, f"gl.constexpr(gl.DotOperandLayout(0, {parent}, 2))")

    def layout(self, dims: tuple[Dim, ...]) -> str:
        """The layout of a value."""
        if self.is_row(dims) and self._spread:
            return f"gl.BlockedLayout([{max(self.extent(dims[0]) // 32, 1)}], [32], [4], [0])"
        if len(dims) == 1:
            return self.by_row if self.is_rows(dims[0]) else f"gl.SliceLayout(0, {self.by(self.extent(dims[0]))})"
        columns = self.extent(dims[1])
        return self.by(self.width if columns == 1 else columns)

    def storing_layout(self, op: Op) -> str | None:
        """The layout in which a store by pointers writes its tile; None for that of the value."""
        return None

    def is_row(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a value is a number for each column of a tile."""
        return len(dims) == 1 and not self.is_rows(dims[0])

    @contextmanager
    def taking(self, branches: tuple[Op, ...], side: int) -> Iterator[None]:
        """Write turns that all take one side of these branches."""
        self._taken = branches, side
        try:
            yield
        finally:
            self._taken = (), 0

    def taken_side(self, branch: Op) -> int | None:
        """The side of a branch that all turns written just now take."""
        branches, side = self._taken
        return side if any(branch is other for other in branches) else None

    @contextmanager
    def spread_over_a_warp(self) -> Iterator[None]:
        """Give each lane of a warp its part of such numbers, where the tile's layout has each of them in eight lanes:
        an eighth of the registers, until what is loaded is needed."""
        self._spread = True
        try:
            yield
        finally:
            self._spread = False

    def is_rows(self, dim: Dim) -> bool:
        """Whether a dimension is the tile's rows, of which each consumer group has a part."""
        return dim.tile == self.structure.rows

    def is_in_pairs(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a thread's lanes of a tile are pairs that a register of a product's operand holds together."""
        return False

    def are_read_in_words(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a thread reads such pairs of bytes together from shared memory."""
        return False

    def is_auto(self, value: Value) -> bool:
        """Whether Gluon infers the value's layout, so that it needs no conversion."""
        return value in self._auto

    def resolve_layout(self, value: Value) -> None:
        """Give a value that has none its layout."""
        if value in self._auto:
            name = self.fresh("v")
            self.writer.line(f"{name} = gl.set_auto_layout({self.name(value)}, {self.layout(value.dims)})")
            self.bind(value, name, self.held(value))
            self._auto.discard(value)

    @contextmanager
    def aligned(self, op: Op) -> Iterator[None]:
        """Write an operation with its operands in the layout of its result."""
        wanted = self.layout(op.output.dims) if op.output.dims else ""
        moved = {}
        for value in op.values:
            if len(value.dims) == 2 and not self.is_auto(value) and self.layout(value.dims) != wanted:
                moved[value] = self.name(value)
        kept = self._converted
        if moved:
            self._converted = [{}]
        for value, name in moved.items():
            other = self.fresh("v")
            self.writer.line(f"{other} = gl.convert_layout({name}, {wanted})")
            self._bound[value] = other
        yield
        self._bound.update(moved)
        self._converted = kept

    # ---- what the family says itself ------------------------------------------------------------

    def arange(self, extent: Expr, group: int = 1) -> str:
        """``gl.arange`` over a dimension's lanes, or its groups; its layout follows from where it is used."""
        divisor = f" // {group}" if group > 1 else ""
        return f"gl.arange(0, {self.plan.extent_text(extent)}{divisor})"

    def full(self, dims: tuple[Dim, ...], value: str, dtype: str) -> str:
        """``gl.full`` of one number, with the layout of the dimensions."""
        return f"gl.full({self.shape(dims)}, {value}, {dtype}{f', {self.layout(dims)}' if dims else ''})"

    def number(self, value: float | int | bool, dtype: str) -> str:
        """A number as text; a double as the sum of two that float32 holds, since Gluon makes no tile without dimensions
        of a Python number, and takes one for a float32: 48 bits of it."""
        if dtype != "float64" or isinstance(value, bool) or value == rounded(value):
            return super().number(value, dtype)
        high = rounded(value)
        return f"(tl.cast({high!r}, tl.float64) + {rounded(value - high)!r})"

    def extent(self, dim: Dim) -> int:
        """How many lanes a dimension has: of rows, those of one group."""
        return self.group_rows if self.is_rows(dim) else super().extent(dim)

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """The extents of ``dims`` as a list in the generated text; of rows, those of one group."""
        texts = [self.rows_text if self.is_rows(d) else self.plan.extent_text(d.extent) for d in dims]
        return "[" + ", ".join(texts) + "]"

    @property
    def rows_text(self) -> str:
        """The constant ``ROWS`` of the module, the number of a group's rows."""
        return self.module.constant("ROWS", f"gl.constexpr({self.group_rows})")

    def before(self, op: Op) -> None:
        """Follow which values have no layout yet."""
        tiles = [v for v in op.values if v.dims]
        derived = op.kind in _LANE_BY_LANE and tiles and all(self.is_auto(v) for v in tiles)
        if op.kind in _FROM_NOTHING or derived:
            self._auto.add(op.output)

    def begin_side(self, op: Op, side: Block) -> None:
        """A side that computes tiles is worth a jump."""
        if side.ops and any(len(out.dims) > 1 for out in op.outputs):
            self.writer.line(self.kept_in_branch)

    @property
    def kept_in_branch(self) -> str:
        """Zero. The branch in whose side this stands stays one, and what is computed from it stays there."""
        return f"{self.module.helper('_keep_branch', _KEEP_BRANCH)}()"

    def tile_header(self, tile: Tile) -> None:
        """Nothing yet: each function counts the lanes that it needs (:meth:`define_function`)."""
        if not tile.wide and isinstance(tile.end, Expr) and not self.plan.ir.shape_mode.is_static:
            self.plan.guard(tile.end.le(INT32_MAX - self.plan.extent(tile.block)))

    def block(self, block: Block) -> None:
        """Write a block's operations and give its results a definite layout."""
        super().block(block)
        for result in block.results:
            if isinstance(result, Value):
                self.resolve_layout(result)

    # ---- functions ------------------------------------------------------------------------------

    @contextmanager
    def lines(self) -> Iterator[Writer]:
        """Lines of another function, with conversions of their own; names stay unique in the module."""
        outer = self.writer, self._converted
        self.writer, self._converted = Writer(), [{}]
        try:
            with self.writer.indented():
                yield self.writer
        finally:
            self.writer, self._converted = outer

    def define_function(self, name: str, says: str, writer: Writer, first: tuple[str, ...] = ()) -> Function:
        """Add a function to the module, with the lanes of the tiles that its lines name in front."""
        header = Writer()
        with header.indented():
            header.insert(0, self.lanes_named(writer.text))
        made = function(name, says, header.then(writer), self._known_names(), first)
        self.functions.append(made)
        return made

    def _known_names(self) -> frozenset[str]:
        return self.module.names | {f.name for f in self.functions} | self.plan.constexprs.keys()

    def lanes_named(self, text: str) -> Writer:
        """The indices and masks of the tiles that indented lines name and do not set."""
        names, writer = free_names(text), Writer()
        for tile in self.plan.ir.tiles.values():
            name = self.tile(tile.name)
            if f"{name}_idx" in names or f"{name}_mask" in names:
                writer.line(f"{name}_idx = {name}_begin + {self._lane_text(tile)}")
            if f"{name}_mask" in names:
                writer.line(f"{name}_mask = {name}_idx < {self._end(tile)}")
        return writer

    def _lane_text(self, tile: Tile) -> str:
        if tile.name == self.structure.rows:
            return self.lanes_of_rows
        return self.arange(tile.block)

    @property
    def lanes_of_rows(self) -> str:
        """The rows of a group, counted from the tile's first one."""
        return f"who * {self.rows_text} + gl.arange(0, {self.rows_text})"

    def _end(self, tile: Tile) -> str:
        """A tile's end, where lanes stop to count: blocks here are powers of two."""
        return self.name(tile.end) if isinstance(tile.end, Value) else self.plan.text(tile.end)
