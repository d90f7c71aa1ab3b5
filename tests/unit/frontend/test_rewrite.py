"""Device code in functional form means what the original means: fixed cases, and generated programs."""

from __future__ import annotations

import contextlib
import linecache
import operator
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileflow.errors import KernelError, SplitError
from tileflow.frontend.rewrite import rewrite_function, rewrite_region
from tileflow.frontend.split import split

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

    def for_(self, it: Any, body: Callable[..., Any], targets: Any, names: Any, values: Any, loc: int) -> Any:
        self.carried.append(names)
        for t in it:
            assert len(values) == len(names)
            values = body(t, *values)
        return values

    def if_(
        self, test: Any, then: Callable[..., Any], other: Callable[..., Any], names: Any, values: Any, loc: int
    ) -> Any:
        self.outputs.append(names)
        return (then if test else other)(*values)

    def while_(
        self, test: Callable[..., Any], body: Callable[..., Any], names: Any, values: Any, loc: int
    ) -> Any:  # fmt: skip
        self.carried.append(names)
        while test(*values):
            assert len(values) == len(names)
            values = body(*values)
        return values

    def static_bool(self, test: Any, loc: int) -> bool:
        self.asked.append("static_bool")
        return bool(test)

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

    def iadd(self, op: str, a: Any, b: Any, loc: int) -> Any:
        return OPERATORS[op](a, b)


class Twice(Plain):
    """Also runs bodies and branches whose results are thrown away, as tracing to a fixpoint does."""

    def for_(self, it: Any, body: Callable[..., Any], targets: Any, names: Any, values: Any, loc: int) -> Any:
        items = list(it)
        for t in items[:1]:
            self.attempt(body, t, *values)
        return super().for_(items, body, targets, names, values, loc)

    def if_(
        self, test: Any, then: Callable[..., Any], other: Callable[..., Any], names: Any, values: Any, loc: int
    ) -> Any:
        self.attempt(then, *values)
        self.attempt(other, *values)
        return super().if_(test, then, other, names, values, loc)

    def while_(
        self, test: Callable[..., Any], body: Callable[..., Any], names: Any, values: Any, loc: int
    ) -> Any:  # fmt: skip
        if test(*values):
            self.attempt(body, *values)
        return super().while_(test, body, names, values, loc)

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


# ---------------------------------------------------------------------------------------------- fixed cases


def test_temporary_reused_with_another_shape_is_not_carried() -> None:
    def f(n: int) -> tuple[Any, Any]:
        t = "before"
        first = t
        acc = 0
        for i in range(n):
            t = i * 2
            acc += t
        t = [acc]
        return first, t

    assert same(f, 4).carried == [("acc",)]


def test_temporary_of_a_branch_is_not_an_output() -> None:
    def f(n: int) -> int:
        t = n
        out = 0
        if n > 2:
            t = t + 1
            out = t
        return out

    assert same(f, 5).outputs == [("out",)]
    same(f, 0)


def test_carried_when_live_at_the_head_only() -> None:
    def f(n: int) -> list[int]:
        seen: list[int] = []
        previous = 0
        for i in range(n):
            seen = [*seen, previous]
            previous = i
        return seen

    assert same(f, 4).carried == [("previous", "seen")]


def test_a_name_first_bound_in_a_loop_that_does_not_run() -> None:
    def f(n: int) -> int:
        for i in range(n):
            last = i
        return last

    same(f, 3)
    assert outcome(rewrite_function(f), Plain(), 0) is NameError


def test_continue_becomes_a_branch() -> None:
    def f(n: int) -> int:
        acc = 0
        for i in range(n):
            if i == 1:
                continue
            if i > 2:
                if i == 4:
                    continue
                acc += 10
            acc += i
        return acc

    tf = same(f, 7)
    assert tf.asked == []
    assert tf.carried == [("acc",)]


def test_break_keeps_the_loop_and_its_ifs_in_python() -> None:
    def f(n: int) -> int:
        acc = 0
        for i in range(n):
            if i == 3:
                break
            if acc > 100:
                acc = 0
            acc += i
        else:
            acc = -1
        return acc

    tf = same(f, 6)
    assert tf.asked == ["static_iter"] + ["static_bool"] * 4
    assert tf.outputs == [("acc",)] * 3
    same(f, 2)


def test_early_returns() -> None:
    def f(kind: str, x: int) -> Any:  # noqa: RET503
        if kind == "a":
            return x
        elif kind == "b":
            x = x + 1
        else:
            if x > 2:
                return -x
        for i in range(3):
            x += i
        if x:
            return x, kind

    for kind in "abc":
        for x in (-4, 0, 5):
            assert same(f, kind, x).asked == []


