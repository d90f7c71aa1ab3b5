"""The host/device split: what runs on the host, what a launch is given, and what is refused, with the place."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest

from tileflow.errors import Location, SplitError
from tileflow.frontend.split import Capture, split


def tile(*sizes: Any, **options: Any) -> Any:
    raise AssertionError("host code never runs it")


def grid(*sizes: Any) -> Any:
    raise AssertionError("host code never runs it")


def register(low: int, high: int = 64) -> int:
    raise AssertionError("host code never runs it")


for marked in (tile, grid):
    marked.__tileflow_loop__ = True  # type: ignore[attr-defined]
register.__tileflow_host__ = True  # type: ignore[attr-defined]
tfl = types.ModuleType("tfl")
tfl.tile, tfl.register = tile, register  # type: ignore[attr-defined]
package = types.ModuleType("package")
package.language = tfl  # type: ignore[attr-defined]
SCALE = 3


class Recorder:
    """A host context that notes its launches and answers every question with its lower bound."""

    def __init__(self) -> None:
        self.launches: list[tuple[int, dict[str, Any], tuple[Any, ...], dict[str, Any]]] = []
        self.sites: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = []

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.launches.append((region, dict(frame), args, kwargs))

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.sites.append((site, function, args, kwargs))
        return args[0]


def captures(fn: Any) -> list[dict[str, str]]:
    return [{c.name: c.kind for c in r.captures} for r in split(fn).regions]


# --------------------------------------------------------------------------------------------------- what runs


def test_launches_replace_outermost_loops_wherever_they_stand() -> None:
    def kernel(x: list[int], flag: bool = True, *, n: int = 2) -> Any:
        if flag:
            for t in tfl.tile([n, n + 1], block_size=4):
                x[t] = 1
        for i in range(n):
            with contextlib.nullcontext(i):
                for t in package.language.tile(i, *[7]):
                    for s in tile(t):
                        x[s] = i
        while n > 1:
            n -= 1
            for t, _ in grid(n, n):
                x[t] = n
        return x, n

    host, context, x = split(kernel), Recorder(), [0]
    assert host.run(context, x) == (x, 1)
    assert [(r, a, k) for r, _, a, k in context.launches] == [
        (0, ([2, 3],), {"block_size": 4}),
        (1, (0, 7), {}),
        (1, (1, 7), {}),
        (2, (1, 1), {}),
    ]
    assert [r.function for r in host.regions] == [tile, tile, grid]
    assert [r.targets for r in host.regions] == [("t",), ("t",), ("t", "_")]
    assert host.run(Recorder(), x, False, n=0)[1] == 0
    assert host.signature == inspect.signature(kernel)


def test_captures_are_what_the_region_needs_ordered_and_of_a_kind() -> None:
    eps = 1e-6

    def kernel(x: list[float], unused: int, flag: bool) -> None:
        n = len(x)
        unread = n
        if flag:
            bias = 2.0
        for t in tile(n):
            acc = x[t] * SCALE
            if flag:
                acc = acc + bias
            combine = lambda v: v + eps  # noqa: E731
            x[t] = combine(abs(acc))
        x[0] = unread + unused

    (region,) = split(kernel).regions
    assert region.captures == (
        Capture("SCALE", "global"),
        Capture("bias", "local"),
        Capture("eps", "cell"),
        Capture("flag", "local"),
        Capture("x", "local"),
    )
    context = Recorder()
    split(kernel).run(context, [1.0], 0, False)
    frame = context.launches[0][1]
    assert "bias" not in frame
    assert (frame["eps"], frame["flag"], frame["x"]) == (1e-6, False, [1.0])


def test_closure_cells_are_the_original_ones() -> None:
    only_in_region, everywhere = 1, 10

    def kernel(n: int) -> int:
        for t in tile(n):
            print(t, only_in_region, everywhere)
        return everywhere

    host = split(kernel)
    only_in_region, everywhere = 2, 20
    context = Recorder()
    assert host.run(context, 5) == 20
    assert context.launches[0][1]["only_in_region"] == 2


def test_recursion_through_a_cell_that_is_not_filled_yet() -> None:
    def outer() -> Any:
        def kernel(n: int) -> Any:
            for t in tile(n):
                print(t, later)
            return n

        host = split(kernel)
        later = 3
        context = Recorder()
        host.run(context, later)
        return context.launches[0][1]["later"]

    assert outer() == 3


def test_host_calls_are_named_after_their_variables() -> None:
    def kernel(n: int) -> Any:
        block_n = tfl.register(n)
        block_m, other = register(n + 1, high=9), n
        block_n = register(n + 2)
        if (block_k := register(n + 3)) > 0:
            other = register(4) + register(5)
        for t in tile(n, block_size=block_n):
            print(t)
        return block_n, block_m, block_k, other

    context = Recorder()
    assert split(kernel).run(context, 1) == (3, 2, 4, 9)
    assert [s[0] for s in context.sites] == ["block_n", "block_m", "block_n#1", "block_k", "register", "register#1"]
    assert context.sites[1][1:] == (register, (2,), {"high": 9})


def test_a_name_shadowed_by_a_local_is_no_tile_loop() -> None:
    def kernel(tile: Any) -> list[int]:
        return [t * t for t in tile(3)]

    host = split(kernel)
    assert host.regions == ()
    assert host.run(Recorder(), range) == [0, 1, 4]


def test_a_name_bound_only_in_a_region_stays_local_to_the_function() -> None:
    def kernel(n: int) -> Any:
        before = SCALE  # type: ignore[used-before-def]  # noqa: F823
        for t in tile(n):
            SCALE = t
            print(SCALE)
        return before

    with pytest.raises(UnboundLocalError):
        split(kernel).run(Recorder(), 3)


def test_parameters_of_every_kind_and_their_defaults() -> None:
    def kernel(a: int, /, b: int = 2, *rest: int, c: int = 4, **more: int) -> Any:
        for t in tile(a):
            print(t)
        return a, b, rest, c, more

    run = split(kernel).run
    assert run(Recorder(), 1, 5, 6, c=7, d=8) == (1, 5, (6,), 7, {"d": 8})
    assert run(Recorder(), 1) == (1, 2, (), 4, {})


def test_tracebacks_and_breakpoints_have_the_users_lines() -> None:
    def kernel(n: int) -> float:
        for t in tile(
            n,
            n // n,
        ):
            print(t)

        return 1 / n

    first = kernel.__code__.co_firstlineno
    run = split(kernel).run
    seen: list[int] = []

    def tracer(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is run.__code__:  # type: ignore[attr-defined]
            seen.append(frame.f_lineno - first)
            return tracer
        return None

    previous = sys.gettrace()
    sys.settrace(tracer)
    try:
        run(Recorder(), 1)
    finally:
        sys.settrace(previous)
    assert {1, 2, 3, 7} <= set(seen) and 5 not in seen
    with pytest.raises(ZeroDivisionError) as caught:
        run(Recorder(), 0)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (__file__, first + 3, "kernel")


def test_reused_names_are_fine_where_nothing_is_carried() -> None:
    def kernel(n: int) -> int:
        for t in tile(n):
            acc = t
            print(acc)
        for t in tile(n):
            acc = t + 1
            print(acc)
        acc = 5
        return acc + n

    assert split(kernel).run(Recorder(), 1) == 6
    assert captures(kernel) == [{}, {}]


# ------------------------------------------------------------------------------------------------- what is refused


def refusal(body: str) -> tuple[str, str, int]:
    """The constraint, the source from the caret on, and the line (the signature is line 1) of a refused kernel."""
    lines = ["def f(x, n):\n", *(f"    {line}\n" for line in body.splitlines())]
    linecache.cache["<refused>"] = (1, None, lines, "<refused>")
    names: dict[str, Any] = {"tile": tile, "tfl": tfl, "register": register}
    exec(compile("".join(lines), "<refused>", "exec"), names)
    with pytest.raises(SplitError) as caught:
        split(names["f"])
    where = caught.value.where
    assert isinstance(where, Location)
    assert "^" in str(caught.value)
    return caught.value.constraint, where.text[where.column :], where.line


@pytest.mark.parametrize(
    ("body", "constraint", "at", "line"),
    [
        ("for t in tile(n):\n    acc = x[t]\nreturn acc", "host code cannot read acc", "acc", 4),
        ("acc = 0\nfor t in tile(n):\n    acc = t\nprint(1, acc)", "cannot read acc", "acc)", 5),
        ("for t in tile(n):\n    x[t] = 1\nreturn lambda: t", "host code cannot read t", "t", 4),
        ("for i in n:\n    if i: print(a)\n    for t in tile(n):\n        a = 1", "cannot read a", "a)", 3),
        ("for t in tile(n):\n    a = 1\nfor t in tile(n):\n    x[t] = a", "host code cannot read a", "a", 5),
        ("acc = 0\nfor t in tile(n):\n    acc = acc + t", "read and assigned by the iterations", "acc + t", 4),
        ("for t in tile(n):\n    return t", "return", "return t", 3),
        ("for t in tile(n):\n    yield t", "yield", "yield t", 3),
        ("for t in tile(n):\n    with x: pass", "with", "with x: pass", 3),
        ("for t in tile(n):\n    try: x\n    finally: pass", "try", "try: x", 3),
        ("for t in tile(n):\n    if t: break", "break out of a tile loop", "break", 3),
        ("for t in tile(n):\n    for s in tfl.tile(t):\n        break", "break out of a tile loop", "break", 4),
        ("for t in tile(n):\n    del x[t]", "del", "del x[t]", 3),
        ("for t in tile(n):\n    del x", "read and assigned by the iterations", "del x", 3),
        ("for t in tile(n):\n    global q\n    q = 1", "outer names", "global q", 3),
        ("for t in tile(n):\n    def g():\n        nonlocal n\n        n = 1", "outer names", "nonlocal n", 4),
        ("for t in tile(n):\n    y = [s for s in tile(t)]", "a comprehension", "tile(t)]", 3),
        ("return [t for t in tile(n)]", "a for statement of the kernel itself", "tile(n)]", 2),
        ("def g():\n    for t in tile(n): pass\ng()", "a for statement of the kernel itself", "tile(n): pass", 3),
        ("for i, t in enumerate(tile(n)): pass", "a for statement of the kernel itself", "tile(n)): pass", 2),
        ("for t in tile(n):\n    pass\nelse:\n    x = 1", "else", "x = 1", 5),
        ("for x[0] in tile(n):\n    pass", "plain names", "x[0] in tile(n):", 2),
    ],
)
def test_refusals_name_the_place(body: str, constraint: str, at: str, line: int) -> None:
    got = refusal(body)
    assert constraint in got[0]
    assert got[1:] == (at, line)


def test_a_loop_of_a_nested_function_has_a_hint_of_its_own() -> None:
    def kernel(n: int) -> None:
        def inner() -> None:
            for t in tile(n):
                print(t)

        for t in tile(n):
            inner()
            print(t)

    with pytest.raises(SplitError, match="inside the launch, or outside of the kernel"):
        split(kernel)


def test_a_break_of_a_python_loop_in_a_region_is_fine() -> None:
    def kernel(n: int) -> None:
        for t in tile(n):
            for i in range(4):
                if i == n:
                    break
                print(t)

    assert captures(kernel) == [{"n": "local"}]
