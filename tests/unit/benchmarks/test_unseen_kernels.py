"""Kernels of others: the best of several runs' searches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tileflow_benchmarks.tuning.unseen_kernels import pooled, sampled, summary, wrong


def row(kernel: str, *ratios: float, **more: Any) -> dict[str, Any]:
    known = {"ratio": min(ratios)} if ratios else {"status": "no config works"}
    return {"kernel": kernel, "status": "ok", "of_seeds": list(ratios)} | known | more


RUNS = ([row("dtw", 0.9), row("nms", 0.8)], [row("nms", 0.7), row("dtw", 0.95)], [row("dtw"), row("viterbi", 1.0)])


def test_each_kernel_has_the_best_of_all_its_searches() -> None:
    found = {one["kernel"]: one for one in pooled(RUNS)}
    assert {name: one["ratio"] for name, one in found.items()} == {"dtw": 0.9, "nms": 0.7, "viterbi": 1.0}
    assert found["dtw"]["of_seeds"] == [0.9, 0.95] and found["nms"]["of_seeds"] == [0.8, 0.7]


def test_the_pool_of_folders_is_reported(tmp_path: Path) -> None:
    for n, rows in enumerate(RUNS):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "strangers.json").write_text(json.dumps({"rows": rows}))
    command = [sys.executable, "-m", "tileflow_benchmarks.tuning.unseen_kernels", "--out", str(tmp_path), "--pool"]
    done = subprocess.run(
        [*command, *(str(tmp_path / str(n)) for n in range(3))], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(summary(pooled(RUNS))))
    assert json.loads((tmp_path / "strangers.json").read_text())["summary"]["worst"] == ["nms", pytest.approx(0.7)]


def test_a_sample_keeps_its_kernels_where_others_come() -> None:
    names = [f"kernel{n}" for n in range(200)]
    before, after = sampled(names, 40), sampled([*names, "another"], 40)
    assert len(before) == len(after) == 40 and before == sorted(before) and len(set(before) & set(after)) >= 39
    assert sampled(names, 8) != names[:8] and set(sampled(names, 8)) < set(before)
    assert sampled(names, 0) == sorted(names)


def test_a_reference_may_have_more_digits_and_no_fewer() -> None:
    """Authors write references in float64 for kernels in float32."""
    x = torch.rand(100)
    assert wrong(x, x.double()) == "" and wrong(x.half(), x) == ""
    assert "differ" in wrong(x, x.double() + 0.1)
    assert "not torch.float16" in wrong(x, x.half()) and "not torch.float32" in wrong(x.int(), x)