def test_return_from_a_loop_keeps_it_in_python() -> None:
    def f(n: int) -> int:
        for i in range(n):
            if i * i > 10:
                return i
        if n == 2:
            return 7
        return -1

    for n in (0, 2, 3, 9):
        assert "static_iter" in same(f, n).asked


def test_conditional_expressions_are_lazy_and_chains_evaluate_once() -> None:
    def f(log: list[Any], a: int, b: int) -> Any:
        def note(x: Any) -> Any:
            log.append(x)
            return x

        one = note(a) if a < b else note(-a)
        two = note(a) and note(b) and note(1)
        three = note(0) or note(b) or note(2)
        four = note(1) < note(a) <= note(b) != note(7)
        return one, two, three, four, not a

    for a, b in ((0, 0), (2, 5), (5, 2), (3, 7)):
        logs: tuple[list[Any], list[Any]] = ([], [])
        assert f(logs[0], a, b) == rewrite_function(f)(Plain(), logs[1], a, b)
        assert logs[0] == logs[1]


def test_augmented_assignment_evaluates_its_target_once() -> None:
    class Box:
        n = 1

    def f(log: list[str]) -> Any:
        def note(x: Any, name: str) -> Any:
            log.append(name)
            return x

        data, box = [1, 2, 3, 4], Box()
        note(data, "data")[note(1, "index")] += note(5, "value")
        note(data, "data")[note(1, "low") : 3] += [9]
        note(box, "box").n *= 4
        return data, box.n

    logs: tuple[list[str], list[str]] = ([], [])
    assert f(logs[0]) == rewrite_function(f)(Plain(), logs[1])
    assert logs[0] == logs[1]


def test_closures_keep_their_cells_and_defaults_their_values() -> None:
    scale = 2

    def f(x: int, /, y: int = 5, *rest: int, z: int = 7, **more: int) -> Any:
        return x * scale, y, rest, z, more

    rewritten = rewrite_function(f)
    assert rewritten(Plain(), 1, 2, 3, z=4, w=5) == f(1, 2, 3, z=4, w=5)
    scale = 11
    assert rewritten(Plain(), 3) == (33, 5, (), 7, {})


def test_lambdas_are_rewritten_and_nested_ones_left_for_later() -> None:
    compose = lambda f, x: (lambda y: f(y) if y else -1)(x)  # noqa: E731
    tf = same(compose, lambda v: v + 1, 3)
    assert [c.__name__ for c in tf.called] == ["<lambda>"]
    inner = tf.called[0]
    assert rewrite_function(inner)(Plain(), 4) == inner(4)


def test_library_calls_are_not_wrapped() -> None:
    torch = pytest.importorskip("torch")
    f = define("def f(x, g):\n    return torch.relu(x) + g(x).sum()\n", "<library>", torch=torch)
    tf = Plain()
    rewrite_function(f)(tf, torch.ones(2), torch.neg)
    assert [c.__name__ for c in tf.called] == ["neg", "sum"]


def test_walrus_and_tuple_targets() -> None:
    def f(n: int) -> Any:
        total = 0
        for i, (a, b) in enumerate([(1, 2), (3, 4)]):
            if (s := a + b + i) > n:
                s += 1
                total += s
        return total

    for n in (0, 4, 20):
        same(f, n)


def test_comprehensions_stay_and_their_conditions_are_static() -> None:
    def f(n: int) -> Any:
        return [x if x else 9 for x in range(n) if x != 2], {k: k and 1 for k in range(n)}

    assert set(same(f, 4).asked) == {"static_bool", "static_iter"}


def user_line() -> int:
    """The line of the frame that called this through ``__tf__.call``, or at once."""
    frame = sys._getframe(1)
    while frame.f_code is Plain.call.__code__:
        assert frame.f_back is not None
        frame = frame.f_back
    assert frame.f_code.co_filename == __file__
    return frame.f_lineno


def test_frames_and_locations_have_the_users_lines() -> None:
    def f(n: int) -> list[int]:
        lines: list[int] = []
        for _ in range(1):
            if n:
                lines = [*lines, user_line()]
            lines = [
                *lines,
                user_line() if n else 0,
            ]
        return lines

    first = f.__code__.co_firstlineno
    rewritten = rewrite_function(f)
    assert rewritten(Plain(), 1) == f(1) == [first + 4, first + 7]
    assert rewritten.__code__.co_filename == __file__
    lines = {where.line for where in rewritten.__tileflow_locations__}  # type: ignore[attr-defined]
    assert lines == {first + 2, first + 3, first + 7}


