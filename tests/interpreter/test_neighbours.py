"""Loads and stores of elements that lie side by side, which are one access each: the values are as of single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, load_module

Interpreter = Callable[..., Any]
KERNELS = path_of("neighbour_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_lanes_that_follow_memory(interpreter: Interpreter, mode: str) -> None:
    """By the text that Triton up to 3.6 gets."""
    names = [(name, mode) for name in CASES]
    assert not any(interpreter("runs.interpreted:run_cases_turned", str(KERNELS), names))


def test_a_row_in_blocks_loads_pairs(interpreter: Interpreter) -> None:
    case = CASES["reduced"]
    got = interpreter("runs.interpreted:run", Call(str(KERNELS), "reduced", case.args, (("reduce:sum#0", 64),)))
    torch.testing.assert_close(got, case.wanted(*case.args))


HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n\n\n"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
steps = st.lists(
    st.tuples(st.sampled_from(["load", "store", "again"]), st.integers(0, 7), st.sampled_from([0, 0, 1, 2])),
    min_size=4,
    max_size=14,
)
examples = st.lists(
    st.tuples(steps, st.booleans(), st.sampled_from(DTYPES), st.integers(1, 40), st.sampled_from([4, 6, 8])),
    min_size=8,
    max_size=8,
)


def kernel_text(number: int, body: list[tuple[str, int, int]], width: int) -> str:
    """Loads of ``x`` and ``out``, and stores of what was loaded before the last, in any order, some under masks."""
    lines = [f"@tileflow.kernel\ndef k{number}(x, out):\n    for t in tfl.tile(x.size(0), block_size=16):"]
    lines += ["masks = (None, t.index % 3 != 0, t.index % 5 != 1)", "last = old = x[t, 0]"]
    for kind, element, mask in body:
        place = f"[t, {element % width}]"
        masked = f", extra_mask=masks[{mask}]" if mask else ""
        if kind == "store":
            lines.append(f"tfl.store(out, {place}, old{masked})")
        else:
            source = "x" if kind == "load" else "out"
            lines.append(f"last, old = tfl.load({source}, {place}{masked}), last")
    return "\n        ".join([*lines, "out[t, 0] = last"]) + "\n    return out\n"


def wanted(x: torch.Tensor, out: torch.Tensor, body: list[tuple[str, int, int]]) -> torch.Tensor:
    index, (n, width), out = torch.arange(x.size(0)), x.shape, out.clone()
    masks = (torch.ones(n, dtype=torch.bool), index % 3 != 0, index % 5 != 1)
    last = old = x[:, 0]
    for kind, element, mask in body:
        at = element % width
        if kind == "store":
            out[:, at] = torch.where(masks[mask], old, out[:, at])
        else:
            loaded = (x if kind == "load" else out)[:, at]
            last, old = torch.where(masks[mask], loaded, torch.zeros_like(loaded)), last
    out[:, 0] = last
    return out


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=examples)
def test_any_order_of_accesses(
    interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("neighbours") / "kernels.py"
    texts, calls, right = list[str](), [], []
    for number, (drawn_body, loads_again, dtype, length, width) in enumerate(drawn):
        body = [(kind if loads_again or kind == "store" else "load", *rest) for kind, *rest in drawn_body]
        texts.append(kernel_text(number, body, width))
        x = torch.randint(0, 100, (length, width)).to(dtype)
        out = torch.randint(0, 100, (length, width)).to(dtype)
        calls.append(Call(str(path), f"k{number}", (x, out)))
        right.append(wanted(x, out, body))
    path.write_text(HEAD + "\n\n".join(texts))
    for got, value, example in zip(interpreter("runs.interpreted:run_all", calls), right, drawn, strict=True):
        assert isinstance(got, torch.Tensor), (got, example)
        assert torch.equal(got, value), example
