"""Calls that are recorded or tuned with what a kernel does not take: a recording changes no program, and a tuning says
which option or argument is wrong before it begins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tileflow_experiments import tune

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.errors import CallError, SpecError, TileflowError
from tileflow.runtime.miss_file import read_misses
from tileflow.runtime.recorded import values_of


@tileflow.kernel
def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * by[tile, None]
    return out


X, BY = torch.randn(8, 4), torch.arange(8)

REFUSED: dict[str, Callable[[], Any]] = {
    "sparse": lambda: scaled(X.to_sparse(), BY),
    "rows that are sparse": lambda: scaled(X, torch.eye(8, dtype=torch.int64).to_sparse_csr()),
    "quantised": lambda: scaled(torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), BY),
    "nested": lambda: scaled(X, torch.nested.nested_tensor([BY, BY[:3]])),
    "a batch of vmap": lambda: torch.func.vmap(lambda x: scaled(x, BY))(torch.randn(2, 8, 4)),
    "indices of vmap": lambda: torch.func.vmap(lambda by: scaled(X, by))(torch.arange(16).reshape(2, 8)),
    "a tangent": lambda: torch.func.jvp(lambda x: scaled(x, BY), (X,), (X,)),
}


def outcome(call: Callable[[], Any]) -> tuple[type, str]:
    with tileflow.interpret(), pytest.raises(TileflowError) as caught:
        call()
    return type(caught.value), str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_recording_leaves_a_refusal_as_it_is(tmp_path: Path, kind: str) -> None:
    """It asked for metadata that such a tensor lacks, and torch's error about its storage hid the call's own."""
    alone = outcome(REFUSED[kind])
    with tileflow.record(tmp_path / "calls.jsonl") as recorder:
        assert outcome(REFUSED[kind]) == alone
    assert recorder.calls == 0


def test_a_recording_ends_no_call_that_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The values of ``functionalize``'s tensors cannot be read; that was raised out of a call that needs none."""
    wrapped = torch.func.functionalize(lambda x: scaled(x, torch.arange(8)))
    with tileflow.interpret():
        expected = wrapped(X)
        with caplog.at_level(logging.WARNING), tileflow.record(tmp_path / "calls.jsonl") as recorder:
            torch.testing.assert_close(wrapped(X), expected)
            wrapped(X)
            scaled(X, BY)
            assert recorder.calls == 1
    (found,) = read_misses(tmp_path / "calls.jsonl")
    assert found.calls == 1 and caplog.text.count(f"calls of {scaled.name} are not recorded: RuntimeError") == 1


def test_nothing_of_a_tensor_is_read_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading waits for the device, by which CUDA ends the capture with an error."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    assert values_of({"by": BY}) == {}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert values_of({"by": BY}) == {"by": {"data": list(range(8))}}


def test_what_is_expanded_is_looked_at_once() -> None:
    """Of 2**40 elements that are one, a mask of comparisons was made; and positions of a batch did not ascend."""
    positions = torch.arange(300).expand(1000, 300)
    found = values_of({"one": torch.tensor([3]).expand(1 << 40), "positions": positions, "mask": (positions > 149)})
    assert found["one"] == {"low": 3, "high": 3, "ascending": True}
    assert found["positions"] == {"low": 0, "high": 299, "ascending": True}
    assert found["mask"] == {"share": 0.5}


@pytest.mark.parametrize("place", ["", b"", 3])
def test_an_empty_place_is_none(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files were written to whichever folder the program was in."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="the place of recorded calls must be a path"), tileflow.record(place):
        pass
    with pytest.raises(SpecError, match="the place of misses must be a path"):
        runtime.record_misses(place)
    assert not list(tmp_path.iterdir())


# ---- tuning ---------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"device_class": "nvidia-h200", "budget_s": 1.0}


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: Any, **options: Any) -> str:
        raise AssertionError("the search began")

    monkeypatch.setattr(tune, "sweep", SimpleNamespace(run=run))


@pytest.mark.parametrize(
    "option, value, said",
    [
        ("budget_s", 0, "budget_s must be a number of seconds above 0"),
        ("budget_s", float("nan"), "budget_s must be a number of seconds above 0"),
        ("budget_s", "5", "budget_s must be a number of seconds above 0"),
        ("seed", -1, "seed must be a whole number from 0"),
        ("seed", 1.5, "seed must be a whole number from 0"),
        ("device_class", "h200", "device_class must be a device class"),
        ("device_class", "", "device_class must be a device class"),
        ("strategy", ["default"], "a strategy is one that tileflow knows"),
        ("by_value", "no", "by_value must be True or False"),
        ("out", "", "out must be a folder's path"),
        ("out", 3, "out must be a folder's path"),
        ("tables", "/a\0b", "tables must be a folder's path"),
        ("tables", __file__, "files must be written to a folder"),
    ],
)
def test_an_option_is_refused_by_its_own_name(option: str, value: Any, said: str) -> None:
    """``by_value="no"`` was True, ``out=""`` the current folder, and ``tables`` that is a file took no row after the
    search; other values were fields of a spec that nobody wrote, or an error of Python's."""
    with pytest.raises(SpecError) as caught:
        tileflow.tune([(scaled, (X, BY))], **(OPTIONS | {option: value}))
    assert str(caught.value).startswith(said) and f"at {option}\n" in str(caught.value) + "\n"


@pytest.mark.parametrize(
    "calls",
    [None, scaled, "abc", (scaled, (X, BY)), [scaled], [(scaled, X)], [(scaled, (X,), {}, 3)], [(scaled, (X,), [1])]],
    ids=["none", "kernel", "text", "one call", "no arguments", "a tensor", "four", "a list of keywords"],
)
def test_what_is_no_list_of_calls_is_refused(calls: Any) -> None:
    with pytest.raises(SpecError, match="a call to tune is") as caught:
        tileflow.tune(calls, **OPTIONS)
    assert "tileflow.tune([(kernel, (x, w)), ...])" in str(caught.value)


@pytest.mark.parametrize("x, said", [(X.to_sparse(), "are strided"), (X.to("meta"), "have memory")])
def test_a_tensor_that_no_kernel_takes_is_refused_before_the_search(x: torch.Tensor, said: str) -> None:
    with pytest.raises(CallError, match=said):
        scaled.tune(x, BY, **OPTIONS)
