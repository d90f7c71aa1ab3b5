"""The runtime's host context: a tile call's bounds, variants in order, knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileflow.config import Config
from tileflow.errors import CallError, ConfigError, LaunchError
from tileflow.expr import TRUE, Expr
from tileflow.runtime import RuntimeContext, bind, bounds

ints = st.integers(-5, 1 << 40)


@given(st.lists(st.tuples(ints, ints), min_size=1, max_size=3))
def test_every_form_of_a_tile_call_gives_the_same_bounds(axes: list[tuple[int, int]]) -> None:
    begins, ends = [b for b, _ in axes], [e for _, e in axes]
    expected = tuple(begins), tuple(ends)
    assert bounds(begins, ends) == bounds(tuple(begins), tuple(ends), block_size=[1] * len(axes)) == expected
    assert bounds(ends) == bounds(ends, block_size=64) == ((0,) * len(axes), expected[1])
    if len(axes) == 1:
        assert bounds(begins[0], ends[0]) == bounds(begins[0], end=ends[0]) == expected
        assert bounds(ends[0], block_size=None) == ((0,), expected[1])


@pytest.mark.parametrize("args", [(1.5,), ("8",), ([1], 2), (1, [2]), ([1, 2], [3])])
def test_bounds_that_are_none_are_refused(args: tuple[Any, ...]) -> None:
    with pytest.raises(CallError):
        bounds(*args)


class Recorder:
    """A Launcher that accepts or declines."""

    def __init__(self, accepts: bool, guards: Expr = TRUE) -> None:
        self.accepts = accepts
        self.guards = guards
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        self.calls.append((dict(frame), begins, ends))
        return self.accepts


def register_tunable(name: str) -> None:
    """Stands for the language's function of that name."""


def register_block_size(low: int, high: int) -> None:
    """Likewise."""


def test_a_bound_host_function_launches_the_first_variant_that_accepts() -> None:
    declining, accepting, spare = Recorder(False), Recorder(True), Recorder(True)

    def host(context: Any, x: int, *, scale: int = 1) -> int:
        block = context.host_call("b", register_tunable, "block")
        context.launch(1, {"x": x}, [x, 2], block_size=[block, None])
        return int(block * scale)

    call = bind(host, Config.of({"tunable:block": 32}), {1: [declining, accepting, spare]})
    assert call(7, scale=2) == 64
    assert declining.calls == accepting.calls == [({"x": 7}, (0, 0), (7, 2))]
    assert spare.calls == []


def test_a_region_that_nothing_accepts_names_itself_and_its_guards() -> None:
    guards = Expr.sym("x.shape.0").eq(8)
    context = RuntimeContext(Config.of({}), {0: [Recorder(False, guards)]})
    with pytest.raises(LaunchError, match=r"variant of launch 0 .*8 == x\.shape\.0"):
        context.launch(0, {}, 4)
    with pytest.raises(LaunchError, match="no variant at all"):
        context.launch(1, {}, 4)
    # a config may leave out sizes, as an empty loop that is flattened: no mistake of the arguments
    with pytest.raises(LaunchError, match=r"under its config: lower the kernel for these, or call it without a config"):
        context.launch(0, {}, 4)


def test_a_knob_that_the_config_lacks_is_named() -> None:
    with pytest.raises(ConfigError, match="must choose tunable:unroll, which host code asks for"):
        RuntimeContext(Config.of({"a": 1}), {}).host_call("unroll_var", register_tunable, "unroll")
    with pytest.raises(ConfigError, match="must choose block:b, which host code asks for"):
        RuntimeContext(Config.of({"tunable:b": 1}), {}).host_call("b", register_block_size, 1, 64)
