"""The verifier: whether a region is what every pass and the emitter take for granted.

Each value is defined once, before its uses and around them; each op fits its row of the table; regions give what their
op promises; a tile is read where its loop is; what must have no effect has none. A broken rule is a mistake of ours:
InternalError names the op, the place, the rule and the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InternalError
from .attributes import AccessAttrs, LoopAttrs, TileAttrs, TilePartAttrs
from .checking import Checker, show
from .graph import Block, KernelIR, Op, Operand, TileIndex
from .kinds import OpKind
from .op_table import OPS, effects_of
from .opdef import Trait
from .types import Value

_PURE = (OpKind.COMBINE, OpKind.COMBINE_SCAN, OpKind.INLINE_ASM)  # whose regions are functions


def verify(ir: KernelIR, after: str = "") -> None:
    """Raises InternalError for the first rule that the region breaks. ``after``: the pass that gave it."""
    _Verifier(ir, after).run()


class _Verifier:
    def __init__(self, ir: KernelIR, after: str) -> None:
        self.ir = ir
        self.checker = Checker(ir, after)
        self.defined: set[Value] = set()
        self.tiles: set[str] = set()  # those whose loops are open, or halves of such

    def run(self) -> None:
        self._region()
        self.tiles = {*self.ir.grid, *self.ir.cluster}
        self._block(self.ir.body, {})

    def _region(self) -> None:
        ir = self.ir
        self._require(set(ir.grid) <= ir.tiles.keys(), "the grid is of tiles of the region", ir.grid, tuple(ir.tiles))
        self._require(
            len({t.path for t in ir.tensors}) == len(ir.tensors),
            "a captured tensor is one parameter",
            tuple(t.path for t in ir.tensors),
        )
        for name, tile in ir.tiles.items():
            self._require(tile.name == name, "a tile is found by its name", name, tile.name)
            self._require(tile.is_grid == (name in ir.grid), "the grid's tiles, and no others, say so", name)
        for tensor in ir.tensors:
            self._require(
                len(tensor.shape) == len(tensor.strides),
                "a tensor has a stride for each dimension",
                tensor.path,
                tensor.shape,
                tensor.strides,
            )
        self._require(not ir.body.params and not ir.body.results, "a region takes and gives nothing", ir.body.params)

    def _require(self, holds: bool, constraint: str, *got: object) -> None:
        if not holds:
            raise InternalError(constraint, got=", ".join(map(show, got)), where=self.checker.place)

    def _block(self, block: Block, outer: dict[Value, Value]) -> None:
        """``outer``: what is defined around the block, each by itself."""
        scope = dict(outer)
        opened = set(self.tiles)
        for param in block.params:
            self._define(param, scope, None)
        for op in block.ops:
            self._op(op, scope)
        for result in block.results:
            self._use(result, scope, None, "a region's result")
        self.tiles = opened

    def _op(self, op: Op, scope: dict[Value, Value]) -> None:
        for operand in op.inputs:
            self._use(operand, scope, op, "an operand")
        self._row(op)
        self._tile_scope(op)
        for block in op.regions:
            self._inside(op, block, scope)
        for output in op.outputs:
            self._define(output, scope, op)
            for dim in output.dims:
                known = dim.tile is None or dim.tile in self.ir.tiles
                self.checker.require(known, op, "a dimension's tile is one of the region's", dim.tile)
        if isinstance(op.attrs, TilePartAttrs):
            self.tiles.add(op.attrs.tile)

    def _row(self, op: Op) -> None:
        c = self.checker
        c.require(isinstance(op.kind, OpKind), op, "an op's kind is an OpKind", type(op.kind).__name__)
        row = OPS[op.kind]
        c.require(type(op.attrs) is row.attrs, op, f"its attributes are {row.attrs.__name__}", type(op.attrs).__name__)
        least, most = row.inputs
        fits = least <= len(op.inputs) and (most is None or len(op.inputs) <= most)
        c.require(fits, op, f"it takes {row.operands}", f"{len(op.inputs)} inputs")
        c.require(row.outputs in (None, len(op.outputs)), op, f"it has {row.outputs} outputs", len(op.outputs))
        c.require(len(op.regions) in row.regions, op, f"it has {row.regions} regions", len(op.regions))
        row.verify(c, op)
        unknown = [path for path in effects_of(op).tensors if path not in c.tensors]
        c.require(not unknown, op, "what an op reads or writes is a tensor of the region", unknown)

    def _tile_scope(self, op: Op) -> None:
        """Lanes of a tile are addressed where its loop is open."""
        names: Iterable[str] = ()
        if isinstance(op.attrs, AccessAttrs):
            names = [i.tile for i in op.attrs.index if isinstance(i, TileIndex)]
        elif isinstance(op.attrs, TilePartAttrs):
            names = [op.attrs.whole]
        elif isinstance(op.attrs, TileAttrs) and not isinstance(op.attrs, LoopAttrs):
            names = [op.attrs.tile]
        for name in names:
            self.checker.require(name in self.tiles, op, "a tile is read inside its loop", name, sorted(self.tiles))

    def _inside(self, op: Op, block: Block, scope: dict[Value, Value]) -> None:
        if op.kind in _PURE:
            self._function(op, block)
        if isinstance(op.attrs, LoopAttrs):
            again = op.attrs.tile in self.tiles
            self.checker.require(not again, op, "a tile's loop is not open twice", op.attrs.tile)
            self.tiles.add(op.attrs.tile)
        visible = {} if op.kind is not OpKind.INLINE_ASM and op.kind in _PURE else scope
        self._block(block, visible)
        if isinstance(op.attrs, LoopAttrs):
            self.tiles.discard(op.attrs.tile)

    def _function(self, op: Op, block: Block) -> None:
        """A region that is a function has no effect; a combining one computes with scalars only."""
        for inner in block.ops:
            self.checker.require(effects_of(inner).is_pure, inner, f"an op in the region of {op.kind} has no effect")
            if op.kind is not OpKind.INLINE_ASM:
                fits = Trait.ON_SCALARS in OPS[inner.kind].traits and not inner.output.dims
                self.checker.require(fits, inner, f"an op in the region of {op.kind} computes with scalars")

    def _define(self, value: Value, scope: dict[Value, Value], op: Op | None) -> None:
        if value in self.defined:
            self._refuse(op, "a value is defined once", value)
        self.defined.add(value)
        scope[value] = value

    def _use(self, operand: Operand, scope: dict[Value, Value], op: Op | None, what: str) -> None:
        if not isinstance(operand, Value):
            if not isinstance(operand, (bool, int, float)):
                self._refuse(op, f"{what} is a value or a number", operand)
            return
        found = scope.get(operand)
        if found is None:
            known = "that is defined elsewhere" if operand in self.defined else "that no op defines"
            self._refuse(op, f"{what} is defined before it and around it", f"{operand}: {operand.type}, {known}")
        elif found.type != operand.type:
            self._refuse(op, f"{what} has the type of its definition", f"{operand}: {operand.type}, {found.type}")

    def _refuse(self, op: Op | None, constraint: str, got: object) -> None:
        if op is not None:
            self.checker.refuse(op, constraint, got)
        self._require(False, constraint, got)
