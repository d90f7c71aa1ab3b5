"""Launches of clusters that go through Triton's own launcher, which knows of none: each way out is taken."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from examples.softmax import softmax
from tileflow import visible
from tileflow.build import compat
from tileflow.build.interpret import interpreter_launcher
from tileflow.errors import LaunchError
from tileflow.portable import portable_sources
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.zeros(2, 131072)


def test_a_compiler_is_not_shown_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible, "device_class", lambda device: "nvidia-h200")
    with pytest.raises(visible.Hidden, match="8 blocks of a cluster"):
        visible.visible(softmax, (X.to("meta"),), torch.device("cuda"), False)
    short = torch.empty(2, 8192, device="meta")
    assert visible.visible(softmax, (short,), torch.device("cuda"), False).sources[0].cluster == 1


def test_a_script_has_none() -> None:
    lowered = softmax.lower((X,), H200)
    assert lowered.default["ctas"] == 8
    text = softmax.repro(X)
    assert "cluster" not in text and "ctas = 1" in text


def test_the_interpreter_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = softmax.lower((X,), H200)
    monkeypatch.setattr(compat, "interpreting", lambda: True)
    with pytest.raises(LaunchError, match="Triton's interpreter has no clusters"):
        interpreter_launcher(lowered.emit(lowered.default)[0], softmax.scope, H200)


def test_variants_for_any_size_have_none() -> None:
    """A row that blocks hold is no longer than the lanes that they have."""
    for n in (4096, 131072):
        lowered = softmax.lower((torch.empty(64, n, device="meta"),), H200, mode="dynamic")
        assert {source.cluster for source in portable_sources(lowered)} == {1}
    first, *_, last = [source.cluster for source in portable_sources(lowered, lowered.default)]
    assert (first, last) == (8, 1)
