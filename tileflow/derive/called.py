"""Calls of torch functions that have a derivative of their own, noted while a kernel is traced to be differentiated.

A function that the table makes of several ops is often smooth where they are not: ``sinh`` is an odd function of
``|x|``, and ``atan`` divides by what may be 0 in a branch that is not taken. Its gradient is then a row of
:mod:`functions`, of what it was called with, and its ops are not looked at. ``detach`` is noted too, and so are
Python's functions that ask a tensor for its number: to a forward pass that is nothing, and here it is an op of its own.

The rows of the frontend's tables note their calls while a :func:`noting` is open, and are what they were elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any

from ..frontend.language_registry import PYTHON
from ..frontend.syntax_registry import SYNTAX
from ..frontend.torch_registry import METHODS, TABLE
from ..frontend.trace import Tracer
from ..frontend.values import SymInt, TensorRef, TileValue
from ..ir.attributes import PointwiseAttrs, ReduceAttrs
from ..ir.graph import Op
from ..ir.types import Value, is_float
from .functions import FUNCTIONS, INSIDE, REDUCTIONS, ROWS

STOPS = "detach"


@dataclass(frozen=True, slots=True)
class Called:
    """A call. ``function``: a row of :mod:`functions`, or ``detach``. ``given``: its arguments by their names, values
    and numbers where they are such. ``results``: all that it returned."""

    function: str
    given: Mapping[str, Any]
    results: tuple[Value, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether no gradient flows through it."""
        return self.function == STOPS


Calls = dict[Value, Called]
_CALLS: ContextVar[Calls | None] = ContextVar("calls", default=None)


@contextmanager
def noting() -> Iterator[Calls]:
    """Note the calls of what is traced inside, by the result that has the gradient."""
    calls: Calls = {}
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)


Note = Callable[[Tracer, Callable[..., Any], str, Calls, Mapping[str, Any]], Any]