# ------------------------------------------------------------------------------------------------- regions


def tile(*sizes: int) -> Any:
    raise AssertionError("never called")


tile.__tileflow_loop__ = True  # type: ignore[attr-defined]


class Serial:
    """A host context that runs regions on the spot over ``range``."""

    def __init__(self, regions: list[Any], captures: list[tuple[str, ...]], outside: dict[str, Any]) -> None:
        self.regions, self.captures, self.outside = regions, captures, outside

    def launch(self, region: int, frame: dict[str, Any], n: int) -> None:
        names = {**self.outside, **frame}
        values = [names.get(name, Plain.UNDEFINED) for name in self.captures[region]]
        for i in range(n):
            self.regions[region](Plain(), i, *values)


def run_split(fn: Any, *args: Any) -> Any:
    host = split(fn)
    captures = [tuple(c.name for c in r.captures) for r in host.regions]
    regions = [rewrite_region(r, fn) for r in host.regions]
    return host.run(Serial(regions, captures, fn.__globals__), *args)


def test_a_kernel_split_and_rewritten_computes_the_same() -> None:
    bias = 3

    def kernel(n: int, flag: bool) -> list[int]:
        out = [0] * n
        if flag:
            extra = 100
        for _ in range(2):
            for t in tile(n):
                if t == 1:
                    continue
                acc = bias
                for k in range(t):
                    acc += helper(k)
                if flag:
                    acc += extra
                out[t] += acc
        for t in tile(n):
            out[t] = -out[t]
        return out

    def plain(n: int, flag: bool) -> list[int]:
        return [-2 * (bias + sum(helper(k) for k in range(t)) + 100 * flag) if t != 1 else 0 for t in range(n)]

    for flag in (True, False):
        assert run_split(kernel, 5, flag) == plain(5, flag)


def test_a_region_takes_targets_then_captures_by_name() -> None:
    def kernel(b: int, a: int) -> None:
        for i, _, (_, j) in tile(b):
            print(i, j, a, b)

    (region,) = split(kernel).regions
    rewritten = rewrite_region(region, kernel)
    names = rewritten.__code__.co_varnames[: rewritten.__code__.co_argcount]
    assert (names[0], names[1], names[4], names[5:]) == ("__tf__", "i", "j", ("a", "b"))
    assert rewritten.__code__.co_firstlineno == kernel.__code__.co_firstlineno + 1


# -------------------------------------------------------------------------------------------------- errors


def error_at(fn: Any, kind: type[KernelError] = SplitError) -> tuple[str, str, int]:
    with pytest.raises(kind) as caught:
        rewrite_function(fn)
    where = caught.value.where
    assert where is not None and not isinstance(where, str)
    return caught.value.constraint, where.text[where.column :], where.line - fn.__code__.co_firstlineno


def test_loop_variable_read_after_its_loop() -> None:
    def f(n: int) -> int:
        acc = 0
        for i in range(n):
            acc += i
        return acc + i

    constraint, text, line = error_at(f)
    assert "i has no value after its loop" in constraint
    assert (text, line) == ("i", 4)


def test_assignment_inside_a_lazy_expression() -> None:
    def f(a: int) -> int:
        b = 0
        return a and (b := a) + b

    assert error_at(f)[1:] == ("b := a) + b", 2)


def test_closure_over_what_a_loop_changes() -> None:
    def f(n: int) -> int:
        acc = 0
        get = lambda: acc  # noqa: E731
        for i in range(n):
            acc = acc + i
            n = get()
        return n

    constraint, text, line = error_at(f)
    assert "get reads acc" in constraint
    assert (text, line) == ("for i in range(n):", 3)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("with n: pass", "with"),
        ("try: n\n    finally: pass", "try"),
        ("del n", "del"),
        ("yield n", "yield"),
        ("global q", "outer names"),
        ("class A: pass", "class"),
        ("for t in tile(n):\n        break", "break out of a tile loop"),
        ("x = [t for t in tile(n)]", "comprehension"),
        ("match n:\n        case 1: pass", "match"),
    ],
)
def test_what_device_code_cannot_hold(statement: str, what: str) -> None:
    f = define(f"def f(n):\n    {statement}\n", f"<refused {what}>", tile=tile)
    constraint, _, _ = error_at(f)
    assert what in constraint


