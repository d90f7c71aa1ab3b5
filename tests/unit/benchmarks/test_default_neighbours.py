"""The neighbours of a default: valid, different, one step away."""

from __future__ import annotations

import pytest
from tileflow_benchmarks.tuning.default_neighbours import CASES, DEFAULT, neighbours

from tileflow.target import target

H200 = target("nvidia-h200")


@pytest.mark.parametrize("name", ["depth_normals", "clip_by_unit", "viterbi", "quantise_groups", "ising_sweep"])
def test_neighbours_differ_in_one_launch_by_few_knobs(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    lowered = case.lowered(H200)
    found = neighbours(lowered)
    assert next(iter(found)) == DEFAULT and found.pop(DEFAULT) == lowered.default
    assert len(found) >= 3 and len(set(found.values())) == len(found)
    for label, config in found.items():
        assert lowered.space.is_valid(config)
        changed = {k for k, v in config.to_dict().items() if lowered.default.to_dict().get(k) != v}
        asked = {part.partition("=")[0] for part in label.split(", ")}
        assert 1 <= len(asked) <= 2 and asked <= changed, label


def test_warps_and_blocks_are_steps() -> None:
    (case,) = (case for case in CASES if case.name == "depth_normals")
    lowered = case.lowered(H200)
    labels = neighbours(lowered).keys()
    warps, block = lowered.default["num_warps"], lowered.default["block:tx"]
    assert isinstance(warps, int) and isinstance(block, int)
    assert {f"num_warps={2 * warps}", f"block:tx={2 * block}", f"block:tx={2 * block}, num_warps={2 * warps}"} <= labels
