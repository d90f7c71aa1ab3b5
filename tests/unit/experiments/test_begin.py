"""What a tuning does first: its workers import while its own process does (experiments/begin.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
import tileflow
from tileflow_cluster import local_pool

begun = []
local_pool.begin_here = lambda: begun.append("tileflow_experiments.tune" in sys.modules)
try:
    tileflow.tune([], **{options})
except Exception:
    pass
print(begun)
"""


@pytest.mark.parametrize(("options", "ray", "begun"), [("{}", "", "[False]"), ("{}", "local", "[]"),
                                                      ("{'tools': None}", "", "[]")])  # fmt: skip
def test_workers_start_before_the_rest_is_imported(
    options: str, ray: str, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second to a second of imports were in front of theirs, which take three and more. Ray has workers of its
    own, and whoever gives ``tools`` too."""
    monkeypatch.setenv("RAY_ADDRESS", ray)
    script = _SCRIPT.replace("{options}", options)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == begun
