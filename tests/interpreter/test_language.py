"""Reductions, indices, loops, branches and carried values against torch, at sizes that leave tails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, close, load_module, run_eagerly

import tileflow

Interpreter = Callable[..., Any]
KERNELS = path_of("language_kernels")

HEAD = """\
import torch
import torch.nn.functional as F
import tileflow
import tileflow.language as tfl
"""


# ---- reductions ---------------------------------------------------------------------------------

FLOAT = (
    "a.sum(1)", "torch.sum(a, dim=-1, keepdim=True)", "a.mean(dim=1)", "torch.mean(a, 1, keepdim=True)", "a.prod(1)",
    "torch.amax(a, 1)", "torch.amin(a, dim=1, keepdim=True)", "a.max(1).values", "a.max(1)[1]", "a.min(dim=1)[0]",
    "a.min(1).indices", "torch.argmax(a, 1)", "torch.argmin(a, dim=1)", "(a > 1).any(1)", "(a > -9).all(1)",
    "torch.any(a > 9, 1, keepdim=True)", "a.var(1)", "a.var(1, correction=0)", "torch.var(a, 1, unbiased=False)",
    "torch.var_mean(a, 1)[0]", "torch.var_mean(a, dim=1, keepdim=True, correction=0)[1]", "a.std(1)", "a.norm(dim=1)",
    "torch.norm(a, 1, 1)", "a.norm(float('inf'), 1)", "torch.logsumexp(a, 1)", "torch.logsumexp(a, 1, keepdim=True)",
    "torch.softmax(a, 1)", "F.softmax(a, dim=-1)", "F.log_softmax(a, dim=1)", "F.normalize(a, dim=1)",
    "torch.softmax(a, 1, dtype=torch.float32)", "F.layer_norm(a, (a.size(1),))", "F.rms_norm(a, (a.size(1),))",
    "a - a.mean(1, keepdim=True)",
    "torch.exp(a).sum(1)", "(a * 0 + 1).prod(1)", "(a + 2).amax(1)", "(a - 5).amax(1)", "(a + 5).amin(1)",
    "a.sum()[None, None] * 0 + a.sum(1, keepdim=True)", "a.sum(1, dtype=torch.float32)",
)  # fmt: skip
INTEGER = (
    "a.sum(1)", "a.prod(1)", "torch.amax(a, 1)", "a.amin(1)", "(a - 20).amax(1)", "(a + 20).amin(1)", "a.any(1)",
    "a.all(1)", "torch.argmax(a, 1)", "(a > 2).sum(1)", "a.float().mean(1)", "a.max(1).values",
    "torch.any(a == 3, dim=1)", "(a * 0 + 1).all(1)",
)  # fmt: skip


def row_kernels(expressions: tuple[str, ...], x: torch.Tensor) -> tuple[str, list[torch.Tensor]]:
    """A module of one kernel an expression of a row ``a``, and what torch gives."""
    parts, wanted = [HEAD], []
    for n, expression in enumerate(expressions):
        result = eval(expression, {"torch": torch, "F": F, "a": x})
        index = "tile_m, :" if result.ndim == 2 else "tile_m"
        wanted.append(result)
        parts.append(
            f"@tileflow.kernel\ndef k{n}(x: torch.Tensor) -> torch.Tensor:\n"
            f"    out = torch.empty({tuple(result.shape)}, dtype={result.dtype})\n"
            f"    for tile_m in tfl.tile(x.size(0)):\n        a = x[tile_m, :]\n        out[{index}] = {expression}\n"
            "    return out\n"
        )
    return "\n".join(parts), wanted


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize(
    ("dtype", "n"),
    [
        ("float32", 300), ("float32", 37), ("float32", 1), ("bfloat16", 131), ("float16", 256), ("int32", 300),
        ("bool", 131),
    ],
)  # fmt: skip
def test_reductions(interpreter: Interpreter, tmp_path: Path, dtype: str, n: int, looped: bool) -> None:
    """A row in one piece, and in a loop over blocks of 128, where the kernel and its size allow it."""
    expressions = FLOAT if dtype.startswith(("float", "bfloat")) else INTEGER
    refused = {"bool": ("a - 20", "argmax")}.get(dtype, ()) + (("var", "std") if n == 1 else ())
    expressions = tuple(e for e in expressions if not any(word in e for word in refused))
    torch.manual_seed(n)
    x = torch.randn(5, n) if dtype != "int32" else torch.randint(-9, 10, (5, n))
    x = (x > 0.3 if dtype == "bool" else x).to(getattr(torch, dtype))
    text, wanted = row_kernels(expressions, x)
    path = tmp_path / "rows.py"
    path.write_text(text)
    calls = []
    for i, _ in enumerate(expressions):
        subject = getattr(load_module(str(path)), f"k{i}")
        knobs = subject.lower((x,), tileflow.target.target("nvidia-h200")).space.knobs
        config = [
            (k.name, 128 if looped else 0) for k in knobs if k.role == "reduction" and (128 in k.choices or not looped)
        ]
        if config or not looped:
            calls.append((i, Call(str(path), f"k{i}", (x,), (*config, ("block:tile_m", 2)))))
    assert not looped or n <= 128 or len(calls) >= 8
    results = interpreter("runs.interpreted:run_all", [call for _, call in calls])
    wrong = {
        expressions[i]: text for (i, _), got in zip(calls, results, strict=True) if (text := close(got, wanted[i]))
    }
    assert wrong == {}


# ---- constructs ---------------------------------------------------------------------------------

CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_construct(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_construct_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""
