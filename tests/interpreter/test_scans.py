"""Scans, reductions by a function and NaN in extrema, through Triton's interpreter and eagerly, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, close, load_module, run_eagerly

Interpreter = Callable[..., Any]
KERNELS = path_of("scan_kernels")
CASES = load_module(KERNELS).CASES
MODES = ("static", "dynamic")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_scan(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_scan_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


# ---- functions ----------------------------------------------------------------------------------

HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n\n\n"

# associative functions on ints, as text over two operands; the last two do not commute, so that only scans take them
SINGLE = {
    "torch.maximum(a, b)": True,
    "torch.where(a < b, a, b)": True,
    "a + b": True,
    "(a | b) + (a & b) - (a ^ b) + (a ^ b)": True,
    "a ^ b": True,
    "torch.where(b == 0, a, b)": False,
    "torch.where(a == 0, b, a)": False,
}
PAIRS = {
    "(torch.where(a[0] >= b[0], a[0], b[0]), torch.maximum(a[1], b[1]))": True,
    "(a[0] + b[0], a[1] + b[1])": True,
    "(torch.where(b[1] != 0, b[0], a[0] + b[0]), a[1] | b[1])": False,
    "(a[0] * b[0], a[1] * b[0] + b[1])": False,
}
functions = st.one_of(
    st.tuples(st.sampled_from(list(SINGLE.items())), st.just(False)),
    st.tuples(st.sampled_from(list(PAIRS.items())), st.just(True)),
)
examples = st.lists(
    st.tuples(
        functions,
        st.sampled_from(["scan", "reversed", "reduce", "kept"]),
        st.integers(1, 20),
        st.integers(0, 1),
        st.integers(0, 1 << 20),
    ),
    min_size=14,
    max_size=14,
)


def call_text(text: str, form: str, operand: str, dim: int) -> str:
    tail = {"scan": "", "reversed": ", reverse=True", "reduce": "", "kept": ", keep_dims=True"}[form]
    function = "associative_scan" if form in ("scan", "reversed") else "reduce"
    return f"tfl.{function}(lambda a, b: {text}, {operand}, {dim}{tail})"


def kernel_text(number: int, text: str, is_pair: bool, form: str, dim: int) -> str:
    """A kernel over tiles of the dimension that is not combined."""
    place = ("tile, :", ":, tile")[1 - dim]
    target = "tile" if form == "reduce" else ("tile, 0" if dim else "0, tile") if form == "kept" else place
    operand = f"(x[{place}], y[{place}])" if is_pair else f"x[{place}]"
    found = call_text(text, form, operand, dim) + ("[1]" if is_pair else "")
    found = f"{found}.squeeze({dim})" if form == "kept" else found
    return (
        f"@tileflow.kernel\ndef k{number}(x, y, out):\n    for tile in tfl.tile(x.size({1 - dim})):\n"
        f"        out[{target}] = {found}\n    return out\n"
    )


def folded(text: str, is_pair: bool, form: str, dim: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One element after another, in order."""
    fn = eval(f"lambda a, b: {text}", {"torch": torch})
    items = list(zip(x.unbind(dim), y.unbind(dim), strict=True)) if is_pair else list(x.unbind(dim))
    items = items[::-1] if form == "reversed" else items
    totals = items[:1]
    for item in items[1:]:
        totals.append(fn(totals[-1], item))
    column = [t[1] for t in totals] if is_pair else totals
    if form == "reduce":
        return column[-1]
    return torch.stack(column[::-1] if form == "reversed" else column[-1:] if form == "kept" else column, dim)


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(examples=examples)
def test_functions(interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory, examples: Any) -> None:
    """Any associative function, over any length: tails must not reach the results."""
    path = tmp_path_factory.mktemp("functions") / "kernels.py"
    parts, calls, wanted = [HEAD], [], []
    for number, (((text, commutes), is_pair), form, length, dim, seed) in enumerate(examples):
        form = form if commutes or form in ("scan", "reversed") else "scan"
        generator = torch.Generator().manual_seed(seed)
        x, y = torch.randint(-2, 3, (2, *((3, length) if dim else (length, 3))), generator=generator)
        parts.append(kernel_text(number, text, is_pair, form, dim))
        wanted.append(folded(text, is_pair, form, dim, x, y))
        calls.append(Call(str(path), f"k{number}", (x, y, torch.zeros_like(wanted[-1]))))
    path.write_text("\n\n".join(parts))
    module = load_module(str(path))
    wrong = []
    for call, got, right in zip(calls, interpreter("runs.interpreted:run_all", calls), wanted, strict=True):
        here = getattr(module, call.name).run_eagerly(*call.args)
        wrong += [(parts[int(call.name[1:]) + 1], text) for text in (close(got, right), close(here, right)) if text]
    assert wrong == []
