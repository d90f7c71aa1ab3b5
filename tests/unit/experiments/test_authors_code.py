"""An author's module and ``inputs`` run in the driver's process: what they do there ends in words."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.experiments_fakes import sweep_spec
from tileflow_experiments import waiting
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec_check import check
from tileflow_experiments.tuning_task import prepare

from tileflow.errors import SpecError

ONE = sweep_spec(kernels=[{"kernel": "a:b", "problems": [{"n": 1}]}])
MODULE = """
import sys, torch, tileflow
import tileflow.language as tfl


def inputs(n, device):
    {does}
    return (torch.randn(n, 64, device=device),)


@tileflow.kernel(inputs=inputs)
def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out
"""


class Loaded:
    def __init__(self, does: Any) -> None:
        self.does = does

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        self.does()
        return ()


def test_inputs_that_end_the_process_end_in_words() -> None:
    """``sys.exit`` ended the command with the author's exit code, and without a word."""
    with pytest.raises(SpecError, match=r"inputs function must accept the problem, but got .*SystemExit: 3"):
        check(ONE, lambda _: Loaded(lambda: sys.exit(3)), ["random"])


@pytest.mark.parametrize("does", ["raise RuntimeError('bad luck')", "sys.exit(3)", "n.nothing"])
def test_a_resumed_sweep_says_which_inputs_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Only a new sweep asked for them in words; a resume and an export ended in the author's traceback."""
    name = f"failing_{abs(hash(does))}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(does=does))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SpecError, match="the kernel's inputs function must accept the problem") as caught:
        prepare(StudyKey(f"{name}:scaled", (("n", 64),), "nvidia-h200"), "static")
    assert f"{name}:scaled n=64 on nvidia-h200" in str(caught.value)


@pytest.mark.parametrize("slow, what", [("import", "the import of a:b"), ("inputs", "kernels[0].problems[0]")])
def test_what_does_not_come_back_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, slow: str, what: str
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.05)

    def sleep() -> None:
        time.sleep(0.3)

    def load(ref: str) -> Loaded:
        if slow == "import":
            sleep()
        return Loaded(sleep if slow == "inputs" else lambda: None)

    with caplog.at_level(logging.WARNING):
        check(ONE, load, ["random"])
    assert [what in record.getMessage() for record in caplog.records] == [True]


def test_what_comes_back_in_time_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    check(ONE, lambda _: Loaded(lambda: None), ["random"])
    assert not caplog.records
