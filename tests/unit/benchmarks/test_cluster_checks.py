"""The checks of rows over clusters, on a CPU: faults of the exchange are found, and deadlocks are named."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import torch

from tileflow.runtime.packing import parameter_formats
from tileflow.target import target

BLOCKS, LENGTH = 4, 2048


@pytest.fixture
def measured() -> Any:
    pytest.importorskip("triton")
    from tileflow_benchmarks.clusters import measured

    return measured


def _parts(measured: Any) -> torch.Tensor:
    x = measured.adversarial(24, LENGTH, BLOCKS, torch.bfloat16, "cpu").float()
    return x.view(24, BLOCKS, -1)


def _softmax(parts: torch.Tensor, peak: torch.Tensor, of_sum: int) -> torch.Tensor:
    weight = torch.exp(parts - peak)
    return (weight / weight[:, :of_sum].sum((1, 2), keepdim=True)).flatten(1)


def test_right_rows_pass(measured: Any) -> None:
    parts = _parts(measured)
    got = _softmax(parts, parts.amax((1, 2), keepdim=True), BLOCKS)
    assert measured.fault(got.bfloat16(), torch.softmax(parts.flatten(1), 1), 2**-7) == ""


@pytest.mark.parametrize("planted", ["own maximum", "no maximum", "a sum without the last part", "no exchange"])
def test_a_fault_of_the_exchange_is_found(measured: Any, planted: str) -> None:
    parts = _parts(measured)
    peak = parts.amax((1, 2), keepdim=True)
    got = {
        "own maximum": lambda: _softmax(parts, parts.amax(2, keepdim=True).clamp_min(-1e30), BLOCKS),
        "no maximum": lambda: _softmax(parts, torch.zeros_like(peak), BLOCKS),
        "a sum without the last part": lambda: _softmax(parts, peak, BLOCKS - 1),
        "no exchange": lambda: torch.softmax(parts, 2).flatten(1),
    }[planted]()
    assert "rows, the first at" in measured.fault(got, torch.softmax(parts.flatten(1), 1), 2**-7)


def test_a_case_that_hangs_is_named_whatever_it_said_before(
    measured: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hang(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout, output=b'{"status": "ok"}\n{"torn')

    monkeypatch.setattr(subprocess, "run", hang)
    found = measured._check_apart(measured.Case(0, 4, 16))
    assert "8192x131072 bf16, 4 blocks of 16 warps" in capsys.readouterr().out
    assert found["reason"] == f"timeout after {measured.CHECK_LIMIT_S} s"
    assert found["status"] == "timeout"


def test_a_launch_has_its_cluster(measured: Any) -> None:
    binary = measured.built(measured.Case(1, 8, 8), target("nvidia-h200"))
    assert binary.abi.cluster == (8, 1, 1)
    assert binary.abi.threads == 256
    assert parameter_formats(binary.abi) == "QQiNN"
    assert binary.resources.spills == 0
