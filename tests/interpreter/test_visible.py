"""What a compiler is shown of a call computes what the call does: host code, guards, grids and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Interpreter = Callable[..., Any]


@pytest.mark.parametrize(("mode", "m", "other"), [("static", 12, 12), ("dynamic", 32, 32), ("dynamic", 32, 13)])
def test_rows(mode: str, m: int, other: int, interpreter: Interpreter) -> None:
    weight = torch.rand(24)
    x = torch.randn(other, 24)
    (out, factor), _ = interpreter(
        "runs.visible_runs:run", "norm", (torch.randn(m, 24), weight, 1e-5), (x, weight, 1e-5), mode
    )
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x, (24,), weight, 1e-5))
    torch.testing.assert_close(factor, torch.rsqrt((x * x).mean(1) + 1e-5))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_stores_views_closures_and_bounds(mode: str, interpreter: Interpreter) -> None:
    total, bias = torch.randn(40), torch.randn(20)
    before = total.clone()
    out, (after, *_) = interpreter("runs.visible_runs:run", "halves", (total, bias, 3), (total, bias, 3), mode)
    wanted = torch.cat([before[:20] + (before[20:] + bias) * 3, before[20:]])
    torch.testing.assert_close(after, wanted)
    torch.testing.assert_close(out, torch.cat([torch.zeros(20), wanted[20:] - 1]))


def test_a_call_that_no_source_takes_is_said_to_be_one(interpreter: Interpreter) -> None:
    with pytest.raises(pytest.fail.Exception, match="VariantError"):
        weight = torch.rand(24)
        interpreter(
            "runs.visible_runs:run",
            "norm",
            (torch.randn(12, 24), weight, 1.0),
            (torch.randn(13, 24), weight, 1.0),
            "static",
        )
