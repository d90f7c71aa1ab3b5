"""What is compared by the benchmark of softmaxes over clusters, without a GPU."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("triton")

from tileflow_benchmarks.clusters import running

from tileflow.target import target

H200 = target("nvidia-h200")
# the blocks that ended soonest, or a tenth later than those (docs/data/running-loops-h200.json)
SOONEST = {
    "decode 1x8x4x128 1x8192x8x128": "8*",
    "decode 4x8x8x128 4x8192x8x128": "4*",
    "decode 8x8x4x128 8x4096x8x128": "2*",
    "decode 1x32x1x128 1x4096x32x128": "4*",
    "attend 64x128 16384x128": "8*",
    "log_sums 4x1048576": "8*",
    "class_losses 1024x512 32000x512": "4*",
}


def test_few_programs_share_their_loops_by_default() -> None:
    found = {
        case.name: [name for name, _ in running.configs(case.kernel.lower(case.args("meta"), H200))]
        for case in running.CASES
    }
    assert all(sum(name.endswith("*") for name in names) == 1 for names in found.values())
    assert {case: next(n for n in found[case] if n.endswith("*")) for case in SOONEST} == SOONEST


@pytest.mark.parametrize(
    ("case", "keys", "stages"),
    [
        ("decode 1x8x8x128 1x32768x8x128", 128, 3),  # 64 blocks on 132 multiprocessors
        ("decode 2x4x16x64 2x16384x4x64", 256, 3),
        ("decode 4x8x8x128 4x8192x8x128", 64, 3),  # 128 blocks
        ("attend 1024x64 4096x64", 128, 4),  # two programs would share a multiprocessor by two stages each
        ("attend 512x128 16384x128", 64, 3),
    ],
)
def test_blocks_that_share_no_multiprocessor_hold_more(case: str, keys: int, stages: int) -> None:
    (found,) = (its for its in running.CASES if its.name == case)
    default = found.kernel.lower(found.args("meta"), H200).default
    assert (default["block:keys"], default["num_stages"]) == (keys, stages)


def test_a_dry_run_compiles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["running", "--dry-run", "--only", "log_sums 4x1048576"])
    assert running.main() == 0
    assert [line.split(", ")[1].split()[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "4", "8*"]
