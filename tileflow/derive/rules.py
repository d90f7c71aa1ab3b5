"""The table of derivatives: how the gradient of an op's result becomes those of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from ..errors import GradientError
from ..expr import Expr
from ..ir.attributes import AxisAttrs, FoldAttrs, PermuteAttrs, PointwiseAttrs, ScanAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value, is_float
from . import places
from .forward import HINT
from .lanes import with_lanes

NONE = ""  # no gradient: the operand's value changes the result in steps, or not at all

# For each operand the text of its gradient: {g} is the result's, {out} the result, {0}, {1} ... are the operands.
# At kinks they are torch's: 0 at relu's and abs', half to each of two equal operands of maximum and minimum;
# of NaN all of it.
POINTWISE_RULES: dict[str, tuple[str, ...]] = {
    "add": ("{g}", "{g}"),
    "sub": ("{g}", "-{g}"),
    "mul": ("{g} * {1}", "{g} * {0}"),
    "div": ("{g} / {1}", "-{g} * {out} / {1}"),
    "floordiv": (NONE, NONE),
    "truncdiv": (NONE, NONE),
    "remainder": ("{g}", "-{g} * torch.floor({0} / {1})"),
    "remainder_by_power": ("{g}", "-{g} * torch.floor({0} / {1})"),
    "fmod": ("{g}", "-{g} * torch.trunc({0} / {1})"),
    "pow": ("torch.where({1} == 0, 0.0, {g} * {1} * {0} ** ({1} - 1))",
            "torch.where(({0} == 0) & ({1} >= 0), 0.0, {g} * {out} * torch.log({0}))"),
    "neg": ("-{g}",),
    "positive": ("{g}",),
    "abs": ("{g} * torch.sign({0})",),
    "reciprocal": ("-{g} * {out} * {out}",),
    "minimum": ("torch.where({0} > {1}, 0.0, torch.where({0} == {1}, {g} * 0.5, {g}))",
                "torch.where({1} > {0}, 0.0, torch.where({0} == {1}, {g} * 0.5, {g}))"),
    "maximum": ("torch.where({0} < {1}, 0.0, torch.where({0} == {1}, {g} * 0.5, {g}))",
                "torch.where({1} < {0}, 0.0, torch.where({0} == {1}, {g} * 0.5, {g}))"),
    "fma": ("{g} * {1}", "{g} * {0}", "{g}"),
    "sign": (NONE,),
    "exp": ("{g} * {out}",),
    "exp_gradual": ("{g} * {out}",),
    "exp2": (f"{{g}} * {{out}} * {math.log(2)!r}",),
    "expm1": ("{g} * ({out} + 1)",),
    "log": ("{g} / {0}",),
    "log2": (f"{{g}} / ({{0}} * {math.log(2)!r})",),
    "log1p": ("{g} / ({0} + 1)",),
    "sqrt": ("{g} / ({out} * 2)",),
    "rsqrt": ("-0.5 * {g} * {out} * {out} * {out}",),
    "sin": ("{g} * torch.cos({0})",),
    "cos": ("-{g} * torch.sin({0})",),
    "erf": (f"{{g}} * torch.exp(-{{0}} * {{0}}) * {2 / math.sqrt(math.pi)!r}",),
    "tanh": ("{g} * (1 - {out} * {out})",),
    "sigmoid": ("{g} * {out} * (1 - {out})",),
    "relu": ("torch.where({out} <= 0, 0.0, {g})",),
    "floor": (NONE,),
    "ceil": (NONE,),
    "trunc": (NONE,),
    "round": (NONE,),
    "where": (NONE, "torch.where({0}, {g}, 0.0)", "torch.where({0}, 0.0, {g})"),
}  # fmt: skip


class Reverse(Protocol):
    """What a rule asks of the pass."""

    def text(self, x: Operand) -> str:
        """The operand's name, or the number."""

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """Source text of a shape."""

    def same_dims(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        """Whether two shapes are equal without broadcasting."""

    def give(self, to: Operand, text: str, dtype: str = "", dims: tuple[Dim, ...] | None = None) -> None:
        """Add ``text`` to the gradient of an operand. ``dtype``, ``dims``: what ``text`` has, where the operand has
        others; it is summed over the dimensions that were broadcast."""

    def name(self, base: str, text: str) -> str:
        """A line that computes ``text``; its name."""

    def normalised(self, op: Op) -> tuple[Value, int] | None:
        """Of a quotient of ``exp(x)`` and its own sum over one axis: ``x`` and the axis."""

    def number(self, size: Expr) -> int | None:
        """A size, where all calls of this kind have the same."""

    def definition(self, x: Operand) -> Op | None:
        """The op that gives an operand."""

    def carries(self, value: Operand, other: Operand) -> bool:
        """Whether a value adds to ``other``, which a loop carries."""


Rule = Callable[[Reverse, Op, tuple[str | None, ...]], None]


def is_differentiable(x: Operand) -> bool:
    """Whether an operand is a value of floats; numbers have no gradient."""
    return isinstance(x, Value) and is_float(x.type.dtype)


def pointwise(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """Each differentiable operand gets what its row of POINTWISE_RULES says, summed where it was broadcast."""
    fn, (g,) = PointwiseAttrs.of(op).fn, grads
    if fn == "div" and (found := r.normalised(op)) is not None:
        exponent, axis = found
        part = r.name("d_part", f"{g} * {r.text(op.output)}")
        r.give(exponent, f"{part} - {r.text(op.output)} * {part}.sum({axis}, keepdim=True)", op.output.type.dtype)
        return
    names = [r.text(x) for x in op.inputs]
    for operand, rule in zip(op.inputs, POINTWISE_RULES[fn], strict=True):
        if rule != NONE and is_differentiable(operand):
            text = rule.format(*names, g=g, out=r.text(op.output))
            r.give(operand, text, op.output.type.dtype, op.output.dims)


def cast(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient, converted back."""
    r.give(op.inputs[0], f"{grads[0]}", op.output.type.dtype)


def full(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The sum of the gradient over all lanes, for the scalar that filled them."""
    r.give(op.inputs[0], f"{grads[0]}", op.output.type.dtype, op.output.dims)


def unsqueeze(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient without the inserted dimension."""
    r.give(op.inputs[0], f"{grads[0]}.squeeze({AxisAttrs.of(op).axis})")


def squeeze(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient with the dropped dimension."""
    r.give(op.inputs[0], f"{grads[0]}.unsqueeze({AxisAttrs.of(op).axis})")


def permute(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient in the inverse order."""
    order = PermuteAttrs.of(op).order
    r.give(op.inputs[0], f"{grads[0]}.permute{tuple(order.index(a) for a in range(len(order)))}")


def expand(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The sum of the gradient over the axes that were broadcast."""
    r.give(op.inputs[0], f"{grads[0]}", dims=op.output.dims)


def reshape(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient in the input's dimensions."""
    (value,) = op.values
    r.give(value, f"{grads[0]}.reshape({r.shape(value.dims)})")


def narrow(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient of the lanes that stay; of all others it is 0."""
    (value,) = op.values
    r.give(value, with_lanes(f"{grads[0]}", op.output.dims, value.dims, lambda dim: r.shape((dim,))[1:-1]))


def join(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The two halves of the gradient, one for each side."""
    both = r.name("split", f"tfl.split({grads[0]})")
    for n, operand in enumerate(op.inputs):
        r.give(operand, f"{both}[{n}]")


def split(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """Both gradients joined; a missing one counts as zeros."""
    zero = f"torch.zeros_like({next(filter(None, grads))})"
    r.give(op.inputs[0], f"tfl.join({', '.join(g or zero for g in grads)})")


def gather(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient of each element is the sum of those of the lanes that took it."""
    text = places.gradient(r, op, f"{grads[0]}")
    if text is None:
        raise GradientError(
            "a gather inside a tile is differentiated where it is a slice, a flip or a roll, takes one element along "
            f"the dimension, or at most {places.MOST_PAIRS} pairs of its elements and lanes are to compare",
            got=f"{op.output.dims[AxisAttrs.of(op).axis]} of {op.values[0].dims[AxisAttrs.of(op).axis]}",
            where=op.loc,
            hint=f"gather from the tensor, x[index]; or {HINT}",
        )
    r.give(op.inputs[0], text)


def reduce(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The gradient, spread along the axis. Where several elements share an extremum each has an equal part, as in
    torch's amax."""
    (value,), (g,), attrs = op.values, grads, FoldAttrs.of(op)
    wide = f"{g}.unsqueeze({attrs.axis})"
    if attrs.fn == "sum":
        r.give(value, f"{wide}.expand({r.shape(value.dims)})")
    elif attrs.fn in ("max", "min"):
        found = r.name("found", f"{r.text(value)} == {r.text(op.output)}.unsqueeze({attrs.axis})")
        several = r.name("several", f"{found}.to(torch.{op.output.type.dtype}).sum({attrs.axis}, keepdim=True)")
        r.give(value, f"torch.where({found}, {wide} / {several}, 0.0)")
    elif attrs.fn == "prod":
        _product(r, op, f"{g}")


def _product(r: Reverse, op: Op, g: str) -> None:
    """The product of all others: where no factor is 0 by a quotient; where one is, it alone has a gradient."""
    (value,), axis = op.values, FoldAttrs.of(op).axis
    x, wide = r.text(value), f"{g}.unsqueeze({axis})"
    zeros = r.name("zeros", f"{x} == 0")
    several = r.name("several", f"{zeros}.to(torch.{op.output.type.dtype}).sum({axis}, keepdim=True)")
    factors = r.name("factors", f"torch.where({zeros}, 1.0, {x})")
    others = r.name("others", f"{wide} * {factors}.prod({axis}).unsqueeze({axis})")
    alone = r.name("alone", f"torch.where({zeros} & ({several} == 1), {others}, 0.0)")
    r.give(value, f"torch.where({several} == 0, {others} / {factors}, {alone})")


def scan(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The running sum of the gradient the other way. Raises GradientError for another scan than the sum."""
    attrs = ScanAttrs.of(op)
    if attrs.fn != "sum":
        raise GradientError("of cumulative operations the sum is differentiated", got=attrs.fn, where=op.loc, hint=HINT)
    r.give(op.inputs[0], f"tfl.cumsum({grads[0]}, {attrs.axis}{'' if attrs.reverse else ', reverse=True'})")


def dot(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """Each operand's gradient is a product with the other one, transposed, in the operands' dtype."""
    (a, b), (g,) = op.values[:2], grads
    rank = len(op.output.dims)
    narrow = f"{g}" if a.type.dtype == op.output.type.dtype else f"{g}.to(torch.{a.type.dtype})"
    acc = f"out_dtype=torch.{op.output.type.dtype}"
    left, right = f"{r.text(a)}.transpose(-1, -2)", f"{r.text(b)}.transpose(-1, -2)"
    r.give(a, f"tfl.dot({narrow}, {right}, {acc})", op.output.type.dtype, (*op.output.dims[: rank - 2], *a.dims[-2:]))
    r.give(b, f"tfl.dot({left}, {narrow}, {acc})", op.output.type.dtype, (*op.output.dims[: rank - 2], *b.dims[-2:]))
    if len(op.inputs) == 3:
        r.give(op.inputs[2], f"{g}")


def where_mask(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """What a loop accumulates a tile into: lanes past the tile's end keep their value, which has the same gradient."""
    value, other = op.inputs
    if is_differentiable(other) and not r.carries(value, other):
        raise GradientError(
            "a loop that carries a block-wide tile adds to it", got="another use of it", where=op.loc, hint=HINT
        )
    r.give(value, f"{grads[0]}")


def refused(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """Raises GradientError: the op has no derivative."""
    raise GradientError(f"{op.kind} is not differentiated", got="a gradient of its result", where=op.loc, hint=HINT)


def nothing(r: Reverse, op: Op, grads: tuple[str | None, ...]) -> None:
    """The result does not depend on a differentiable operand."""


RULES: dict[OpKind, Rule] = {
    OpKind.POINTWISE: pointwise,
    OpKind.CAST: cast,
    OpKind.FULL: full,
    OpKind.UNSQUEEZE: unsqueeze,
    OpKind.SQUEEZE: squeeze,
    OpKind.PERMUTE: permute,
    OpKind.EXPAND: expand,
    OpKind.RESHAPE: reshape,
    OpKind.NARROW: narrow,
    OpKind.JOIN: join,
    OpKind.SPLIT: split,
    OpKind.GATHER: gather,
    OpKind.REDUCE: reduce,
    OpKind.SCAN: scan,
    OpKind.DOT: dot,
    OpKind.WHERE_MASK: where_mask,
    OpKind.RANDOM: nothing,
    OpKind.SCALAR: nothing,
    OpKind.NIBBLES: nothing,
}
