"""Stores in halves: what is looked at to see whether that can be."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

subtile = import_module("tileflow.passes.subtile")  # the package has a function of that name
STEPS = 12


@tileflow.kernel
def spikes(x, w):
    """A product in each written-out turn, whose result later turns use twice."""
    steps, b, k = x.shape
    out = torch.empty(b, w.size(0), device=x.device)
    for tb, tn in tfl.tile([b, w.size(0)]):
        v = tfl.zeros([tb, tn])
        for step in range(steps):
            drive = tfl.zeros([tb, tn])
            for tk in tfl.tile(k):
                drive = tfl.dot(x[step, tb, tk], w[tn, tk].T, acc=drive)
            v = 0.5 * v + drive
            v = torch.where(v > 1, v - 1, v)
        out[tb, tn] = v
    return out


def test_a_value_is_looked_at_once_however_many_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn doubled the walk and more: 16 of them had not ended after eight minutes."""
    asked: list[Any] = []
    is_plain = subtile._is_plain

    def counted(op: Any, columns: Any, value: Any) -> bool:
        asked.append(op)
        assert len(asked) < 100 * STEPS
        return is_plain(op, columns, value)

    monkeypatch.setattr(subtile, "_is_plain", counted)
    args = (torch.empty(STEPS, 64, 64, device="meta"), torch.empty(64, 64, device="meta"))
    lowered = spikes.lower(args, target("nvidia-h200"))
    assert lowered.space.is_valid(lowered.default) and len(asked) >= 4 * STEPS