def _lane_by_lane(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    """A function whose row says the gradient of each operand, all of which get the dimensions of the result."""
    given = _aligned(t, given)
    found = handler(t, **given)
    _note(calls, name, given, found)
    return found


def _of_rows(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    """A reduction whose row reads its other results, the places of its extrema."""
    found = handler(t, **given)
    if isinstance(found, tuple):
        _note(calls, name, given, found)
    return found


def _inside(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    """A function of which some ops have other gradients than elsewhere."""
    begin = t.builder.mark()[0]
    found = handler(t, **given)
    for op in t.builder.ops[begin:]:
        known = calls.get(op.outputs[0]) if op.outputs else None
        row = INSIDE[name].get(known.function if known else _fn(op))
        if row is not None:
            own = known.given if known else {f"x{i}": operand for i, operand in enumerate(op.inputs)}
            calls[op.outputs[0]] = Called(row, own, op.outputs)
    return found


def _stopped(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    return _detached(t, calls, handler(t, **given))


def _detached(t: Tracer, calls: Calls, found: Any) -> Any:
    """A value of its own, equal to what is detached."""
    if isinstance(found, TileValue) and found.is_floating_point():
        found = t.pointwise("positive", found)
        calls[found.value] = Called(STOPS, {}, (found.value,))
    return found


def _note(calls: Calls, name: str, given: Mapping[str, Any], found: Any) -> None:
    """Note a call, unless it returned what it was given."""
    results = tuple(v.value for v in (found if isinstance(found, tuple) else (found,)) if isinstance(v, TileValue))
    own = {n: v.value if isinstance(v, TileValue) else v for n, v in given.items()}
    if results and not any(results[0] == v for v in own.values() if isinstance(v, Value)):
        calls[results[0]] = Called(name, own, results)


def _aligned(t: Tracer, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with each operand as a tile of as many dimensions as the widest."""
    read = {
        name: v if isinstance(v, TileValue) else t.wrap(t.operand(v))  # type: ignore[arg-type]
        for name, v in given.items()
        if isinstance(v, TileValue | SymInt) or (isinstance(v, TensorRef) and v.is_whole)
    }
    operands = t.opposite([t.operand(v) for v in read.values()])
    rank = max((len(o.dims) for o in operands if isinstance(o, Value)), default=0)
    wide = (t.align(o, rank) for o in operands)
    tiles = {name: t.wrap(o) for name, o in zip(read, wide, strict=True) if isinstance(o, Value)}
    return {**given, **tiles}


def _fn(op: Op) -> str:
    """The row of an op's function: a lane's, or a reduction's."""
    return op.attrs.fn if isinstance(op.attrs, PointwiseAttrs | ReduceAttrs) else ""


# ---- the frontend's tables -------------------------------------------------------------------------------------------


def _install(name: str, note: Note) -> None:
    """Let the rows of a torch function note their calls."""
    handlers = {h for h, known in TABLE.values() if known == name} | ({METHODS[name]} if name in METHODS else set())
    wrapped = {handler: _noted(handler, name, note) for handler in handlers}
    for function, (handler, known) in TABLE.items():
        if known == name:
            TABLE[function] = (wrapped[handler], name)
    if name in METHODS:
        METHODS[name] = wrapped[METHODS[name]]


def _noted(handler: Callable[..., Any], name: str, note: Note) -> Callable[..., Any]:
    own = signature(handler)

    @wraps(handler)
    def noted(t: Tracer, *args: Any, **kwargs: Any) -> Any:
        calls = _CALLS.get()
        if calls is None or t.is_plain:
            return handler(t, *args, **kwargs)
        bound = own.bind(t, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for parameter in own.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(parameter.name)
        del given[next(iter(own.parameters))]
        return note(t, handler, name, calls, given)

    return noted


def _note_numbers() -> None:
    """Let Python's own functions that give a number note that no gradient flows through it: ``float``, and those of
    ``math``, ask a tensor for its number."""
    for function, handler in PYTHON.items():
        if function in (float, int) or getattr(function, "__module__", None) == "math":
            PYTHON[function] = _number(handler)


def _number(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def noted(t: Tracer, *args: Any) -> Any:
        calls = _CALLS.get()
        found = handler(t, *args)
        return found if calls is None or t.is_plain else _detached(t, calls, found)

    return noted


def _note_powers() -> None:
    """Let ``a ** b`` note its call, where roots and reciprocals are made of it."""
    binary = SYNTAX["binary"]

    @wraps(binary)
    def noted(t: Tracer, fn: str, a: Any, b: Any) -> Any:
        calls = _CALLS.get()
        found = binary(t, fn, a, b)
        if calls is not None and fn == "pow":
            _note_power(calls, a, b, found)
        return found

    SYNTAX["binary"] = noted


def _cross_entropy(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    """The difference that is weighted and reduced has torch's gradient, which is finite at 0 and 1."""
    begin = t.builder.mark()[0]
    found = handler(t, **given)
    own = {n: t.operand(given[n]) for n in ("x", "target")}
    for op in reversed(t.builder.ops[begin:]):
        if _fn(op) == "sub" and is_float(op.output.type.dtype):
            if all(isinstance(v, Value) and v.dims == op.output.dims for v in own.values()):
                calls[op.output] = Called("cross_entropy", own, op.outputs)
            break
    return found


def _power(t: Tracer, handler: Callable[..., Any], name: str, calls: Calls, given: Mapping[str, Any]) -> Any:
    found = handler(t, **given)
    _note_power(calls, given["a"], given["b"], found)
    return found


def _note_power(calls: Calls, a: Any, b: Any, found: Any) -> None:
    is_number = isinstance(b, int | float) and not isinstance(b, bool)
    if is_number and (b < 0 or b != b // 1) and b not in (0.5, -0.5) and isinstance(a, TileValue):
        _note(calls, "pow", {"a": a, "b": b}, found)


for _name in (FUNCTIONS.keys() | ROWS.keys()) - {*REDUCTIONS, "pow"}:
    if _name in METHODS:
        _install(_name, _lane_by_lane)
for _name in REDUCTIONS:
    _install(_name, _of_rows)
for _name in INSIDE:
    _install(_name, _inside)
_install("binary_cross_entropy", _cross_entropy)
_install("pow", _power)
_install(STOPS, _stopped)
_note_powers()
_note_numbers()
