"""IR + Config -> TritonSource: one region's kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..config import Config
from ..errors import InternalError, TileflowError
from ..expr import Expr
from ..ir.graph import Block, KernelIR, Op, Operand, TensorParam, Tile
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import INT32_MAX, Dim, Value
from ..runtime.abi import LaunchArg
from ..runtime.paths import Symbol
from ..space.launch import VENDOR_OPTIONS
from ..target import Target
from . import atomics as _atomics
from . import escapes as _escapes
from . import grid, loops
from . import nibbles as _nibbles
from . import products as _products
from . import random_numbers as _random_numbers
from . import reductions as _reductions
from . import scans as _scans
from . import views as _views
from .accumulators import Accumulators
from .descriptors import Box
from .dtypes import signature
from .indexing import tensor_name
from .ops import operand_text
from .order import barriers
from .plan import Plan, constexpr_name
from .source import TritonSource
from .table import EMIT
from .writer import Writer

_FAMILIES = (
    _escapes,
    _nibbles,
    _products,
    _views,
    _atomics,
    _random_numbers,
    _reductions,
    _scans,
)  # imported for their rules

_HEADER = """\
import triton
import triton.language as tl
"""


def emit(ir: KernelIR, config: Config, target: Target, divisible: bool = True) -> TritonSource:
    """The Triton program of a region (its structural passes done) under ``config``.

    ``divisible``: in dynamic mode, whether the sizes and strides are assumed to be divisible by 16.
    """
    return Emitter(ir, config, target, divisible).run()


class Emitter:
    """The state of one emission: names of values, the dtype each is held in, the lines so far."""

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: bool) -> None:
        self.plan = Plan(ir, config)
        self.target = target
        self.divisible = divisible
        self.writer = Writer()
        self._helpers: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._imports: dict[str, None] = {}
        self._names: dict[Value, str] = {}
        self._held: dict[Value, str] = {}
        self.boxes: dict[str, Box] = {}
        self._tensors: dict[str, TensorParam] = {}
        self._scalars: dict[str, str] = {}
        self.accumulators = Accumulators.of(ir)
        self._has_doubles = any(v.type.dtype == "float64" for v in self.accumulators.makers)
        self._barriers = barriers(self.plan, self.plan.int_choice(self.knob("num_warps"), 4) * target.warp_size)
        self._converted: list[dict[tuple[Value, str], str]] = [{}]
        self._counts: dict[str, int] = {}

    # ---- names ----------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count}"

    def helper(self, name: str, text: str) -> str:
        """A function beside the kernel, ``text`` being what follows its name; equal ones are one. Its name."""
        if text not in self._helpers:
            taken = self._helpers.values()
            self._helpers[text] = name if name not in taken else f"{name}{len(taken)}"
        return self._helpers[text]

    def imports(self, line: str) -> None:
        """A line of imports that the module needs besides Triton's."""
        self._imports[line] = None

    def constant(self, name: str, text: str) -> str:
        """A constant of the module; its name."""
        self._constants[name] = text
        return name

    @contextmanager
    def beside(self) -> Iterator[Writer]:
        """Lines of a helper: a writer and names of their own."""
        outer = self.writer, self._counts
        self.writer, self._counts = Writer(), {}
        try:
            yield self.writer
        finally:
            self.writer, self._counts = outer

    def define(self, out: Value, text: str, held: str) -> None:
        """Write ``v3 = text``; the value is held in dtype ``held``."""
        if text.isidentifier():
            self.bind(out, text, held)
            return
        name = self.fresh("v")
        self.writer.line(f"{name} = {text}")
        self.bind(out, name, held)

    def bind(self, out: Value, name: str, held: str) -> None:
        self._names[out] = name
        self._held[out] = held

    def name(self, operand: Operand) -> str:
        return self._names[operand] if isinstance(operand, Value) else str(operand)

    def held(self, operand: Operand) -> str:
        assert isinstance(operand, Value)
        return self._held[operand]

    def as_dtype(self, operand: Operand, dtype: str) -> str:
        """An operand in ``dtype``; a conversion is written once in a block."""
        text = operand_text(self, operand, dtype)
        if not isinstance(operand, Value) or text == self.name(operand):
            return text
        for known in self._converted:
            if (operand, dtype) in known:
                return known[operand, dtype]
        name = self.fresh("v")
        self.writer.line(f"{name} = {text}")
        self._converted[-1][operand, dtype] = name
        return name

    def tile(self, name: str) -> str:
        """The prefix of a tile's variables."""
        return constexpr_name(name).lower()

    def knob(self, what: str) -> str:
        """A knob of this region's grid: ``order``, ``order@1`` ..."""
        return what + (f"@{self.plan.ir.region}" if self.plan.ir.region else "")

    def tensor(self, tensor: TensorParam) -> str:
        self._tensors[tensor.path] = tensor
        return tensor_name(tensor)

    def scalar(self, path: str) -> str:
        name = next(s.name for s in self.plan.ir.scalars if s.path == path)
        self._scalars[path] = name
        return name

    def number_dtype(self, dtype: str) -> str:
        """The dtype that a number of the author's is held in: a Python float is a double, and stays one wherever the
        kernel computes in doubles."""
        return "float64" if dtype == "float32" and self._has_doubles else dtype

    # ---- lanes ----------------------------------------------------------------------------------

    def shape(self, dims: tuple[Dim, ...]) -> str:
        return "[" + ", ".join(self.plan.extent_text(d.extent) for d in dims) + "]"

    def arange(self, extent: Expr) -> str:
        return f"tl.arange(0, {self.plan.extent_text(extent)})"

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
        start = start if self.plan.block(tile.block) == 1 else f"{start} * {block}"
        self.writer.line(f"{self.tile(name)}_begin = {begin}{start}")
        self.tile_header(tile)

    def tile_header(self, tile: Tile) -> None:
        """Indices and mask of a tile whose begin is known."""
        name = self.tile(tile.name)
        if not tile.wide and isinstance(tile.end, Expr) and not self.plan.ir.shape_mode.is_static:
            # where a loop looks for the next tile, and a tile for its lanes, may be a block past the end
            self.plan.guard(tile.end.le(INT32_MAX - self.plan.extent(tile.block)))
        self.writer.line(f"{name}_idx = {name}_begin + {self.arange(tile.block)}")
        if self.plan.is_masked(tile.dim):
            end = self.bound(tile, tile.end)
            if not self.plan.fills(tile.block):
                end = f"tl.minimum({end}, {name}_begin + {self.plan.step_text(tile.block)})"
            self.writer.line(f"{name}_mask = {name}_idx < {end}")

    # ---- writing --------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        self._converted.append({})
        for op in block.ops:
            self.writer.at(op.loc)
            if id(op) in self._barriers:
                self.writer.line("tl.debug_barrier()")
            try:
                self._op(op)
            except (TileflowError, RecursionError):
                raise
            except Exception as error:
                raise InternalError(
                    f"the operation {op.kind} has a Triton text", got=f"{type(error).__name__}: {error}", where=op.loc,
                    hint="please report this with the kernel, or with kernel.repro(...) under a config that works",
                ) from error  # fmt: skip
        self.writer.at(None)
        self._converted.pop()

    def _op(self, op: Op) -> None:
        if op.kind is OpKind.FOR:
            loops.emit_for(self, op)
        elif op.kind is OpKind.WHILE:
            loops.emit_while(self, op)
        elif op.kind is OpKind.IF:
            loops.emit_if(self, op)
        else:
            EMIT[op.kind](self, op)

    def run(self) -> TritonSource:
        with self.writer.indented():
            grid.emit_grid(self)
        launch_grid = grid.launch_grid(self)
        name = f"{self.plan.ir.name}_{self.plan.ir.region}"
        if self.plan.choice(self.knob("cutlass_name"), False):
            name += "_cutlass"  # by which ptxas takes a kernel for one of CUTLASS' own
        args = self._args()
        header = self._head(name, args)
        lines = tuple(0 for _ in range(header.count("\n"))) + self.writer.places
        options = {o: self.plan.int_choice(self.knob(o), 4) for o in ("num_warps", "num_stages")}
        for option, unset in VENDOR_OPTIONS.items():
            if (choice := self.plan.int_choice(self.knob(option), unset)) != unset:
                options[option] = choice
        return TritonSource(
            name=name,
            region=self.plan.ir.region,
            text=header + self.writer.text,
            args=args,
            constexprs=tuple(sorted(self.plan.constexprs.items())),
            options=tuple(sorted(options.items())),
            grid=launch_grid,
            guards=self.plan.all_guards(),
            mode="static" if self.plan.ir.shape_mode.is_static else "dynamic",
            lines=lines,
        )

    def _head(self, name: str, args: tuple[LaunchArg, ...]) -> str:
        imports = "".join(f"{line}\n" for line in self._imports)
        constants = "".join(f"\n{name} = {text}\n" for name, text in self._constants.items())
        helpers = constants + "".join(f"\n\n@triton.jit\ndef {helper}{text}" for text, helper in self._helpers.items())
        parameters = [a.name for a in args] + [f"{c}: tl.constexpr" for c in sorted(self.plan.constexprs)]
        inner = "".join(f"    {p},\n" for p in parameters)
        return f"{_HEADER}{imports}{helpers}\n\n@triton.jit\ndef {name}(\n{inner}):\n"

    def _args(self) -> tuple[LaunchArg, ...]:
        """Pointers, descriptors, run-time floats, ints."""
        args = [
            LaunchArg(
                tensor_name(t),
                "tensor",
                f"*{signature(t.dtype)}",
                path=t.path,
                divisible_by_16=t.aligned,
                **self._captured(t),
            )
            for t in self.plan.ir.tensors
            if t.path in self._tensors
        ]
        args += [replace(box.arg, **self._captured(box.tensor)) for box in self.boxes.values()]
        args += [
            LaunchArg(s.name, "float", signature(self.number_dtype("float32")), path=s.path)
            for s in self.plan.ir.scalars
            if s.path in self._scalars
        ]
        for symbol, name in sorted(self.plan.symbols.items()):
            args.append(self._int_arg(symbol, name))
        return tuple(args)

    def _captured(self, tensor: TensorParam) -> dict[str, Any]:
        """What the binary assumes of a tensor, and whether it may write into it."""
        stored = any(tensor.path in effects_of(op).writes for op in self.plan.ir.walk())
        return {"dtype": tensor.torch_dtype or tensor.dtype, "rank": len(tensor.shape), "stored": stored}

    def _int_arg(self, symbol: str, name: str) -> LaunchArg:
        e, mode = Expr.sym(symbol), self.plan.ir.shape_mode
        hint = self.plan.ir.hints[symbol]
        divisible = self.divisible and not mode.is_static and hint % 16 == 0
        if divisible:
            self.plan.guard((e % 16).eq(0))
        wide = mode.is_wide or abs(hint) > INT32_MAX
        if not wide:
            self.plan.guard(e.le(INT32_MAX))
            if (
                not mode.is_static and Symbol.parse(symbol).field == "value"
            ):  # only an int of the author's may be negative
                self.plan.guard(Expr.of(-INT32_MAX).le(e))
        return LaunchArg(name, "int", "i64" if wide else "i32", value=e, divisible_by_16=divisible)
