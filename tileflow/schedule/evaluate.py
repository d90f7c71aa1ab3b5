"""The parts of an author's body on torch values, for the executor: one program of a region, group by group.

Copies bring what the copy engine would: what lies in memory, and zero outside the tensor, whatever the loop's end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from ..config import Config
from ..errors import InternalError
from ..expr import Expr
from ..ir.attributes import (
    AccessAttrs,
    ArangeAttrs,
    AxisAttrs,
    IfAttrs,
    LoadAttrs,
    PointwiseAttrs,
    ReduceAttrs,
    ScalarAttrs,
    ScanAttrs,
    SizeAttrs,
    TileAttrs,
    WhereMaskAttrs,
)
from ..ir.graph import Block, ExprIndex, KernelIR, Op, Operand, SliceIndex, Tile, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Dim, Value
from .chained import Chained
from .machine import Registers
from .structure import Structure
from .types import ROWS_OF_A_GROUP

Environment = dict[Value, Any]
_REDUCE: Mapping[str, Callable[..., torch.Tensor]] = {"max": torch.amax, "min": torch.amin, "sum": torch.sum}
NO_TURN = -1


class Region:
    """One program of a region: the author's operations, group by group.

    ``tensors``, ``scalars``: by path; stores write into them. ``begins``: of the grid's tiles. The ``config`` says
    block sizes, of which that of ``rows`` has 64 a group; the loop goes along the tile ``keys``, after the operations
    ``before``. ``at``: the sizes and strides of a call, where they are not those that the region was traced from.
    """

    def __init__(
        self,
        ir: KernelIR,
        found: Structure,
        config: Config,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, float],
        begins: Mapping[str, int],
        at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._ir, self._rows, self._keys = ir, found.rows, found.keys
        # an author's number may have the name of a launch's knob, which no size is made of
        self._traced = {**{name: c for name, c in config.items if isinstance(c, int)}, **ir.hints}
        self._sizes = {**self._traced, **at}
        self._tensors, self._scalars, self._begins = tensors, scalars, dict(begins)
        self._outside: dict[int, Environment] = {}
        self._masks_end = True  # whether lanes past the loop's end are masked
        self._scalars_outside: Environment = {}  # none that bounds a tile of the grid, which first loads would see
        self._scalars_outside = self._run(found.before, {}, NO_TURN, 0)

    @property
    def turns(self) -> int:
        """How many turns the loop has in this program."""
        tile = self._ir.tiles[self._keys]
        begin, end = (self._bound(b, self._scalars_outside) for b in (tile.begin, tile.end))
        return max(-(-(end - begin) // self._size(tile.block)), 0)

    # ---- operations -----------------------------------------------------------------------------

    def _run(self, ops: Any, env: Environment, turn: int, group: int) -> Environment:
        env = dict(env)
        for op in ops:
            if op.kind is OpKind.IF:
                results = self._branch(op, env, turn, group)
            else:
                results = (self._one(op, env, turn, group),)
            env.update(zip(op.outputs, results, strict=True))
        return env

    def _after(self, ops: tuple[Op, ...], saved: tuple[Op, ...], env: Environment, group: int) -> Environment:
        """What is behind the loop, stores included unless the schedule has them ``saved``."""
        for op in ops:
            if op.kind is not OpKind.STORE:
                env = self._run((op,), env, NO_TURN, group)
            elif op not in saved:
                self._store(op, self._value(op.inputs[0], env), env, group)
        self._outside[group] = env
        return env

    def _branch(self, op: Op, env: Environment, turn: int, group: int) -> tuple[Any, ...]:
        test = IfAttrs.of(op).test
        condition = bool(self._value(op.inputs[0], env)) if test is None else bool(self._size(test))
        side: Block = op.regions[0 if condition else 1]
        inner = self._run(side.ops, env, turn, group)
        return tuple(self._value(v, inner) for v in side.results)

    def _one(self, op: Op, env: Environment, turn: int, group: int) -> Any:
        values = [self._value(v, env) for v in op.inputs]
        match op.kind:
            case OpKind.POINTWISE:
                return self._pointwise(op, values)
            case OpKind.CAST:
                return torch.as_tensor(values[0]).to(_held(op.output.type.dtype, exact=True))
            case OpKind.BITCAST:
                return values[0].view(getattr(torch, op.output.type.dtype))
            case OpKind.FULL:
                shape = self._shape(op.output.dims)
                return torch.full(shape, float(values[0]), dtype=_held(op.output.type.dtype))
            case OpKind.SIZE:
                return torch.tensor(self._size(SizeAttrs.of(op).value))
            case OpKind.SCALAR:
                return torch.tensor(self._scalars[ScalarAttrs.of(op).path])
            case OpKind.TILE_INDEX:
                return self._index(self._ir.tiles[TileAttrs.of(op).tile], turn, group)
            case OpKind.TILE_BEGIN | OpKind.TILE_END | OpKind.TILE_ID:
                return torch.tensor(self._tile_scalar(op, env, turn))
            case OpKind.ARANGE:
                start = self._size(ArangeAttrs.of(op).start)
                return start + torch.arange(self._extent(op.output.dims[0]))
            case OpKind.UNSQUEEZE | OpKind.SQUEEZE:
                return getattr(values[0], op.kind.value)(AxisAttrs.of(op).axis)
            case OpKind.EXPAND:
                return values[0].expand(self._shape(op.output.dims))
            case OpKind.REDUCE | OpKind.SCAN:
                return self._along(op, values[0])
            case OpKind.WHERE_MASK:
                return self._where_mask(op, values, env, turn, group)
            case OpKind.LOAD:
                return self._load(op, env, turn, group)
        raise InternalError("consumers compute what chained.CONSUMED lists", got=op.kind, where=op.loc)

    def _along(self, op: Op, value: torch.Tensor) -> torch.Tensor:
        """A reduction of an axis, or its sums from the front."""
        if op.kind is OpKind.SCAN:
            return value.cumsum(ScanAttrs.of(op).axis)
        return _REDUCE[ReduceAttrs.of(op).fn](value, dim=AxisAttrs.of(op).axis)

    def _pointwise(self, op: Op, values: list[Any]) -> Any:
        attrs = PointwiseAttrs.of(op)
        first = 1 if attrs.fn == "where" else 0
        operands = [torch.as_tensor(v).bool() for v in values[:first]]
        operands += [torch.as_tensor(v).to(_held(attrs.operand)) for v in values[first:]]
        return POINTWISE[attrs.fn].evaluate(*operands)

    def _where_mask(self, op: Op, values: list[Any], env: Environment, turn: int, group: int) -> Any:
        value, dims = values[0], op.values[0].dims
        for axis in WhereMaskAttrs.of(op).axes:
            mask = self._mask(dims[axis], env, turn, group)
            mask = mask.reshape([-1 if a == axis else 1 for a in range(len(dims))])
            value = torch.where(mask, value, torch.as_tensor(values[1]).to(value.dtype))
        return value

    # ---- memory ---------------------------------------------------------------------------------

    def _load(self, op: Op, env: Environment, turn: int, group: int, by_engine: bool = False) -> torch.Tensor:
        tensor, dims = self._tensors[AccessAttrs.of(op).tensor], op.output.dims
        places, inside = self._places(op, dims, env, turn, group)
        if not by_engine:
            for axis, dim in enumerate(dims):
                mask = self._mask(dim, env, turn, group)
                inside = inside & mask.reshape([-1 if a == axis else 1 for a in range(len(dims))])
            if AccessAttrs.of(op).has_mask:
                inside = inside & self._value(op.inputs[-1], env)
        found = tensor[tuple(places)].expand(self._shape(dims))
        other = torch.tensor(LoadAttrs.of(op).other, dtype=tensor.dtype)
        return torch.where(inside, found, other)

    def _store(self, op: Op, value: Any, env: Environment, group: int, adds: bool = False, turn: int = NO_TURN) -> None:
        tensor, dims = self._tensors[AccessAttrs.of(op).tensor], op.values[0].dims
        places, inside = self._places(op, dims, env, turn, group)
        for axis, dim in enumerate(dims):
            mask = self._mask(dim, env, turn, group)
            inside = inside & mask.reshape([-1 if a == axis else 1 for a in range(len(dims))])
        chosen = tuple(p.expand(self._shape(dims))[inside] for p in places)
        tensor.index_put_(chosen, value[inside].to(tensor.dtype), accumulate=adds)

    def _places(self, op: Op, dims: tuple[Dim, ...], env: Environment, turn: int, group: int) -> tuple[list[Any], Any]:
        """The indices into a tensor, shaped to broadcast and moved inside it, and the lanes that were inside."""
        rank, places = len(dims), []
        inside = torch.ones(self._shape(dims), dtype=torch.bool)
        for item, size in zip(AccessAttrs.of(op).index, self._tensors[AccessAttrs.of(op).tensor].shape, strict=True):
            match item:
                case TileIndex(tile, axis):
                    index = self._index(self._ir.tiles[tile], turn, group)
                    index = index.reshape([-1 if a == axis else 1 for a in range(rank)])
                case SliceIndex(start, dim, axis):
                    index = self._size(start) + torch.arange(self._extent(dim))
                    index = index.reshape([-1 if a == axis else 1 for a in range(rank)])
                case ExprIndex(value):
                    index = torch.tensor(self._size(value)).reshape([1] * rank)
                case ValueIndex(position, axes):
                    index = torch.as_tensor(self._value(op.inputs[position], env))
                    index = index.reshape([self._extent(d) if a in axes else 1 for a, d in enumerate(dims)])
            inside = inside & (index >= 0) & (index < size)
            places.append(index.clamp(0, size - 1).long())
        return places, inside

    # ---- tiles ----------------------------------------------------------------------------------

    def _index(self, tile: Tile, turn: int, group: int) -> torch.Tensor:
        if tile.name == self._rows:
            return self._begin(tile, turn) + group * ROWS_OF_A_GROUP + torch.arange(ROWS_OF_A_GROUP)
        return self._begin(tile, turn) + torch.arange(self._size(tile.block))

    def _begin(self, tile: Tile, turn: int) -> int:
        if tile.name != self._keys:
            return self._begins[tile.name]
        return self._bound(tile.begin, self._scalars_outside) + turn * self._size(tile.block)

    def _tile_scalar(self, op: Op, env: Environment, turn: int) -> int:
        tile = self._ir.tiles[TileAttrs.of(op).tile]
        begin = self._begin(tile, turn)
        if op.kind is OpKind.TILE_BEGIN:
            return begin
        if op.kind is OpKind.TILE_END:
            return min(begin + self._size(tile.block), self._bound(tile.end, env))
        return (begin - self._bound(tile.begin, env)) // self._size(tile.block)

    def _mask(self, dim: Dim, env: Environment, turn: int, group: int) -> torch.Tensor:
        if dim.tile is None:
            return torch.arange(self._extent(dim)) < self._size(dim.extent)
        tile = self._ir.tiles[dim.tile]
        if tile.name == self._keys and not self._masks_end:
            return torch.ones(self._extent(dim), dtype=torch.bool)
        return self._index(tile, turn, group) < self._bound(tile.end, self._scalars_outside)

    def _shape(self, dims: tuple[Dim, ...]) -> list[int]:
        return [self._extent(d) for d in dims]

    def _extent(self, dim: Dim) -> int:
        """The register extent of a dimension, of the queries a group's part: what the example's size takes."""
        if dim.tile == self._rows:
            return ROWS_OF_A_GROUP
        return 1 << max(dim.extent.evaluate(self._traced) - 1, 0).bit_length()

    def _bound(self, bound: Expr | Value, env: Environment) -> int:
        return int(env[bound]) if isinstance(bound, Value) else self._size(bound)

    def _size(self, e: Expr) -> int:
        return e.evaluate(self._sizes)

    def _value(self, operand: Operand, env: Environment) -> Any:
        return env[operand] if isinstance(operand, Value) else operand


class Streamed(Region, ABC):
    """A program whose loop may end with a partial block, as a :class:`~tileflow.schedule.machine.PartialBody`."""

    def is_full(self, turn: int) -> bool:
        """Whether all lanes of the turn's block lie before the loop's end."""
        tile = self._ir.tiles[self._keys]
        return self._begin(tile, turn) + self._size(tile.block) <= self._bound(tile.end, self._scalars_outside)

    def compute_full(self, part: str, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        """The registers that a part writes, without the masks of the loop's end."""
        self._masks_end = False
        try:
            return self.compute(part, registers, turn, group)
        finally:
            self._masks_end = True

    @abstractmethod
    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part of the author's body writes."""


