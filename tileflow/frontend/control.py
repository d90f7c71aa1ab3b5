"""Control: the ``__tf__`` of rewritten device code. Loops, branches, and calls of other functions.

:mod:`rewrite` turns ``for``, ``if``, conditional expressions and calls into calls of these methods; here it is decided,
from the values at hand, what runs now in Python and what becomes an op of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import ShapeError, TraceError
from ..expr import Expr
from ..ir.graph import Tile
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float
from ..language.rules import (
    KEEPS_ITS_TILES,
    KEEPS_ITS_TILES_HINT,
    KEPT,
    OF_A_COPY,
    OF_A_COPY_HINT,
    instead_of_growing,
    instead_of_in_place,
)
from .branches import both, branch, is_open, opposite
from .calls import call
from .captured_objects import is_one
from .carried import Carried, trace_to_fixpoint
from .carried_pytrees import flatten_all, tree_spec, unflatten_all
from .changed_containers import ChangedContainers
from .counted_turns import UNROLLED, counted_turns, exhaust
from .dimensions import show
from .few_turns import few_turns, loop_or_turns
from .in_place import changed
from .outer_tensors import OuterTensors
from .part_views import is_view_index
from .refusals import of_a_block, of_a_part
from .trace import Tracer
from .turns import device_while
from .values import UNDEFINED, SymInt, TensorRef, TileProxy, TileValue, is_number

Seen = tuple[tuple[str, ...], tuple[Any, ...]]  # names and their values

_MOST_ANSWERS = 20_000  # of conditions that Python decides in one trace: beyond, a `while True` without an end


@dataclass(frozen=True, slots=True)
class TileLoop:
    """What ``tfl.tile``, ``tfl.grid`` or ``tfl.jagged_tile`` gives in device code: axes to iterate over.

    ``start``, ``step``: what a scalar loop makes of its counter. ``lengths``: see ``ir.graph.Tile``. ``given``: the
    arguments of the ``range`` that this is.
    """

    begins: tuple[Any, ...]
    ends: tuple[Any, ...]
    blocks: tuple[Any, ...]
    several: bool
    scalar: bool
    start: Any = 0
    step: Any = 1
    lengths: Value | None = None
    given: tuple[Any, ...] = ()

    def item(self, counter: TileValue) -> Any:
        """What the body of a scalar loop gets."""
        is_plain = isinstance(self.step, int) and self.step == 1
        return counter if is_plain else counter * self.step + self.start

    def turns(self) -> range:
        """A range between sizes as Python's own, which makes constants of them. Raises TraceError for other loops."""
        if not self.given:
            raise TraceError(
                "a tile loop in device code is a for statement of its own",
                got="tfl.tile or tfl.grid",
                hint="count with tile.id in place of enumerate, index in place of zip",
            )
        if not all(isinstance(i, (int, SymInt)) for i in self.given):
            raise TraceError(
                "what Python goes through while the kernel is compiled is as long as sizes say",
                got=f"range{self.given!r}, whose length the kernel computes",
                hint="write a for statement, `for i in range(n):`, that gathers in a tile or a number; "
                "one that ends early: while i < n and x[i] > 0",
            )
        return range(*map(int, self.given))

    def is_short(self) -> bool:
        """Whether this is a range between sizes that has so few turns in the call that is traced that an int would have
        them written out."""
        start, stop, step = map(_expected, self.given or (None, None, None))
        return step is not None and step != 0 and is_short(start, stop, step)

    def __iter__(self) -> Iterator[int]:
        return iter(self.turns())

    def __reversed__(self) -> TileLoop | Iterator[int]:
        """The same turns from the last to the first: again a loop of the kernel, unless they are few or count by a
        size."""
        start, stop, step = self.given or (0, 0, None)
        if not isinstance(step, int) or is_short(_expected(start), _expected(stop), step):
            return reversed(self.turns())
        distance = (stop - start) if step > 0 else (start - stop)
        count = (distance + (abs(step) - 1)) // abs(step)
        return scalar_loop(start + (count - 1) * step, start - step, -step)

    def __len__(self) -> int:
        return len(self.turns())

    def __getitem__(self, index: Any) -> Any:
        return self.turns()[index]


