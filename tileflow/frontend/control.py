"""Control: the ``__tf__`` of rewritten device code. Loops, branches, and calls of other functions.

:mod:`rewrite` turns ``for``, ``if``, conditional expressions and calls into calls of these methods; here it is decided,
from the values at hand, what runs now in Python and what becomes an op of the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from ..errors import TraceError
from ..expr import Expr
from ..ir.graph import Block, Op, Operand, Tile
from ..ir.types import TileType, Value
from .carried import Carried, settle
from .rewrite import rewrite_function
from .trace import Tracer
from .values import UNDEFINED, SymInt, TensorRef, TileProxy, TileValue, Undefined

_TRACED = (TileValue, SymInt)


@dataclass(frozen=True, slots=True)
class TileLoop:
    """What ``tfl.tile`` or ``tfl.grid`` gives in device code: axes to iterate over."""

    begins: tuple[Any, ...]
    ends: tuple[Any, ...]
    blocks: tuple[Any, ...]
    several: bool
    scalar: bool


class Control:
    """One region's control flow over its Tracer."""

    UNDEFINED = UNDEFINED

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    # ---- loops ----------------------------------------------------------------------------------

    def for_(
        self, it: Any, body: Callable[..., Any], targets: tuple[str, ...], names: tuple[str, ...],
        values: tuple[Any, ...], loc: int,
    ) -> Any:  # fmt: skip
        """A loop: unrolled over a Python iterable, an op over tiles. Returns the carried values after it."""
        if isinstance(it, TileLoop):
            return self._axis(it, 0, targets, (), body, Carried(names, tuple(values)))
        for item in self._iterate(it):
            values = body(item, *values)
        return values

    def static_iter(self, it: Any, loc: int) -> Any:
        """The iterable of a loop that ``break`` can leave: only Python's own."""
        if isinstance(it, TileLoop):
            raise TraceError("break leaves Python loops only", got="break in a tile loop", where=self.tracer.location(),
                             hint="mask the remaining work with torch.where")  # fmt: skip
        return self._iterate(it)

    def _iterate(self, it: Any) -> Iterable[Any]:
        if isinstance(it, (TileValue, SymInt, TensorRef, TileProxy)):
            raise TraceError("a loop in device code runs over tfl.tile, tfl.grid or a Python iterable", got=repr(it),
                             where=self.tracer.location())  # fmt: skip
        return it  # type: ignore[no-any-return]

    def _axis(
        self, it: TileLoop, axis: int, targets: tuple[str, ...], proxies: tuple[Any, ...], body: Any, carried: Carried
    ) -> Any:
        """One axis of a tile loop; the last one runs the body."""
        t = self.tracer
        name = t.names.fresh(targets[axis] if axis < len(targets) else "tile")
        tile = Tile(name, self.block(name, it, axis), self._bound(it.begins[axis]), self._bound(it.ends[axis]), False)
        t.tiles[name] = tile

        def run(values: tuple[Any, ...]) -> tuple[Any, ...]:
            proxy = TileProxy(name, t, t.scopes[-1], Expr.of(0))
            found = (*proxies, t.tile_scalar("tile_begin", proxy) if it.scalar else proxy)
            if axis + 1 < len(it.ends):
                return tuple(self._axis(it, axis + 1, targets, found, body, Carried(carried.names, values)))
            return tuple(body(found if it.several else found[0], *values))

        return settle(t, tile, run, carried)

    def block(self, name: str, it: TileLoop, axis: int) -> Expr:
        """The block size of one axis: given, 1 for a grid, or a knob of its own."""
        t = self.tracer
        if it.scalar:
            return Expr.of(1)
        given = it.blocks[axis]
        if given is not None:
            return t.extent(t.as_expr(given, "block_size"))
        end = it.ends[axis]
        hint = None
        if isinstance(end, (int, SymInt)) and isinstance(it.begins[axis], (int, SymInt)):
            extent = t.as_expr(end, "a bound") - t.as_expr(it.begins[axis], "a bound")
            if extent.symbols() <= t.hints.keys():
                hint = extent.evaluate(t.hints)
        return t.new_block(name, hint)

    def _bound(self, bound: Any) -> Expr | Value:
        t = self.tracer
        if isinstance(bound, TileValue):
            value = t.operand(bound)
            assert isinstance(value, Value)
            if value.dims or value.type.dtype.startswith("float"):
                raise TraceError("a loop's bound is an integer scalar", got=repr(bound), where=t.location())
            return value
        return t.extent(t.as_expr(bound, "a loop's bound"))

    # ---- branches -------------------------------------------------------------------------------

    def if_(
        self, test: Any, then: Callable[..., Any], other: Callable[..., Any], names: tuple[str, ...],
        values: tuple[Any, ...], loc: int,
    ) -> Any:  # fmt: skip
        """A branch: a Python value takes one side; a scalar of the device makes an op with both."""
        if not isinstance(test, TileValue):
            return then(*values) if self.static_bool(test, loc) else other(*values)
        return self._branch(self._condition(test), lambda: then(*values), lambda: other(*values), names)

    def _condition(self, test: TileValue) -> Operand:
        value = self.tracer.operand(test)
        if isinstance(value, Value) and value.dims:
            raise TraceError("an if in device code takes a scalar", got=repr(test), where=self.tracer.location(),
                             hint="choose per element with torch.where(condition, a, b)")  # fmt: skip
        return value

    def _branch(
        self, condition: Operand, then: Callable[[], Any], other: Callable[[], Any], names: tuple[str, ...]
    ) -> tuple[Any, ...]:
        t = self.tracer
        sides = []
        for side in (then, other):
            t.open_scope()
            results = tuple(side())
            sides.append((results, t.scopes[-1], t.close_scope()))
        merged = [self._merge(n, a, b) for n, a, b in zip(names, sides[0][0], sides[1][0], strict=True)]
        blocks = []
        for results, scope, ops in sides:
            t.builder._open.append(list(ops))
            t.scopes.append(scope)
            yields = tuple(
                t.expand(t.cast(r, m.dtype), m.dims).value
                for r, m in zip(results, merged, strict=True)
                if isinstance(m, TileType)
            )
            blocks.append(Block((), t.close_scope(), yields))
        outputs = tuple(t.builder.value(m, t.location()) for m in merged if isinstance(m, TileType))
        t.builder.append(Op("if", (condition,), outputs, {}, tuple(blocks), t.location()))
        found = iter(outputs)
        return tuple(t.wrap(next(found)) if isinstance(m, TileType) else m for m in merged)

    def _merge(self, name: str, a: Any, b: Any) -> Any:
        """The common type of a name's two values, or the value where both are the same Python object."""
        if not isinstance(a, (*_TRACED, int, float)) or not isinstance(b, (*_TRACED, int, float)):
            if a is b or isinstance(a, Undefined) or isinstance(b, Undefined):
                return a if a is b else UNDEFINED
            raise TraceError("both branches of a device if give a name a tile, or the same object",
                             got=f"{name}: {a!r} and {b!r}"[:200], where=self.tracer.location())  # fmt: skip
        if not isinstance(a, _TRACED) and not isinstance(b, _TRACED) and a == b:
            return a
        return self.tracer.common_type(a, b)

    def ifexp(self, test: Any, then: Callable[[], Any], other: Callable[[], Any], loc: int) -> Any:
        """A conditional expression."""
        if not isinstance(test, TileValue):
            return then() if self.static_bool(test, loc) else other()
        return self._branch(self._condition(test), lambda: (then(),), lambda: (other(),), ("the value",))[0]

    def and_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        if not isinstance(a, TileValue):
            return b() if self.static_bool(a, loc) else a
        return self.tracer.pointwise("logical_and", a, b())

    def or_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        if not isinstance(a, TileValue):
            return a if self.static_bool(a, loc) else b()
        return self.tracer.pointwise("logical_or", a, b())

    def not_(self, a: Any, loc: int) -> Any:
        return self.tracer.pointwise("logical_not", a) if isinstance(a, TileValue) else not self.static_bool(a, loc)

    def static_bool(self, test: Any, loc: int) -> bool:
        """A condition that Python decides while tracing; sizes are guarded, tiles refused."""
        return bool(test)

    # ---- assignment and calls -------------------------------------------------------------------

    def iadd(self, op: str, a: Any, b: Any, loc: int) -> Any:
        """``a op= b``. A tile keeps its dtype and shape, and the name is bound anew."""
        result = _AUGMENTED[op](a, b)
        if isinstance(a, TileValue) and isinstance(result, TileValue):
            kept = self.tracer.cast_weakly(result, a)
            # the lanes of a tile that was added stay known, so that a loop keeps the others
            same = [d.extent for d in kept.value.dims] == [d.extent for d in a.value.dims]
            return kept if same else self.tracer.expand(kept, a.value.dims)
        return result

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call anything: the language by its traced meaning, user functions rewritten, the rest as it is."""
        from .device_functions import DEVICE, PYTHON

        name = getattr(function, "__tileflow_device__", None)
        if name is not None:
            if name not in DEVICE:
                raise TraceError(
                    "a language function must have a traced meaning", got=name, where=self.tracer.location()
                )
            return self.tracer.run(DEVICE[name], f"tfl.{name}", args, kwargs)
        if _is_builtin(function) and function in PYTHON and any(_has_traced(a) for a in args):
            return PYTHON[function](self.tracer, *args, **kwargs)
        if isinstance(function, MethodType) and _is_user(function.__func__):
            return rewrite_function(function.__func__)(self, function.__self__, *args, **kwargs)
        if isinstance(function, FunctionType) and _is_user(function):
            self.tracer.files.add(function.__code__.co_filename)
            return rewrite_function(function)(self, *args, **kwargs)
        if getattr(function, "__tileflow_inline__", False):
            return rewrite_function(function)(self, *args, **kwargs)
        return function(*args, **kwargs)


def _has_traced(x: Any) -> bool:
    return isinstance(x, _TRACED) or (isinstance(x, (list, tuple)) and any(_has_traced(i) for i in x))


def _is_builtin(function: Any) -> bool:
    return isinstance(function, (BuiltinFunctionType, type))


_LIBRARY = frozenset({"torch", "tileflow", "builtins", "triton", "numpy"})


def _is_user(function: Any) -> bool:
    root = (getattr(function, "__module__", None) or "").split(".", 1)[0]
    return root not in _LIBRARY and root not in sys.stdlib_module_names


def _augmented() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    import operator

    yield from {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
        "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
        "<<": operator.lshift, ">>": operator.rshift, "@": operator.matmul,
    }.items()  # fmt: skip


_AUGMENTED = dict(_augmented())
