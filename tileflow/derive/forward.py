"""Ops of the IR as lines of the language: the part of a forward pass that its backward computes again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import GradientError
from ..expr import Expr, is_knob
from ..ir.attributes import (
    AccessAttrs,
    ArangeAttrs,
    AxisAttrs,
    FoldAttrs,
    IfAttrs,
    LoopAttrs,
    PermuteAttrs,
    PointwiseAttrs,
    RandomAttrs,
    ScalarAttrs,
    ScanAttrs,
    SizeAttrs,
    TileAttrs,
)
from ..ir.graph import Block, ExprIndex, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, Value
from .lanes import with_lanes
from .program import Branch, Loop, Namer, Statement
from .sizes import path_text, symbol_text

HINT = "write the backward by hand, and pair both by tileflow.differentiable(kernel, backward)"

POINTWISE_TEXT: dict[str, str] = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "floordiv": "{0} // {1}",
    "truncdiv": 'torch.div({0}, {1}, rounding_mode="trunc")', "remainder": "{0} % {1}", "pow": "{0} ** {1}",
    "neg": "-{0}", "positive": "+{0}", "fma": "{0} * {1} + {2}", "eq": "{0} == {1}", "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}", "bitwise_not": "~{0}", "shift_left": "{0} << {1}", "shift_right": "{0} >> {1}",
    "where": "torch.where({0}, {1}, {2})", "exp_gradual": "torch.exp({0})",
    **{name: f"torch.{name}({{0}}, {{1}})" for name in ("fmod", "logical_and", "logical_or", "logical_xor")},
    **{name: f"torch.{name}({{0}})" for name in (
        "abs", "reciprocal", "sign", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos",
        "erf", "tanh", "sigmoid", "relu", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite",
        "logical_not")},
}  # fmt: skip

# of numbers, which torch's functions do not take
_NUMBER_TEXT: dict[str, str] = {
    **{name: f"math.{name}({{0}})" for name in (
        "exp", "expm1", "log", "log2", "log1p", "sqrt", "sin", "cos", "erf", "tanh", "floor", "ceil", "isnan", "isinf",
        "isfinite")},
    "exp_gradual": "math.exp({0})", "exp2": "2.0 ** {0}", "trunc": "int({0})", "rsqrt": "{0} ** -0.5",
    "abs": "abs({0})", "relu": "max({0}, 0)",
    "reciprocal": "1 / {0}", "sigmoid": "1 / (1 + math.exp(-{0}))",
    "fmod": "math.fmod({0}, {1})", "truncdiv": "int({0} / {1})",
    "where": "{1} if {0} else {2}", "logical_and": "{0} and {1}", "logical_or": "{0} or {1}",
    "logical_xor": "bool({0}) != bool({1})", "logical_not": "not {0}",
}  # fmt: skip

_REDUCTIONS = {
    "sum": "sum",
    "prod": "prod",
    "max": "amax",
    "min": "amin",
    "argmax": "argmax",
    "argmin": "argmin",
    "any": "any",
    "all": "all",
}
_TILE_SCALARS = {OpKind.TILE_INDEX: "index", OpKind.TILE_BEGIN: "begin", OpKind.TILE_END: "end", OpKind.TILE_ID: "id"}


@dataclass(frozen=True, slots=True)
class TileName:
    """The variable of a loop. ``is_index``: it is an index, of ``tfl.grid``."""

    variable: str
    is_index: bool = False


@dataclass(slots=True)
class Env:
    """What values and tiles are called where a line stands. ``known``: by its text, what was computed before."""

    names: dict[Value, str] = field(default_factory=dict)
    tiles: dict[str, TileName] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def child(self) -> Env:
        """A copy for a nested block: what is named there is unknown outside."""
        return Env(dict(self.names), dict(self.tiles), dict(self.known))


class Speller:
    """Spells the ops of one region. ``bound``: text of the outermost loop's bounds. ``knobs``: the variables that hold
    block sizes, by symbol. ``equal``: of sizes that are the same the one to write. ``saved``: the text of the load of
    each value that was saved, to write in place of its computation. ``apart``: values whose gradients are not those of
    the ops that give them, and what they are, so that none has the name of another value of the same text."""

    def __init__(
        self,
        ir: KernelIR,
        namer: Namer,
        bound: Callable[[str, int], str],
        knobs: Mapping[str, str],
        equal: Mapping[str, Expr],
        saved: Mapping[Value, Callable[[Env], str]] | None = None,
    ) -> None:
        self.ir, self.namer, self.bound, self.knobs, self.equal = ir, namer, bound, knobs, equal
        self.saved = saved or {}
        self.apart: Mapping[Value, str] = {}

    # ---- operands -------------------------------------------------------------------------------

    def operand(self, x: Operand, env: Env) -> str:
        """The text of an operand: a value's name, or a number that reads back as itself."""
        if isinstance(x, Value):
            return env.names[x]
        if isinstance(x, float) and not math.isfinite(x):
            return f'float("{x}")'
        return repr(x) if x >= 0 else f"({x!r})"

    def size(self, e: Expr, env: Env) -> str:
        """Source text of a size."""
        text = self.same(e).python(lambda symbol: self._symbol(symbol, env))
        return text[1:-1] if text.startswith("(") and e.op in ("sum", "prod") else text

    def same(self, e: Expr) -> Expr:
        """The size with each symbol as it is written."""
        return e.substitute(self.equal)

    def _symbol(self, symbol: str, env: Env) -> str:
        if not is_knob(symbol):
            return symbol_text(symbol, self.bound)
        if symbol in self.knobs:
            return self.knobs[symbol]
        for name, tile in env.tiles.items():
            if self.ir.tiles[name].block == Expr.sym(symbol):
                return f"{tile.variable}.block_size"
        raise GradientError(
            "a block size is known where a derived backward names it",
            got=symbol,
            where=self.ir.name,
            hint="give the loop's block size a name: tfl.register_block_size(n)",
        )

    def dim(self, dim: Dim, env: Env) -> str:
        """The text of a dimension: the tile's variable where it is that tile, else its size."""
        tile = env.tiles.get(dim.tile) if dim.tile else None
        if tile is not None and dim.tile is not None and dim.extent == self.ir.tiles[dim.tile].block:
            return tile.variable
        return self.size(dim.extent, env)

    def shape(self, dims: tuple[Dim, ...], env: Env) -> str:
        """The text of a shape, as a list."""
        return f"[{', '.join(self.dim(d, env) for d in dims)}]"

    def same_dims(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        """Whether two shapes are equal without broadcasting."""
        return len(a) == len(b) and all((x == ONE) == (y == ONE) for x, y in zip(a, b, strict=True))

    # ---- accesses -------------------------------------------------------------------------------

    def access(self, op: Op, env: Env) -> tuple[tuple[str, ...], str | None]:
        """The items of an access' index, and its mask."""
        attrs = AccessAttrs.of(op)
        tensor = self.ir.tensor(attrs.tensor)
        items, masks = [], []
        for axis, item in enumerate(attrs.index):
            match item:
                case TileIndex(name):
                    items.append(env.tiles[name].variable)
                case SliceIndex(start, dim):
                    items.append(self._slice(start, dim.extent, tensor.shape[axis], env))
                case ExprIndex(value):
                    items.append(self.size(value, env))
                case ValueIndex(position, _, inside):
                    text = self.operand(op.inputs[position], env)
                    items.append(text)
                    if inside is not None:
                        size = self.size(tensor.shape[axis], env)
                        masks.append(self._spread(f"({text} >= 0) & ({text} < {size})", op, item))
        if attrs.has_mask:
            masks.append(self.operand(op.inputs[-1], env))
        return tuple(items), " & ".join(masks) or None

    def _slice(self, start: Expr, extent: Expr, size: Expr, env: Env) -> str:
        if start == Expr.of(0) and self.same(extent) == self.same(size):
            return ":"
        end = self.same(start + extent)
        first = "" if start == Expr.of(0) else self.size(start, env)
        return f"{first}:" + ("" if end == self.same(size) else self.size(end, env))

    def _spread(self, mask: str, op: Op, item: ValueIndex) -> str:
        """A condition on an index as wide as what is accessed."""
        rank = len(op.output.dims if op.kind is OpKind.LOAD else op.values[0].dims)
        if not item.axes or rank == 1:
            return f"({mask})"
        return f"({mask})[{', '.join(':' if a in item.axes else 'None' for a in range(rank))}]"

    def load(self, tensor: str, items: tuple[str, ...], mask: str | None) -> str:
        """The text of a load; ``tfl.load`` where it has a mask."""
        if mask is None:
            return f"{tensor}[{', '.join(items) or '()'}]"
        return f"tfl.load({tensor}, [{', '.join(map(index_item, items))}], extra_mask={mask})"

    # ---- ops ------------------------------------------------------------------------------------

    def block(self, block: Block, env: Env, lines: list[Statement]) -> None:
        """The lines that compute a block's values again; they write to no tensor."""
        for op in block.ops:
            self.op(op, env, lines)

    def op(self, op: Op, env: Env, lines: list[Statement]) -> None:
        """Append the lines of one op to ``lines``. What was computed before under the same text is named again
        instead."""
        self._computed(op, env, lines)
        for value in op.outputs:
            if value in self.saved:  # what computes it has no reader then
                lines.append(f"{env.names[value]} = {self.saved[value](env)}")

    def _computed(self, op: Op, env: Env, lines: list[Statement]) -> None:
        if op.kind is OpKind.FOR:
            self.loop(op, env, lines)
        elif op.kind is OpKind.IF:
            self.branch(op, env, lines)
        elif op.outputs and op.kind is not OpKind.ATOMIC and op.outputs[0] not in env.names:
            text = self.text(op, env)
            own = self.apart.get(op.outputs[0])
            key = text if own is None else f"{own}: {text}"
            known = text if key.isidentifier() else env.known.get(key)
            if known is not None and len(op.outputs) == 1:
                env.names[op.output] = known
                return
            for value in op.outputs:
                env.names[value] = self.namer.fresh(self._name(op))
            if len(op.outputs) == 1:
                env.known[key] = env.names[op.output]
            lines.append(f"{', '.join(env.names[v] for v in op.outputs)} = {text}")

    def _name(self, op: Op) -> str:
        if isinstance(op.attrs, AccessAttrs):
            return self.ir.tensor(op.attrs.tensor).name + "_tile"
        if isinstance(op.attrs, PointwiseAttrs | FoldAttrs):
            return op.attrs.fn
        return str(op.kind)

    def text(self, op: Op, env: Env) -> str:
        """What an op computes. Raises GradientError for a kind that has no text."""
        spell = TEXT.get(op.kind)
        if spell is None:
            raise GradientError(
                f"{op.kind} is computed again by a derived backward", got="no text for it", where=op.loc, hint=HINT
            )
        return spell(self, op, env)

    def loop(self, op: Op, env: Env, lines: list[Statement]) -> None:
        """Append a loop of the forward pass without its stores."""
        (body,), attrs = op.regions, LoopAttrs.of(op)
        inner, loop = self.open(op, env)
        for param, entry in zip(body.params, op.inputs[attrs.bounds :], strict=True):
            inner.names[param] = self.namer.fresh("carried")
            lines.append(f"{inner.names[param]} = {self.operand(entry, env)}")
        self.block(body, inner, loop.body)
        for param, result, value in zip(body.params, body.results, op.outputs, strict=True):
            env.names[value] = inner.names[param]
            following = self.namer.fresh("following")
            loop.body.append(f"{following} = {self.operand(result, inner)}")
            inner.names[param] = following
        for param, value in zip(body.params, op.outputs, strict=True):
            loop.body.append(f"{env.names[value]} = {inner.names[param]}")
        lines.append(loop)

    def branch(self, op: Op, env: Env, lines: list[Statement]) -> None:
        """Append a branch of the forward pass without its stores: each side gives the results their names."""
        branch = Branch(self.condition(op, env))
        names = [self.namer.fresh("chosen") for _ in op.outputs]
        for block, side in zip(op.regions, (branch.then, branch.other), strict=True):
            inner = env.child()
            self.block(block, inner, side)
            side += [f"{name} = {self.operand(r, inner)}" for name, r in zip(names, block.results, strict=True)]
        env.names.update(zip(op.outputs, names, strict=True))
        lines.append(branch)

    def condition(self, op: Op, env: Env) -> str:
        """The text of a branch's condition: a scalar of the kernel, or a question about block sizes."""
        test = IfAttrs.of(op).test
        return self.operand(op.inputs[0], env) if test is None else self.size(test, env)

    def open(self, op: Op, env: Env) -> tuple[Env, Loop]:
        """The loop of an op with an empty body, and what is known inside."""
        name = TileAttrs.of(op).tile
        tile, inner = self.ir.tiles[name], env.child()
        variable = self.namer.fresh(variable_name(name))
        inner.tiles[name] = TileName(variable)
        if tile.lengths is not None:
            return inner, Loop(
                variable, f"tfl.jagged_tile({self.operand(tile.lengths, env)}{self._block_size(tile.block)})"
            )
        begin, end = (
            self.operand(b, env) if isinstance(b, Value) else self.size(b, env) for b in (tile.begin, tile.end)
        )
        return inner, Loop(
            variable, f"tfl.tile({'' if begin == '0' else begin + ', '}{end}{self._block_size(tile.block)})"
        )

    def _block_size(self, block: Expr) -> str:
        if block.constant is not None:
            return f", block_size={block.constant}"
        known = self.knobs.get(str(block)) if block.op == "sym" else None
        return f", block_size={known}" if known else ""


def variable_name(tile: str) -> str:
    """A tile's name without what tells it from others in the IR."""
    return tile.split("#")[0].split("@")[0]


def index_item(item: str) -> str:
    """An item of an index where no brackets stand around it."""
    if ":" not in item:
        return item
    first, _, last = item.partition(":")
    return f"slice({first or None}, {last or None})"


def _pointwise(s: Speller, op: Op, env: Env) -> str:
    fn = PointwiseAttrs.of(op).fn
    operands = [s.operand(o, env) for o in op.inputs]
    if fn in ("minimum", "maximum"):
        return _extremum(fn, op, operands)
    texts = _NUMBER_TEXT if fn in _NUMBER_TEXT and all(map(_is_number, op.inputs)) else POINTWISE_TEXT
    return texts[fn].format(*operands)


def _is_number(operand: Operand) -> bool:
    """Whether an operand is a number eagerly: one of Python's, or a question about such."""
    return not isinstance(operand, Value) or (not operand.dims and (operand.type.weak or operand.type.dtype == "bool"))


def _extremum(fn: str, op: Op, operands: list[str]) -> str:
    """torch's own takes no numbers."""
    weak = [not isinstance(x, Value) or x.type.weak for x in op.inputs]
    if all(weak):
        return f"{fn[:3]}({', '.join(operands)})"
    for tile, other in ((0, 1), (1, 0)):
        if weak[other]:
            return f"torch.clamp({operands[tile]}, {'max' if fn == 'minimum' else 'min'}={operands[other]})"
    return f"torch.{fn}({', '.join(operands)})"


def _load(s: Speller, op: Op, env: Env) -> str:
    items, mask = s.access(op, env)
    return s.load(path_text(AccessAttrs.of(op).tensor), items, mask)


def _expand(s: Speller, op: Op, env: Env) -> str:
    (value,) = op.values
    text = s.operand(value, env)
    return text if s.same_dims(value.dims, op.output.dims) else f"{text}.expand({s.shape(op.output.dims, env)})"


def _reduce(s: Speller, op: Op, env: Env) -> str:
    attrs = FoldAttrs.of(op)
    if attrs.fn not in _REDUCTIONS:
        raise GradientError(
            f"a reduction by {attrs.fn} is computed again by a derived backward",
            got="no text for it",
            where=op.loc,
            hint=HINT,
        )
    return f"{s.operand(op.inputs[0], env)}.{_REDUCTIONS[attrs.fn]}({attrs.axis})"


def _scan(s: Speller, op: Op, env: Env) -> str:
    attrs = ScanAttrs.of(op)
    name = {"sum": "cumsum", "prod": "cumprod"}[attrs.fn]
    return f"tfl.{name}({s.operand(op.inputs[0], env)}, {attrs.axis}{', reverse=True' if attrs.reverse else ''})"


def _dot(s: Speller, op: Op, env: Env) -> str:
    a, b, *acc = (s.operand(o, env) for o in op.inputs)
    rest = f", acc={acc[0]}" if acc else f", out_dtype=torch.{op.output.type.dtype}"
    return f"tfl.dot({a}, {b}{rest})"


def _tile_scalar(s: Speller, op: Op, env: Env) -> str:
    tile = env.tiles[TileAttrs.of(op).tile]
    return tile.variable if tile.is_index else f"{tile.variable}.{_TILE_SCALARS[op.kind]}"


def _arange(s: Speller, op: Op, env: Env) -> str:
    start, (dim,) = ArangeAttrs.of(op).start, op.output.dims
    text = f"tfl.arange({s.dim(dim, env)})"
    return text if start == Expr.of(0) else f"{s.size(start, env)} + {text}"


def _random(s: Speller, op: Op, env: Env) -> str:
    attrs = RandomAttrs.of(op)
    if attrs.stream != (0, 0):
        raise GradientError(
            "a derived backward draws the numbers of a kernel's first call of tfl.rand again",
            got="another call of it",
            where=op.loc,
            hint=HINT,
        )
    whole = ", ".join("None" if e is None else s.size(e, env) for e in attrs.sizes)
    seed, *bounds = (s.operand(o, env) for o in op.inputs)
    name = "randint" if bounds else "rand"
    values = ", ".join((*bounds, seed))
    return f"tfl.{name}({s.shape(op.output.dims, env)}, {values}, whole=[{whole}])"


def _full(s: Speller, op: Op, env: Env) -> str:
    value, type_ = s.operand(op.inputs[0], env), op.output.type
    return f"tfl.full({s.shape(type_.dims, env)}, {value}, dtype=torch.{type_.dtype})"


def _narrow(s: Speller, op: Op, env: Env) -> str:
    (value,) = op.values
    return with_lanes(s.operand(value, env), value.dims, op.output.dims, lambda dim: s.dim(dim, env))


def _axis(method: str) -> Callable[[Speller, Op, Env], str]:
    return lambda s, op, env: f"{s.operand(op.inputs[0], env)}.{method}({AxisAttrs.of(op).axis})"


TEXT: dict[OpKind, Callable[[Speller, Op, Env], str]] = {
    OpKind.LOAD: _load,
    OpKind.POINTWISE: _pointwise,
    OpKind.CAST: lambda s, op, env: f"{s.operand(op.inputs[0], env)}.to(torch.{op.output.type.dtype})",
    OpKind.BITCAST: lambda s, op, env: f"{s.operand(op.inputs[0], env)}.view(torch.{op.output.type.dtype})",
    OpKind.FULL: _full,
    OpKind.SIZE: lambda s, op, env: s.size(SizeAttrs.of(op).value, env),
    OpKind.SCALAR: lambda s, op, env: path_text(ScalarAttrs.of(op).path),
    **dict.fromkeys(_TILE_SCALARS, _tile_scalar),
    OpKind.ARANGE: _arange,
    OpKind.RANDOM: _random,
    OpKind.UNSQUEEZE: _axis("unsqueeze"),
    OpKind.SQUEEZE: _axis("squeeze"),
    OpKind.PERMUTE: lambda s, op, env: f"{s.operand(op.inputs[0], env)}.permute{PermuteAttrs.of(op).order}",
    OpKind.EXPAND: _expand,
    OpKind.RESHAPE: lambda s, op, env: f"{s.operand(op.inputs[0], env)}.reshape({s.shape(op.output.dims, env)})",
    OpKind.NARROW: _narrow,
    OpKind.JOIN: lambda s, op, env: f"tfl.join({s.operand(op.inputs[0], env)}, {s.operand(op.inputs[1], env)})",
    OpKind.SPLIT: lambda s, op, env: f"tfl.split({s.operand(op.inputs[0], env)})",
    OpKind.GATHER: lambda s, op, env: (f"torch.gather({s.operand(op.inputs[0], env)}, {AxisAttrs.of(op).axis}, "
                                       f"{s.operand(op.inputs[1], env)})"),
    OpKind.REDUCE: _reduce,
    OpKind.SCAN: _scan,
    OpKind.DOT: _dot,
    OpKind.WHERE_MASK: lambda s, op, env: s.operand(op.inputs[0], env),  # a loop that carries the value selects again
}  # fmt: skip
