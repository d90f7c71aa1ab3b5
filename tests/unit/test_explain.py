"""``kernel.explain`` and ``tileflow show``: what a person asks first comes first."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import scan_kernels
from tileflow_experiments.cli import app
from typer.testing import CliRunner

from examples.attention import attention
from examples.matmul import matmul
from examples.softmax import softmax
from tileflow.errors import SpecError
from tileflow.target import target


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_the_roof_that_bounds_a_call_is_said_first() -> None:
    x = torch.empty(4096, 8192, dtype=torch.bfloat16, device="meta")
    device = target("nvidia-h200")
    memory_us = 2 * x.numel() * 2 / (device.dram_gbps * 1e3)
    third = lines_of(softmax.explain(x))[2]
    assert third.startswith(f"{memory_us:.1f} us at the memory roof (134.2 MB")
    product = matmul.inputs(m=4096, n=4096, k=4096, dtype="bfloat16", device="meta")
    compute_us = 2 * 4096**3 / (device.tflops("bfloat16") * 1e6)
    third = lines_of(matmul.explain(*product))[2]
    assert third.startswith(f"{compute_us:.1f} us at the compute roof (137.4 GFLOP of bfloat16")


def test_knobs_before_ops_and_guards_last() -> None:
    text = softmax.explain(torch.empty(4096, 8192, dtype=torch.bfloat16, device="meta"))
    assert text.index("block:tile_m  ") < text.index("load x[tile_m, 0:8192]") < text.index("(8192 == x.shape.1)")
    assert text.rstrip().splitlines()[-1].strip() == "(1 == x.stride.1)"
    default = softmax.lower((torch.empty(4096, 8192, dtype=torch.bfloat16),), target("nvidia-h200")).default
    (warps,) = (line for line in lines_of(text) if line.startswith("num_warps"))
    assert f"[{default['num_warps']}]" in warps and warps.count("[") == 1


def test_what_a_launch_copies() -> None:
    x, y, even = (
        torch.empty(*s, dtype=torch.bfloat16, device="meta") for s in ((1001, 777), (777, 1024), (1024, 1024))
    )
    said = [line for line in lines_of(matmul.explain(x, y)) if "copies" in line]
    assert len(said) == 1 and said[0].startswith("Launch 0 copies x first where it is warp-specialised")
    assert "copies" not in matmul.explain(even, even)


def test_ops_stand_under_the_authors_lines() -> None:
    args = attention.inputs(batch=1, heads=2, m=256, d=64, dtype="bfloat16", device="meta", causal=True)
    lines = lines_of(attention.explain(*args))
    dot = next(n for n, line in enumerate(lines) if " = dot(" in line)
    above = next(line for line in lines[dot::-1] if line.startswith("#"))
    assert "scores = tfl.dot(query" in above
    carried = next(line for line in lines if line.startswith("carries "))
    assert carried.count(" = ") == 3


@pytest.mark.parametrize(
    ("name", "problem", "shown"),
    [
        ("examples.jagged:jagged_mean", "m=48 n=80 batch=4", "for "),
        ("examples.welford:welford", "m=64 n=4096", "carries"),
        ("examples.split_k:split_k_matmul", "m=64 n=64 k=512", "atomic"),
    ],
)
def test_a_kernel_by_name(name: str, problem: str, shown: str) -> None:
    result = CliRunner().invoke(app, ["show", name, "--problem", problem])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "us at the memory roof" in result.output and "@triton.jit" in result.output
    assert shown in result.output.partition("Launch 0")[2]


def test_functions_of_scans_are_listed() -> None:
    text = scan_kernels.recurrence.explain(*(torch.empty(4, 64, device="meta") for _ in range(2)))
    assert "takes %" in text


def test_a_config_of_ones_own() -> None:
    problem = ["show", "examples.softmax:softmax", "--problem", "m=64 n=256 dtype=float32", "--source"]
    shown = CliRunner().invoke(app, [*problem, "--config", "num_warps=8"])
    assert shown.exit_code == 0 and "num_warps=8" in shown.output and "roof" not in shown.output
    wrong = CliRunner().invoke(app, [*problem, "--config", "num_wraps=8"])
    assert wrong.exit_code != 0 and "num_wraps" in str(wrong.exception)


@pytest.mark.parametrize(("problem", "says"), [("rows=64", "rows"), ("m=sixty n=256", "must accept the problem")])
def test_a_problem_that_the_inputs_do_not_take_is_refused_by_name(problem: str, says: str) -> None:
    result = CliRunner().invoke(app, ["show", "examples.softmax:softmax", "--problem", problem])
    assert isinstance(result.exception, SpecError) and says in str(result.exception)
    assert "at --problem" in str(result.exception)
