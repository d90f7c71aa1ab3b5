"""Configs about a default: valid, different, near; carried as binaries; what their rows come to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileflow_benchmarks.tuning.about_defaults import DEFAULT, _load, about, build_all, label, summary
from tileflow_benchmarks.tuning.default_neighbours import CASES

from tileflow.target import target

H100 = target("nvidia-h100-sxm")
NUMBERS = {case.name: n for n, case in enumerate(CASES)}


@pytest.mark.parametrize("name", ["depth_normals", "viterbi", "quantise_groups"])
def test_configs_are_valid_and_near(name: str) -> None:
    lowered = CASES[NUMBERS[name]].lowered(H100)
    found = about(lowered.space, lowered.default, 30, seed=0)
    assert next(iter(found)) == DEFAULT and len(found) > 20 and len(set(found.values())) == len(found)
    assert (
        found == about(lowered.space, lowered.default, 30, seed=0) != about(lowered.space, lowered.default, 30, seed=1)
    )
    for config in list(found.values())[1:]:
        assert lowered.space.is_valid(config)
        moved = [knob for knob in lowered.space.knobs if config[knob.name] != lowered.default[knob.name]]
        assert moved and label(lowered.default, config) in found
        for knob in moved:
            if knob.role == "block":
                apart = knob.choices.index(config[knob.name]) - knob.choices.index(lowered.default[knob.name])
                assert abs(apart) <= 2, knob.name


def test_builds_are_carried_as_binaries(tmp_path: Path) -> None:
    build_all(tmp_path, H100, [NUMBERS["depth_normals"]], 2)
    found = _load(tmp_path, "depth_normals")
    assert next(iter(found)) == DEFAULT and len(found) == 3
    for _, binaries in found.values():
        assert [binary.format for binary in binaries] == ["cubin"] and binaries[0].target == H100.name


def test_a_kernel_is_a_line() -> None:
    rows = [
        {"case": "k", "config": DEFAULT, "status": "ok", "us": 10.0, "of_default": 1.0},
        {"case": "k", "config": "num_warps=8", "status": "ok", "us": 5.0, "of_default": 0.5},
        {"case": "k", "config": "num_warps=2", "status": "ok", "us": 50.0, "is_timed_once": True, "wrong": "0: all"},
    ]
    assert summary(rows) == "k: 10.0 us of 2: 0.5 num_warps=8; 1.0 default WRONG ['num_warps=2: 0: all']"
