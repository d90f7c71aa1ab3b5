"""``tileflow.tune`` from a script, whose own modules no worker can import, with and without a Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPT = '''
import json, linecache, torch, tileflow
import tileflow.language as tfl

OFFSETS = torch.tensor([1, 2])
CELL = """
@tileflow.kernel
def doubled(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = helper(x[tile, :])
    return out
"""

def helper(value):
    return value * 2

def scaling(factor):
    @tileflow.kernel
    def scaled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = helper(x[tile, :]) * factor + OFFSETS[0]
        return out
    return scaled

if __name__ == "__main__":
    name = "<ipython-input-7-c0ffee>"  # as IPython keeps a cell
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    exec(compile(CELL, name, "exec"), globals())
    x = torch.randn(16, 32)
    calls = [(doubled, (x,)), (scaling(3.0), (), {"x": x})]
    rows = tileflow.tune(calls, budget_s=2, strategy="random", device_class="nvidia-h200")
    print(json.dumps([[k.name, k.semantic_hash, row.problem.key] for (k, *_), row in zip(calls, rows)]))
'''


def tuned(tmp_path: Path, address: str) -> list[dict[str, Any]]:
    """The journal of the script under a RAY_ADDRESS, once all that it leaves is as it should be."""
    script = tmp_path / "my_script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {
        "TILEFLOW_TABLES": str(tmp_path / "mine"), "TILEFLOW_TUNINGS": str(tmp_path), "TMPDIR": str(tmp_path),
        "RAY_TMPDIR": "/tmp",
        "RAY_ADDRESS": address,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, cwd="/", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert len(said) == 1 + 2 + 2 and said[0].startswith("kernel") and done.stderr == ""
    (log,) = tmp_path.glob("tileflow-*/tune.log")
    assert "modelled by 1 worker" in log.read_text()
    found = json.loads(last)
    assert [name for name, *_ in found] == ["__main__:doubled", "__main__:scaling.<locals>.scaled"]
    for name, semantic_hash, key in found:
        (file,) = (tmp_path / "mine").glob(f"*-{semantic_hash[:16]}.json")
        (row,) = json.loads(file.read_text())["entries"]
        assert row["problem"]["kernel"] == name and key == "x=float32[16x32]"
    journal = next(tmp_path.glob("tileflow-*/journal.jsonl")).read_text()
    assert "def scaled" not in journal and "helper" not in journal, "no code on a disk"
    return [line for line in map(json.loads, journal.splitlines()) if line["kind"] == "trial"]


def test_a_scripts_kernels_are_tuned_by_workers_that_cannot_import_it(tmp_path: Path) -> None:
    """By those of the process, and by Ray's where RAY_ADDRESS asks for it: the trials are the same."""
    seen = []
    for address in ("", "local"):
        (folder := tmp_path / f"ray-{address}").mkdir()
        seen.append({line["trial_id"]: (line["status"], line["median_us"]) for line in tuned(folder, address)})
    ours, rays = seen
    common = ours.keys() & rays.keys()
    assert len(common) >= min(len(ours), len(rays)) / 2 > 0, (len(ours), len(rays), len(common))
    assert all(ours[trial] == rays[trial] for trial in common)
