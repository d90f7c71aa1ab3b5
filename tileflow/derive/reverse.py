"""Reverse mode over one region: the lines that compute its values again, then those that take its gradients back.

Loops are differentiated where what they carry is a sum: the gradient of the sum is that of each of its terms, in a
second loop over the same tiles. Of a branch the condition is computed again, and the gradients are those of the side
that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import GradientError
from ..expr import Expr
from ..ir.attributes import AccessAttrs, AtomicAttrs, AxisAttrs, FoldAttrs, LoopAttrs, PointwiseAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, Value
from .called import Called
from .forward import HINT, Env, Speller
from .functions import ROWS, differentiated
from .program import Branch, Gradient, Loop, Statement, facts, walk
from .rules import RULES, is_differentiable, refused
from .shifts import peaks
from .sizes import fixed_sizes


@dataclass(slots=True)
class Scope:
    """The region's body, a loop's, or a side of a branch. ``defined``: the names that its lines give. ``grads``: by
    name, the gradients that values of this scope got so far; ``outer``: those of values around it. ``loop``: the tile
    of the loop whose body it is. ``invariant``: the gradients of loads that are the same in each turn."""

    lines: list[Statement]
    env: Env
    tiles: tuple[str, ...]
    defined: set[str] = field(default_factory=set)
    loop: str | None = None
    grads: dict[str, list[str]] = field(default_factory=dict)
    outer: dict[str, list[str]] = field(default_factory=dict)
    invariant: list[tuple[Op, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Taken:
    """Where a gradient's load stands: its op, and the tiles of the loops around it."""

    op: Op
    tiles: tuple[str, ...]


