"""Device code in functional form run with Python's own meaning, and compared with the function that it was made of."""

from __future__ import annotations

import contextlib
import linecache
import operator
from collections.abc import Callable
from typing import Any

from tileflow.frontend.rewrite import rewrite_function

OPERATORS = {
    "+": operator.iadd,
    "-": operator.isub,
    "*": operator.imul,
    "@": operator.imatmul,
    "//": operator.ifloordiv,
}


class Plain:
    """``__tf__`` with Python's own meaning; notes what it was asked."""

    class UNDEFINED:
        pass

    def __init__(self) -> None:
        self.carried: list[tuple[str, ...]] = []
        self.outputs: list[tuple[str, ...]] = []
        self.asked: list[str] = []
        self.called: list[Any] = []

    def named(self, names: tuple[str, ...], value: Any) -> Any:
        return value

    def for_(
        self, it: Any, body: Callable[..., Any], targets: Any, names: Any, values: Any, seen: Any, loc: int
    ) -> Any:
        self.carried.append(names)
        for t in it:
            assert len(values) == len(names)
            values = body(t, *values)
        return values

    def if_(
        self,
        test: Any,
        then: Callable[..., Any],
        other: Callable[..., Any],
        names: Any,
        values: Any,
        seen: Any,
        loc: int,
    ) -> Any:
        self.outputs.append(names)
        return (then if test else other)(*values)

    def while_(
        self, test: Callable[..., Any], body: Callable[..., Any], names: Any, values: Any, seen: Any, loc: int
    ) -> Any:  # fmt: skip
        self.carried.append(names)
        while test(*values):
            assert len(values) == len(names)
            values = body(*values)
        return values

    def static_bool(self, test: Any, loc: int) -> bool:
        self.asked.append("static_bool")
        return bool(test)

    def exit_bool(self, test: Any, hint: str, loc: int) -> bool:
        return self.static_bool(test, loc)

    def of_python(self, test: Any, hint: str) -> Any:
        return test

    def static_iter(self, it: Any, loc: int) -> Any:
        self.asked.append("static_iter")
        return it

    def ifexp(self, test: Any, a: Callable[[], Any], b: Callable[[], Any], loc: int) -> Any:
        return a() if test else b()

    def and_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        return a and b()

    def or_(self, a: Any, b: Callable[[], Any], loc: int) -> Any:
        return a or b()

    def not_(self, a: Any, loc: int) -> bool:
        return not a

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.called.append(f)
        return f(*args, **kwargs)

    def iadd(self, op: str, a: Any, b: Any, loc: int, place: Any) -> Any:
        return OPERATORS[op](a, b)


class Twice(Plain):
    """Also runs bodies and branches whose results are thrown away, as tracing to a fixpoint does."""

    def for_(
        self, it: Any, body: Callable[..., Any], targets: Any, names: Any, values: Any, seen: Any, loc: int
    ) -> Any:
        items = list(it)
        for t in items[:1]:
            self.attempt(body, t, *values)
        return super().for_(items, body, targets, names, values, seen, loc)

    def if_(
        self,
        test: Any,
        then: Callable[..., Any],
        other: Callable[..., Any],
        names: Any,
        values: Any,
        seen: Any,
        loc: int,
    ) -> Any:
        self.attempt(then, *values)
        self.attempt(other, *values)
        return super().if_(test, then, other, names, values, seen, loc)

    def while_(
        self, test: Callable[..., Any], body: Callable[..., Any], names: Any, values: Any, seen: Any, loc: int
    ) -> Any:  # fmt: skip
        if test(*values):
            self.attempt(body, *values)
        return super().while_(test, body, names, values, seen, loc)

    @staticmethod
    def attempt(function: Callable[..., Any], *args: Any) -> None:
        with contextlib.suppress(NameError):
            function(*args)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except NameError:  # UnboundLocalError is one; which of the two depends on the nesting only
        return NameError


def define(text: str, name: str, **names: Any) -> Callable[..., Any]:
    """Run ``text`` as a file of its own, so that its source can be found."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def helper(x: int, *, k: int = 1) -> int:
    return x * 3 + k


def same(fn: Callable[..., Any], *args: Any) -> Plain:
    tf = Plain()
    assert outcome(rewrite_function(fn), tf, *args) == outcome(fn, *args)
    assert outcome(rewrite_function(fn), Twice(), *args) == outcome(fn, *args)
    return tf
