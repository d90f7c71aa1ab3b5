"""Results do not depend on the config: each choice of each knob that the interpreter sees, at sizes with tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES = [
    pytest.param(*("examples.matmul:matmul", (150, 140, 80), 0, "nvidia-h200"), marks=pytest.mark.slow),
    ("examples.matmul:matmul_epilogue", (130, 135, 60), 0, "amd-mi300x"),
    ("examples.matmul:matmul", (70, 48, 80), 0, "nvidia-b200"),
    ("examples.softmax:softmax", (5, 300), 0, "nvidia-h200"),
    ("examples.attention:attention", (70, 32, 2, 1), 1, "nvidia-h200"),
    pytest.param(*("examples.attention:attention", (70, 32, 2, 2), 2, "amd-mi300x"), marks=pytest.mark.slow),
    pytest.param(*("examples.mixed_matmul:mixed_matmul", (70, 130, 80), 0, "nvidia-h200"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "sizes", "option", "device"), CASES)
def test_every_choice_gives_the_same(
    interpreter: Callable[..., Any], name: str, sizes: tuple[int, ...], option: int, device: str
) -> None:
    runs, wrong = interpreter("runs.knob_runs:check", name, sizes, option, device)
    assert runs > 8 and wrong == []


def test_long_rows(interpreter: Callable[..., Any]) -> None:
    """Of layer_norm's gradient, which has launches of its own for them."""
    assert (
        interpreter(
            "runs.knob_runs:check_first", "examples.layer_norm:layer_norm_bwd", "nvidia-h200", {"m": 5, "n": 8200}
        )
        == ""
    )