class Program(Streamed):
    """One program of two chained products as the :class:`~tileflow.schedule.machine.Body` of a schedule."""

    def __init__(
        self,
        ir: KernelIR,
        found: Chained,
        config: Config,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, float],
        begins: Mapping[str, int],
        at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._found = found
        super().__init__(ir, found, config, tensors, scalars, begins, at)

    # ---- what the executor asks for -------------------------------------------------------------

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        """What the copy engine brings into a buffer: the query once, keys and values once a turn."""
        op = {"query": self._found.query, "key": self._found.key, "value": self._found.value}[buffer]
        at = NO_TURN if turn is None else turn
        inputs = self._inputs(op, at, max(group, 0))
        return self._load(op, inputs, at, max(group, 0), by_engine=True)

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part of the author's body writes, by the method of that part's name."""
        at = NO_TURN if turn is None else turn
        found: Registers = getattr(self, f"_{part}")(registers, at, group)
        return found

    def save(self, name: str, value: Any, group: int) -> None:
        """Store a group's rows of the result."""
        assert self._found.saved is not None
        outside = self._outside[group]
        self._store(self._found.saved, value, outside, group)

    # ---- parts ----------------------------------------------------------------------------------

    def _start(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        env = self._run(self._found.before, {}, turn, group)
        self._outside[group] = env
        entry = [self._value(v, env) for v in self._found.entry]
        sums = entry.pop(self._found.sums_at)
        return {"sums": sums, "carried": tuple(entry)}

    def _ahead(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        env = self._run(self._found.ahead, self._outside[group], turn, group)
        return {"loaded": tuple(env[v] for v in self._found.loaded)}

    def _weigh(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        found = self._found
        params = (param for param, _, _ in found.carried)
        env = {**self._outside[group], found.scores.output: registers["scores"]}
        env |= dict(zip(params, registers["carried"], strict=True))
        env |= dict(zip(found.loaded, registers.get("loaded", ()), strict="loaded" in registers))
        env = self._run(found.behind_ahead if "loaded" in registers else found.weigh, env, turn, group)
        carried = tuple(self._value(result, env) for _, result, _ in found.carried)
        factors = tuple(env[v] for v in found.factors)
        return {"weights": env[found.weights], "carried": carried, "factors": factors}

    def _rescale(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        found = self._found
        env = {**self._outside[group], found.sums_param: registers["sums"]}
        env |= dict(zip(found.factors, registers["factors"], strict=True))
        return {"sums": self._run(found.rescale, env, turn, group)[found.sums.values[2]]}

    def _narrow(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        env = {**self._outside[group], self._found.weights: registers["weights"]}
        return {"operand": self._run(self._found.narrow, env, turn, group)[self._found.sums.values[0]].clone()}

    def _finish(self, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        found = self._found
        env = {**self._outside[group], found.loop.outputs[found.sums_at]: registers["sums"]}
        env |= dict(zip((out for _, _, out in found.carried), registers["carried"], strict=True))
        env = self._after(found.after, () if found.saved is None else (found.saved,), env, group)
        return {} if found.saved is None else {"result": self._value(found.saved.inputs[0], env)}

    def _inputs(self, op: Op, turn: int, group: int) -> Environment:
        """The scalars that a box's place is computed from."""
        if op is self._found.query:
            return self._scalars_outside
        ops = [o for o in self._found.weigh if not any(v.dims for v in (*o.values, *o.outputs)) and not o.regions]
        return self._run(ops, self._scalars_outside, turn, group)


def _held(dtype: str, exact: bool = False) -> torch.dtype:
    """What a value is computed in: half types in float32; ``exact``: rounded to its own."""
    if not exact and dtype in ("bfloat16", "float16"):
        return torch.float32
    found: torch.dtype = getattr(torch, dtype)
    return found
