"""Device code in functional form means what the original means; test_rewrite_generated.py has generated programs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tile_testing.plain_rewrites import Plain, define, helper, outcome, same

from tileflow.errors import KernelError, SplitError
from tileflow.frontend.rewrite import rewrite_function, rewrite_region
from tileflow.frontend.split import split

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
        ("del n[0]", "del"),
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
