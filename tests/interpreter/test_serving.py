"""The serving kernels against their references: through Triton's interpreter, and as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.serving_gallery import SERVING, discovered

from tileflow.api import load_kernel
from tileflow.measure.check import check_call, reference_of
from tileflow.target import target

QUICK = ("add_rms_norm_quant", "lora_shrink", "rope_cache_write", "route", "silu_mul_quant_grouped")
EACH = [
    pytest.param(name, marks=() if name.partition(":")[2] in QUICK else pytest.mark.slow) for name in sorted(SERVING)
]


def test_every_serving_kernel_is_here() -> None:
    assert set(SERVING) == discovered()


@pytest.mark.parametrize("name", EACH)
def test_interpreted(interpreter: Callable[..., Any], name: str) -> None:
    assert interpreter("runs.interpreted:check_problems", name, SERVING[name]) == []


@pytest.mark.parametrize("name", sorted(SERVING))
def test_eager_meaning(name: str) -> None:
    """Blocks of about sixteen: several tiles, and a tail."""
    subject = load_kernel(name)
    args = subject.inputs(**SERVING[name][0])
    knobs = subject.lower(args, target("nvidia-h200")).space.knobs
    blocks = {k.name: min(k.choices, key=lambda c: abs(c - 16)) for k in knobs if k.role == "block"}
    verdict = check_call(lambda *a: subject.run_eagerly(*a, config=blocks), args, reference_of(subject, args))
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize("name", EACH)
def test_a_hopper_binary_of_the_default(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled without a GPU, and nothing found that was compiled before."""
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    subject, device = load_kernel(name), target("nvidia-h200")
    lowered = subject.lower(subject.inputs(device="meta", **SERVING[name][0]), device)
    for source in lowered.emit(lowered.default):
        assert build(source, device).resources.spills == 0