# ------------------------------------------------------------------------------------- generated programs

NAMES = ("a", "b", "c", "d")


class Programs:
    """Draws the text of a function of ``a`` and ``b``; ``c`` and ``d`` may be read before they are bound."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.fresh = 0

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def name(self, scope: tuple[str, ...]) -> str:
        return str(self.pick(*NAMES, *scope))

    def expression(self, scope: tuple[str, ...], depth: int = 2) -> str:
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            return self.name(scope) if self.draw(st.booleans()) else str(self.draw(st.integers(-2, 5)))
        e = [self.expression(scope, depth - 1) for _ in range(3)]
        return str(
            self.pick(
                f"({e[0]} + {e[1]})",
                f"({e[0]} * {e[1]} % 7)",
                f"({e[0]} - {e[1]})",
                f"({e[0]} if {e[1]} else {e[2]})",
                f"({e[0]} and {e[1]})",
                f"({e[0]} or {e[1]} or {e[2]})",
                f"(not {e[0]})",
                f"({e[0]} < {e[1]} <= {e[2]})",
                f"h({e[0]}, k={e[1]})",
                f"(lambda q: q + {e[0]})({e[1]})",
                f"sum([q + {e[0]} for q in range(3) if q != {e[1]}])",
            )
        )

    def block(self, scope: tuple[str, ...], depth: int, loop: bool, indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, 4))):
            lines += self.statement(scope, depth, loop, indent)
        return lines

    def statement(self, scope: tuple[str, ...], depth: int, loop: bool, indent: str) -> list[str]:
        e = self.expression(scope)
        deeper = indent + "    "
        kinds = ["assign", "assign", "augment", "log", "pair"]
        kinds += ["if", "if", "for", "for", "while", "return"] if depth else []
        kinds += ["break", "continue"] if loop else []
        match self.pick(*kinds):
            case "assign":
                return [f"{indent}{self.pick(*NAMES)} = {e}"]
            case "pair":
                return [f"{indent}{self.pick(*NAMES)}, {self.pick(*NAMES)} = {e}, {self.expression(scope)}"]
            case "augment":
                return [f"{indent}{self.pick(*NAMES)} {self.pick('+=', '-=')} {e}"]
            case "log":
                return [f"{indent}log({e})"]
            case "if":
                lines = [f"{indent}if {e}:", *self.block(scope, depth - 1, loop, deeper)]
                if self.draw(st.booleans()):
                    lines += [f"{indent}else:", *self.block(scope, depth - 1, loop, deeper)]
                return lines
            case "for":
                self.fresh += 1
                i = f"i{self.fresh}"
                head = self.pick(f"for {i} in range(3):", f"for {i}, {self.pick('c', 'j')} in enumerate(range(2, 5)):")
                lines = [indent + head, *self.block((*scope, i), depth - 1, True, deeper)]
                if self.draw(st.integers(0, 4)) == 0:
                    lines += [f"{indent}else:", *self.block(scope, depth - 1, loop, deeper)]
                return lines
            case "while":
                self.fresh += 1
                w = f"w{self.fresh}"
                start = [f"{indent}{w} = 0", f"{indent}while {w} < 3 and ({e}):", f"{deeper}{w} += 1"]
                return [*start, *self.block((*scope, w), depth - 1, True, deeper)]
            case "return":
                return [f"{indent}if {e}:", f"{deeper}return {self.expression(scope)}"]
            case exit:
                if self.draw(st.booleans()):
                    return [f"{indent}if {e}:", f"{deeper}{exit}"]
                return [f"{indent}{exit}"]


@st.composite
def programs(draw: Any) -> str:
    body = Programs(draw).block((), 3, False, "    ")
    return "\n".join(["def f(a, b, log):", *body, "    return a, b, c, d"]) + "\n"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.tuples(st.integers(-2, 4), st.integers(-2, 4)))
def test_generated_programs_keep_their_meaning(text: str, args: tuple[int, int]) -> None:
    f = define(text, "<generated>", h=helper)
    try:
        rewritten = rewrite_function(f)
    except SplitError as error:
        assert "has no value after its loop" in error.constraint
        return
    logs: tuple[list[Any], list[Any]] = ([], [])
    assert outcome(rewritten, Plain(), *args, logs[1].append) == outcome(f, *args, logs[0].append)
    assert logs[0] == logs[1]
    assert outcome(rewritten, Twice(), *args, logs[1].append) == outcome(f, *args, logs[0].append)