class RegionReverse:
    """The backward pass of one region. ``seed``: the tensor that holds the gradient of one that the region writes, None
    where nobody asks for it. ``wanted``: whether a tensor's gradient is asked for. ``calls``: of torch functions with a
    derivative of their own, by their result."""

    def __init__(
        self,
        speller: Speller,
        seed: Callable[[str], str | None],
        wanted: Callable[[str], bool],
        calls: Mapping[Value, Called],
    ) -> None:
        self.speller, self.ir, self.namer = speller, speller.ir, speller.namer
        self.seed, self.wanted, self.calls = seed, wanted, calls
        self.peaks = peaks(self.ir)
        stopped = {value for value, call in calls.items() if call.stops}
        self.active = active(self.ir, wanted, self.peaks.constant | stopped)
        # a peak of the same text through which gradients flow has a name of its own: softmax(x) * amax(x)
        own = self.peaks.constant | self.peaks.rescaled.keys()
        speller.apart = {**dict.fromkeys(own, "peak"), **speller.apart}
        self.fixed = fixed_sizes(self.ir)
        self.values: dict[str, Value] = {}
        self.unavailable: dict[str, Op] = {}  # names that stand for what a loop carries, and the loops
        self.scopes: list[Scope] = []

    def run(self, env: Env) -> list[Statement]:
        """All lines, also those that nobody needs."""
        scope = Scope([], env, self.ir.grid)
        self.scopes = [scope]
        self._forward(self.ir.body, scope)
        self._block(self.ir.body)
        return scope.lines

    @property
    def scope(self) -> Scope:
        """The innermost scope that is open."""
        return self.scopes[-1]

    def _forward(self, block: Block, scope: Scope) -> None:
        around = set(scope.env.names.values())
        self.speller.block(block, scope.env, scope.lines)
        scope.defined |= set(scope.env.names.values()) - around
        for value, name in scope.env.names.items():
            self.values.setdefault(name, value)

    def _block(self, block: Block) -> None:
        for op in reversed(block.ops):
            if op.kind is OpKind.STORE:
                self._seed(op, op.inputs[0], None)
            elif op.kind is OpKind.ATOMIC:
                self._atomic(op)
            elif op.kind is OpKind.FOR:
                self._loop(op)
            elif op.kind is OpKind.IF:
                self._branch(op)
            elif not self._is_repeated(op):
                self._op(op)

    def _is_repeated(self, op: Op) -> bool:
        """Whether an earlier op gave the same: it gets the gradients of both."""
        return bool(op.outputs) and self.values.get(self.scope.env.names.get(op.outputs[0], "")) != op.outputs[0]

    def _op(self, op: Op) -> None:
        grads = tuple(self.take(v) for v in op.outputs)
        if not any(grads):
            return
        if op.kind is OpKind.LOAD:
            self._load(op, str(grads[0]))
        elif op.outputs[0] in self.peaks.rescaled:
            self.give(self.peaks.rescaled[op.outputs[0]], str(grads[0]))
        elif op.outputs[0] in self.calls:
            self._call(op, self.calls[op.outputs[0]], str(grads[0]))
        else:
            RULES.get(op.kind, refused)(self, op, grads)

    def _call(self, op: Op, call: Called, grad: str) -> None:
        """The gradient of a call whose result is the op's goes to what it was given."""
        if call.function in ROWS:
            ROWS[call.function](self, op, call.given, call.results, grad)
        else:
            differentiated(self, op, call.function, call.given, grad)

    # ---- memory ---------------------------------------------------------------------------------

    def _seed(self, op: Op, value: Operand, dims: tuple[Dim, ...] | None) -> None:
        """What is written gets the gradient of the tensor there."""
        tensor = self.ir.tensor(AccessAttrs.of(op).tensor)
        grad = self.seed(tensor.path) if self.is_active(value) else None
        if grad is not None:
            items, mask = self.speller.access(op, self.scope.env)
            self.give(value, self.speller.load(grad, items, mask), tensor.dtype, dims)

    def _atomic(self, op: Op) -> None:
        if not any(self.is_active(v) for v in op.inputs):
            return
        if AtomicAttrs.of(op).fn != "add" or self.ir.uses.get(op.output):
            raise GradientError(
                "of atomics those that add and whose result nobody reads are differentiated",
                got=f"atomic_{AtomicAttrs.of(op).fn}",
                where=op.loc,
                hint=HINT,
            )
        self._seed(op, op.inputs[0], op.output.dims)

    def _load(self, op: Op, grad: str) -> None:
        """Give a load's gradient to its tensor, after the loops that it does not depend on."""
        scope = self.scope
        if scope.loop is not None and self._is_invariant(op, scope, scope.loop):
            scope.invariant.append((op, grad))
            return
        items, mask = self.speller.access(op, scope.env)
        scope.lines.append(Gradient(AccessAttrs.of(op).tensor, items, mask, grad, Taken(op, scope.tiles)))

    def _is_invariant(self, op: Op, scope: Scope, loop: str) -> bool:
        items, mask = self.speller.access(op, scope.env)
        read = Gradient("", items, mask, "0").reads
        return not read & (scope.defined | {scope.env.tiles[loop].variable})

    # ---- loops ----------------------------------------------------------------------------------

    def _loop(self, op: Op) -> None:
        outer, (body,), attrs = self.scope, op.regions, LoopAttrs.of(op)
        grads = [self.take(v) for v in op.outputs]
        if not any(grads) and not self._writes(body):
            return
        env, loop = self.speller.open(op, outer.env)
        for param in body.params:
            env.names[param] = name = self.namer.fresh("carried")
            self.unavailable[name] = op
        for value in op.outputs:
            for peak in self.peaks.running.get(value, ()):  # each turn as if it knew the last peak
                env.names[peak] = outer.env.names[value]
        inner = Scope(loop.body, env, (*outer.tiles, attrs.tile), {env.names[p] for p in body.params}, attrs.tile)
        self.scopes.append(inner)
        self._forward(body, inner)
        for result, grad in zip(body.results, grads, strict=True):
            if grad is not None:
                self.give(result, grad)
        self._block(body)
        self.scopes.pop()
        self._check_sums(op, body, grads, inner)
        self._leave(inner, loop, outer)
        for entry, grad in zip(op.inputs[attrs.bounds :], grads, strict=True):
            if grad is not None:
                self.give(entry, grad)

    def _writes(self, body: Block) -> bool:
        return any(o.kind in (OpKind.STORE, OpKind.ATOMIC, OpKind.FOR, OpKind.IF) for o in body.ops)

    def _check_sums(self, op: Op, body: Block, grads: list[str | None], inner: Scope) -> None:
        """Raises GradientError unless each turn adds to what it carries."""
        for param, result, grad in zip(body.params, body.results, grads, strict=True):
            given = inner.grads.get(inner.env.names[param], [])
            if given != ([] if grad is None else [grad]):
                ids = (v.id for v in (result, param) if isinstance(v, Value))
                name = next((self.ir.value_names[i] for i in ids if i in self.ir.value_names), "a value")
                raise GradientError(
                    "what a loop carries is a sum, where it is differentiated",
                    where=op.loc,
                    got=f"{name}, {param.type}, that is carried in another way",
                    hint=f"write it of sums, a mean and a variance as torch.var_mean of the row; or {HINT}",
                )

    def _leave(self, inner: Scope, loop: Loop, outer: Scope) -> None:
        """The gradients of values around the loop are summed over its turns."""
        sums = [
            (name, self._sum(self.values[name], " + ".join(given), loop, outer)) for name, given in inner.outer.items()
        ]
        loads = [(op, self._sum(op.output, grad, loop, outer)) for op, grad in inner.invariant]
        outer.lines.append(loop)
        for name, total in sums:
            self.give(self.values[name], total, sum_dtype(self.values[name]))
        for op, total in loads:
            for value in op.values:  # which the loop computes as code before it has done: under that one's name
                outer.env.names.setdefault(value, inner.env.names[value])
            self._load(op, total)

    def _sum(self, value: Value, text: str, loop: Loop, outer: Scope) -> str:
        """A sum over the turns of a loop of what ``text`` is in each, as wide as ``value``."""
        total = self._zeros(value, outer)
        loop.body.append(f"{total} = {total} + {text}")
        return total

    def _zeros(self, value: Value, outer: Scope) -> str:
        """A variable as wide as ``value``, set to zeros."""
        total = self.namer.fresh("d_sum")
        shape = self.speller.shape(value.dims, outer.env)
        outer.lines.append(f"{total} = tfl.zeros({shape}, dtype=torch.{sum_dtype(value)})")
        return total

    # ---- branches -------------------------------------------------------------------------------

    def _branch(self, op: Op) -> None:
        """The condition is computed again, and of the branch that it takes the gradients are."""
        outer = self.scope
        grads = [self.take(v) for v in op.outputs]
        if not any(grads) and not any(map(self._writes, op.regions)):
            return
        branch = Branch(self.speller.condition(op, outer.env))
        sides = [self._side(op, n, lines, grads) for n, lines in enumerate((branch.then, branch.other))]
        names = dict.fromkeys(name for side in sides for name in side.outer)
        passed = {name: given for name in names if (given := _same_on_both(sides, name)) is not None}
        totals = {name: self._zeros(self.values[name], outer) for name in names if name not in passed}
        for name, total in totals.items():
            for side in sides:
                if name in side.outer:
                    side.lines.append(f"{total} = {total} + {' + '.join(side.outer[name])}")
        outer.lines.append(branch)
        for name, text in passed.items():
            self.give(self.values[name], text)
        for name, total in totals.items():
            self.give(self.values[name], total, sum_dtype(self.values[name]))

    def _side(self, op: Op, n: int, lines: list[Statement], grads: list[str | None]) -> Scope:
        """The backward pass of one side of a branch, whose results have the gradients ``grads``."""
        outer, block = self.scope, op.regions[n]
        inner = Scope(lines, outer.env.child(), outer.tiles)
        self.scopes.append(inner)
        self._forward(block, inner)
        for result, grad in zip(block.results, grads, strict=True):
            if grad is not None:
                self.give(result, grad)
        self._block(block)
        self.scopes.pop()
        return inner

    # ---- gradients ------------------------------------------------------------------------------

    def is_active(self, x: Operand) -> bool:
        """Whether an operand's gradient is needed: it is differentiable, and what is asked for depends on it."""
        return is_differentiable(x) and x in self.active

    def text(self, x: Operand) -> str:
        """The text of an operand in the open scope."""
        return self.speller.operand(x, self.scope.env)

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """The text of a shape in the open scope."""
        return self.speller.shape(dims, self.scope.env)

    def same_dims(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        """Whether two tuples of dimensions have the same sizes."""
        return self.speller.same_dims(a, b)

    def name(self, base: str, text: str) -> str:
        """A variable that holds ``text``, assigned now unless the scope has one."""
        known = self.scope.env.known
        if text not in known:
            known[text] = self.namer.fresh(base)
            self.scope.lines.append(f"{known[text]} = {text}")
        return known[text]

    def _is_load(self, value: Value) -> bool:
        """Whether a value's gradient is stored, which converts it, or added up in more bits than it has."""
        op = self.ir.definitions.get(value)
        return op is not None and op.kind is OpKind.LOAD

    def give(self, to: Operand, text: str, dtype: str = "", dims: tuple[Dim, ...] | None = None) -> None:
        """Add ``text`` to the gradients of ``to``: summed over the axes along which it was broadcast to ``dims``, and
        converted from ``dtype`` to its own. An inactive operand takes none."""
        if not isinstance(to, Value) or not self.is_active(to):
            return
        name = self.scope.env.names[to]
        base = f"d_{name}"
        if dims is not None:
            inserted, repeated = broadcast_axes(dims, to.dims)
            text = f"{self.name(base, text)}.sum({_spelled(inserted)})" if inserted else text
            text = f"{self.name(base, text)}.sum({_spelled(repeated)}, keepdim=True)" if repeated else text
        if dtype and dtype != to.type.dtype and not self._is_load(to):
            text = f"{text if text.isidentifier() else self.name(base, text)}.to(torch.{to.type.dtype})"
        scope = self.scope
        grads = scope.grads if name in scope.defined or len(self.scopes) == 1 else scope.outer
        grads.setdefault(name, []).append(text if text.isidentifier() else self.name(base, text))

    def take(self, value: Value) -> str | None:
        """The gradient of a value that all its uses have given theirs to; None where none did."""
        given = self.scope.grads.pop(self.scope.env.names.get(value, ""), [])
        if not given:
            return None
        return given[0] if len(given) == 1 else self.name(f"d_{self.scope.env.names[value]}", " + ".join(given))

    def normalised(self, op: Op) -> tuple[Value, int] | None:
        """Of a quotient of ``exp(x)`` and its own sum over one axis: ``x`` and the axis. Its gradient needs the
        quotient alone."""
        numerator, denominator = op.inputs
        top = self._made(numerator, OpKind.POINTWISE)
        if top is None or PointwiseAttrs.of(top).fn not in ("exp", "exp_gradual"):
            return None
        kept = self._made(denominator, OpKind.EXPAND)
        kept = self._made(kept.inputs[0] if kept else denominator, OpKind.UNSQUEEZE)
        total = self._made(kept.inputs[0], OpKind.REDUCE) if kept else None
        (exponent,) = top.inputs
        if kept is None or total is None or not isinstance(exponent, Value):
            return None
        attrs = FoldAttrs.of(total)
        is_own = attrs.fn == "sum" and total.inputs[0] == numerator and AxisAttrs.of(kept).axis == attrs.axis
        return (exponent, attrs.axis) if is_own and exponent.type == op.output.type else None

    def number(self, size: Expr) -> int | None:
        """A size, where all calls of this kind have the same: they have the shapes of the example."""
        return size.substitute(self.fixed).constant

    def definition(self, x: Operand) -> Op | None:
        """The op that gives an operand; None of a number, and of what a loop carries."""
        return self.ir.definitions.get(x) if isinstance(x, Value) else None

    def _made(self, x: Operand, kind: OpKind) -> Op | None:
        """The op of a kind that gives an operand."""
        op = self.definition(x)
        return op if op is not None and op.kind is kind else None

    def carries(self, value: Operand, other: Operand) -> bool:
        """Whether ``value`` is ``other``, which the innermost loop carries, plus something else."""
        if value == other:
            return isinstance(other, Value) and self.scope.env.names.get(other) in self.unavailable
        op = self.ir.definitions.get(value) if isinstance(value, Value) else None
        if op is None:
            return False
        if op.kind is OpKind.DOT and len(op.inputs) == 3:
            return self.carries(op.inputs[2], other)
        adds = op.kind is OpKind.POINTWISE and getattr(op.attrs, "fn", "") in ("add", "sub")
        return adds and any(self.carries(v, other) for v in op.inputs)


def _same_on_both(sides: list[Scope], name: str) -> str | None:
    """The gradient of a value around a branch that both sides give it, where that is a value around it too: they hand
    on what they got."""
    first, second = (side.outer.get(name, []) for side in sides)
    made = {n for side in sides for line in walk(side.lines) if isinstance(line, str) for n in facts(line).assigns}
    return first[0] if first == second and len(first) == 1 and first[0] not in made else None


def sum_dtype(value: Value) -> str:
    """What a value's gradients are summed in."""
    return "float64" if value.type.dtype == "float64" else "float32"


def broadcast_axes(wide: tuple[Dim, ...], narrow: tuple[Dim, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of ``wide`` that a value of ``narrow`` does not have, as a matrix does not have those of batches that it
    multiplies, and the axes of ``narrow`` along which the value was repeated."""
    count = len(wide) - len(narrow)
    pairs = enumerate(zip(wide[count:], narrow, strict=True))
    return tuple(range(count)), tuple(a for a, (w, n) in pairs if n == ONE and w != ONE)


def _spelled(axes: tuple[int, ...]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(list(axes))


def active(ir: KernelIR, wanted: Callable[[str], bool], constant: frozenset[Value]) -> set[Value]:
    """The values that depend on an element of a wanted tensor, but for those that are ``constant``."""
    found: set[Value] = set()

    def visit(block: Block) -> None:
        for op in block.ops:
            if op.kind is OpKind.LOAD and wanted(AccessAttrs.of(op).tensor):
                found.add(op.output)
            elif op.kind is OpKind.FOR:
                (body,), bounds = op.regions, LoopAttrs.of(op).bounds
                for _ in range(len(body.params) + 1):
                    carried = zip(body.params, op.inputs[bounds:], body.results, op.outputs, strict=True)
                    for param, entry, result, output in carried:
                        if entry in found or result in found:
                            found.update({param, output} - constant)
                    visit(body)
            elif op.kind is not OpKind.LOAD:
                for inner in op.regions:
                    visit(inner)
                yields = [r for inner in op.regions for r in inner.results]
                if any(isinstance(v, Value) and v in found for v in (*op.inputs, *yields)):
                    found.update(v for v in op.outputs if is_differentiable(v) and v not in constant)

    visit(ir.body)
    return found
