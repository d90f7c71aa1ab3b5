"""Where a tuning has no workers of its own process to begin (experiments/begin.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import tileflow
from tileflow_cluster import local_pool

begun = []
local_pool.begin_here = lambda: begun.append(True)
try:
    tileflow.tune([], **{options})
except Exception:
    pass
print(begun)
"""


@pytest.mark.parametrize(
    ("options", "ray", "begun"), [("{}", "", "[True]"), ("{}", "local", "[]"), ("{'tools': None}", "", "[]")]
)
def test_ray_and_tools_have_workers_of_their_own(
    options: str, ray: str, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray)
    script = _SCRIPT.replace("{options}", options)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == begun