def scalar_loop(start: Any, stop: Any, step: Any) -> TileLoop:
    """A loop of the kernel over ``range(start, stop, step)``. The bounds may be scalars of the kernel, the step a
    size, which counts up."""
    given = (start, stop, step)
    if isinstance(step, int) and step == 1:
        return TileLoop((start,), (stop,), (None,), several=False, scalar=True, given=given)
    is_down = isinstance(step, int) and step < 0
    distance, stride = (start - stop, -step) if is_down else (stop - start, step)
    count = (distance + (stride - 1)) // stride
    return TileLoop((0,), (count,), (None,), several=False, scalar=True, start=start, step=step, given=given)


def is_short(start: int | None, stop: int | None, step: int) -> bool:
    """Whether a range, as far as its ends are known, has so few turns that they are written out."""
    return start is not None and stop is not None and len(range(start, stop, step)) <= UNROLLED


def _expected(bound: Any) -> int | None:
    """The number of a size in the call that is traced, None for what the kernel or the config decides."""
    if not isinstance(bound, SymInt):
        return bound if isinstance(bound, int) else None
    hints = bound.tracer.hints
    return bound.expr.evaluate(hints) if bound.expr.symbols() <= hints.keys() else None


class Control:
    """One region's control flow over its Tracer."""

    UNDEFINED = UNDEFINED
    is_one = staticmethod(is_one)

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.outer: OuterTensors | None = None  # of the launch that is traced
        self._asked = 0
        self.has_chosen = False  # whether what Python knows has left out or repeated some of the code

    def named(self, names: tuple[str, ...], value: Any) -> Any:
        """``value``, which the author assigns to ``names``."""
        several = isinstance(value, (tuple, list)) and len(value) == len(names) > 1
        for name, part in zip(names, value if several else (value,), strict=False):
            if isinstance(part, TileValue) and (several or len(names) == 1):
                self.tracer.name_value(part.value, name)
        return value

    # ---- loops ----------------------------------------------------------------------------------

    def for_(
        self,
        it: Any,
        body: Callable[..., Any],
        targets: tuple[str, ...],
        names: tuple[str, ...],
        values: tuple[Any, ...],
        seen: Seen,
        loc: int,
    ) -> Any:
        """A loop: unrolled over a Python iterable, an op over tiles. Returns the carried values after it.

        ``seen``: what the body reads besides, names and values."""
        counted = counted_turns(it)
        if counted is not None and len(counted.numbers) > UNROLLED:
            exhaust(it)
            it, body = (
                scalar_loop(counted.numbers.start, counted.numbers.stop, counted.numbers.step),
                counted.over(body),
            )
        if isinstance(it, TileLoop):
            loop = partial(self._device_loop, it, targets)
            as_loop = partial(ChangedContainers(self.tracer, *seen).carry, body, names, values, loop)
            if not it.is_short():
                return as_loop()
            written_out = partial(self._written_out, it, body, values)
            return loop_or_turns(self.tracer, ChangedContainers(self.tracer, *seen), as_loop, written_out)
        self.has_chosen = True
        if counted is not None and len(counted.numbers) > 1:
            numbers = counted.numbers
            loop = partial(self._device_loop, scalar_loop(numbers.start, numbers.stop, numbers.step), targets)
            carried = ChangedContainers(self.tracer, *seen)
            as_loop = partial(carried.carry, counted.over(body), names, values, loop)
            values = few_turns(
                self.tracer, counted, body, values, names, ChangedContainers(self.tracer, *seen), as_loop
            )
            exhaust(it)
            return values
        return self._written_out(self._iterate(it), body, values)

    def _written_out(self, items: Iterable[Any], body: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
        self.has_chosen = True
        for item in items:
            values = body(item, *values)
        return values

    def _device_loop(
        self,
        it: TileLoop,
        targets: tuple[str, ...],
        body: Callable[..., Any],
        names: tuple[str, ...],
        values: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """A loop of the kernel, with the leaves of what it carries."""
        structures = [tree_spec(v) for v in values]
        leaves = flatten_all(structures, values, names)

        def run(item: Any, *flat: Any) -> tuple[Any, ...]:
            results = body(item, *unflatten_all(structures, flat))
            return tuple(v for _, v in flatten_all(structures, results, names))

        carried = Carried(tuple(n for n, _ in leaves), tuple(v for _, v in leaves))
        return unflatten_all(structures, self._axis(it, 0, targets, (), run, carried))

    def while_(
        self,
        test: Callable[..., Any],
        body: Callable[..., Any],
        names: tuple[str, ...],
        values: tuple[Any, ...],
        seen: Seen,
        loc: int,
    ) -> Any:
        """A loop as long as Python says so, from where the kernel has to say it on one of the kernel. Returns the
        carried values after it."""
        while not is_open(self.tracer, answer := test(*values)):
            if not self.static_bool(answer, loc):
                return values
            values = body(*values)
        loop = partial(device_while, self.tracer, lambda *after: test(*after[: len(names)]), answer)
        return ChangedContainers(self.tracer, *seen).carry(body, names, values, loop)

    def static_iter(self, it: Any, loc: int) -> Any:
        """The iterable of a comprehension, or of a loop that ``break`` can leave: only Python's own."""
        return it.turns() if isinstance(it, TileLoop) else self._iterate(it)

    def _iterate(self, it: Any) -> Iterable[Any]:
        if isinstance(it, (TileValue, SymInt, TensorRef, TileProxy)):
            raise TraceError(
                "a loop in device code runs over tfl.tile, tfl.grid or a Python iterable",
                got=repr(it),
                where=self.tracer.location(),
                hint="for i in range(n), for t in tfl.tile(n)",
            )
        return it  # type: ignore[no-any-return]

    def _axis(
        self, it: TileLoop, axis: int, targets: tuple[str, ...], proxies: tuple[Any, ...], body: Any, carried: Carried
    ) -> Any:
        """One axis of a tile loop; the last one runs the body."""
        t = self.tracer
        name = t.names.fresh(targets[axis] if len(targets) == len(it.ends) else targets[0])
        begin, end = self._bound(it.begins[axis]), self._bound(it.ends[axis])
        tile = Tile(name, self.block(name, it, axis), begin, end, False, t.is_wide(begin, end), it.lengths)
        t.tiles[name] = tile
        if it.given:
            t.ranges.add(name)

        def run(values: tuple[Any, ...]) -> tuple[Any, ...]:
            proxy = TileProxy(name, t, t.scopes[-1], Expr.of(0))
            found = (*proxies, it.item(t.tile_scalar(OpKind.TILE_BEGIN, proxy)) if it.scalar else proxy)
            if axis + 1 < len(it.ends):
                return tuple(self._axis(it, axis + 1, targets, found, body, Carried(carried.names, values)))
            return tuple(body(found if it.several else found[0], *values))

        return trace_to_fixpoint(t, tile, run, carried)

    def block(self, name: str, it: TileLoop, axis: int) -> Expr:
        """The block size of one axis: given, a grid's step, or a knob of its own."""
        t = self.tracer
        given = it.blocks[axis]
        if it.scalar and given is None:
            return Expr.of(1)
        if isinstance(given, int) and (given < 1 or isinstance(given, bool)):
            what = "a grid's step" if it.scalar else "a block size"
            raise TraceError(
                f"{what} is an int of 1 or more",
                got=repr(given),
                where=t.location(),
                hint="count down by n - 1 - i, or by range(n, 0, -1)"
                if it.scalar
                else "let the config choose it: tfl.register_block_size(high)",
            )
        if given is not None:
            return t.settled(t.extent(t.as_expr(given, "block_size")))
        end = it.ends[axis]
        hint = None
        if isinstance(end, (int, SymInt)) and isinstance(it.begins[axis], (int, SymInt)):
            extent = t.as_expr(end, "a bound") - t.as_expr(it.begins[axis], "a bound")
            if extent.symbols() <= t.hints.keys():
                hint = extent.evaluate(t.hints)
        return t.new_block(name, hint)

    def _bound(self, bound: Any) -> Expr | Value:
        t = self.tracer
        if isinstance(bound, TileProxy):
            raise TraceError(
                "a loop runs over sizes and scalars",
                got=f"the tile {bound.name}",
                where=t.location(),
                hint=f"over its indices: tfl.tile({bound.name}.begin, {bound.name}.end)",
            )
        if isinstance(bound, TensorRef) and not bound.dims:
            bound = bound[()]
        if isinstance(bound, TileValue):
            value = t.operand(bound)
            assert isinstance(value, Value)
            if value.dims or is_float(value.type.dtype):
                raise TraceError(
                    "a loop's bound is an integer scalar",
                    got=repr(bound),
                    where=t.location(),
                    hint="reduce a tile first: lengths[tile].max(); convert a float: .int(); "
                    "divide sizes by //, n // 3, -(-n // 3) in place of math.ceil(n / 3)",
                )
            return value
        return t.extent(t.as_expr(bound, "a loop's bound"))

    # ---- branches -------------------------------------------------------------------------------

    def if_(
        self,
        test: Any,
        then: Callable[..., Any],
        other: Callable[..., Any],
        names: tuple[str, ...],
        values: tuple[Any, ...],
        seen: Seen,
        loc: int,
    ) -> Any:
        """A branch: what Python can answer takes one side; a scalar of the device or a block size is recorded."""
        if not is_open(self.tracer, test):
            return then(*values) if self.static_bool(test, loc) else other(*values)
        sides = (lambda: then(*values), lambda: other(*values))
        return branch(self.tracer, test, sides, names, ChangedContainers(self.tracer, *seen))

    def ifexp(self, test: Any, then: Callable[[], Any], other: Callable[[], Any], loc: int) -> Any:
        """A conditional expression."""
        if not is_open(self.tracer, test):
            return then() if self.static_bool(test, loc) else other()
        nothing = ChangedContainers(self.tracer)
        return branch(self.tracer, test, (lambda: (then(),), lambda: (other(),)), ("the value",), nothing)[0]

    def and_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        """The meaning of ``a and b()``: a pointwise op where the kernel computes ``a``; else Python's own, which calls
        ``b`` only if ``a`` is true."""
        if not is_open(self.tracer, a):
            return b() if self.static_bool(a, loc) else a
        return both(self.tracer, "logical_and", a, b())

    def or_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        """The meaning of ``a or b()``: a pointwise op where the kernel computes ``a``; else Python's own, which calls
        ``b`` only if ``a`` is false."""
        if not is_open(self.tracer, a):
            return a if self.static_bool(a, loc) else b()
        return both(self.tracer, "logical_or", a, b())

    def not_(self, a: Any, loc: int) -> Any:
        """The meaning of ``not a``: a pointwise op where the kernel computes ``a``, else a bool."""
        return opposite(self.tracer, a) if is_open(self.tracer, a) else not self.static_bool(a, loc)

    def static_bool(self, test: Any, loc: int) -> bool:
        """A condition that Python decides while tracing; sizes are guarded, tiles refused."""
        self._asked += 1
        self.has_chosen = True
        if self._asked > _MOST_ANSWERS:
            raise TraceError(
                "a loop of Python ends while the kernel is recorded",
                got=f"{_MOST_ANSWERS} conditions",
                where=self.tracer.location(),
                hint="count by a Python int, or use range(n)",
            )
        return bool(test)

    def of_python(self, test: Any, hint: str) -> Any:
        """The condition of a ``while`` that an exit, or a name that it binds, makes one of Python. Raises TraceError
        where the kernel computes it; ``hint``: what to write then."""
        if isinstance(test, TileValue):
            raise TraceError(
                "a while with break, return or := is a loop of Python, whose turns are decided while the kernel is "
                "compiled",
                got=f"a condition of the kernel, {test!r}",
                where=self.tracer.location(),
                hint=hint,
            )
        return test

    def exit_bool(self, test: Any, hint: str, loc: int) -> bool:
        """The condition of an ``if`` that leaves a loop or a function: only Python's own. ``hint``: what to write in a
        ``while``, where the kernel computes it."""
        if isinstance(test, TileValue):
            raise TraceError(
                "break, continue and return in a loop of Python are decided while the kernel is compiled",
                got=f"a condition of the kernel, {test!r}",
                where=self.tracer.location(),
                hint=hint
                or "of scalars: while i < n and x[i] <= 0; per element: keep a flag, and choose by torch.where",
            )
        return self.static_bool(test, loc)

    # ---- assignment and calls -------------------------------------------------------------------

    def iadd(self, op: str, a: Any, b: Any, loc: int, place: Any) -> Any:
        """``a op= b``. A tile keeps its dtype and shape, and the name is bound anew. The tile before is no more what it
        was to Python: no other name has it from then on, a caller's neither. ``place``: what has the brackets, where
        ``a`` is what they name."""
        if not isinstance(place, (TensorRef, TileValue)) and self._names_a_part(a):
            raise self.tracer.placed(of_a_part(f"{op}="))
        result = _AUGMENTED[op](a, b)
        if isinstance(place, TileValue):
            return result  # which is assigned by index next, and refused
        return self._instead(result, a, f"{op}=", instead_of_growing(op)) if isinstance(a, TileValue) else result

    def changing(self, a: Any, name: str) -> Callable[..., Any]:
        """A method of ``a`` that changes it in place; of a tile, what makes another as ``a op= b`` does."""
        if not isinstance(a, TileValue):
            return getattr(a, name)  # type: ignore[no-any-return]
        if (taken := self.tracer.part_taken(a)) is not None:  # a loop carries the name, which the method binds anew
            self.tracer.through.add(taken)
            raise self.tracer.is_stored_through(a)
        if (loaded := self.tracer.loaded_from(a)) is not None:
            raise self.tracer.placed(of_a_block(name, loaded.path))
        self.tracer.use(a)  # what fills it does not read it
        hint = instead_of_in_place(name[:-1])
        return lambda *args, **kwargs: self._instead(changed(self.tracer, name, a, args, kwargs), a, f".{name}", hint)

    def item_to_change(self, owner: Any, index: Any, item: Any) -> Any:
        """``item``, ``owner[index]``, which a method is to change in place. Raises TraceError where torch has a copy of
        the elements there, which alone would be changed."""
        if not isinstance(owner, (TensorRef, TileValue)) or not isinstance(item, TileValue):
            return item
        if not is_view_index(index):
            raise TraceError(OF_A_COPY, got=f"{owner!r}[...]"[:200], where=self.tracer.location(), hint=OF_A_COPY_HINT)
        if isinstance(owner, TileValue):
            owner[index] = item  # refused by what is to be written in its place
        item.taken = item.loaded = item.base = None  # what the method gives is stored by the same index
        return item

    def put_item(self, owner: Any, index: Any, item: Any, result: Any) -> None:
        """Put what a method made of ``item`` back where it stands. What is no tile was changed itself."""
        if not isinstance(item, TileValue):
            return
        try:
            owner[index] = result
        except TypeError as error:
            raise TraceError(
                KEEPS_ITS_TILES, got=type(owner).__name__, where=self.tracer.location(), hint=KEEPS_ITS_TILES_HINT
            ) from error

    def _names_a_part(self, a: Any) -> bool:
        """Whether a name is of a part of a tensor, which has dimensions, or which the kernel stores through."""
        if isinstance(a, TensorRef):
            return a.is_part
        if not isinstance(a, TileValue) or not a.value.dims:
            return False
        loaded = self.tracer.loaded_from(a)
        return self.tracer.part_taken(a) is not None or (loaded is not None and not loaded.is_block)

    def in_place(self, a: Any, result: Any) -> Any:
        """What a variable is whose value ``a`` a method changed, which gives ``result``."""
        return result if isinstance(a, TileValue) else a

    def _instead(self, result: Any, a: TileValue, what: str, hint: str) -> Any:
        """A result for the tile that its name had, in that dtype and shape."""
        if result is not a and not is_number(a):
            self.tracer.overwrite(a)
        if not isinstance(result, TileValue):
            return result
        kept = self.tracer.cast_weakly(result, a)
        # the lanes of a tile that was added stay known, so that a loop keeps the others
        if [d.extent for d in kept.value.dims] == [d.extent for d in a.value.dims]:
            return kept
        try:
            return self.tracer.expand(kept, a.value.dims)
        except ShapeError as error:
            shapes = f"{show(a.value.dims)} {what} {show(kept.value.dims)}"
            raise ShapeError(KEPT, got=shapes, where=error.where, hint=hint) from error

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call anything."""
        return call(self, function, args, kwargs)


def _augmented() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    import operator

    yield from {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": operator.floordiv,
        "%": operator.mod,
        "**": operator.pow,
        "&": operator.and_,
        "|": operator.or_,
        "^": operator.xor,
        "<<": operator.lshift,
        ">>": operator.rshift,
        "@": operator.matmul,
    }.items()


_AUGMENTED = dict(_augmented())
