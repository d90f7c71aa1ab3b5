"""The site of docs/: every page has its place, and it builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation() -> None:
    pages = {path.relative_to(TREE / "docs").as_posix() for path in (TREE / "docs").rglob("*.md")}
    navigation = (TREE / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == pages


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and "WARNING" not in run.stderr, run.stderr[-4000:]
    api = (tmp_path / "site" / "reference" / "api.html").read_text()
    assert "tileflow.api.Kernel" in api and "triton_source" in api, "docstrings are on the page"
    tuning = (tmp_path / "site" / "tuning.html").read_text()
    assert 'href="../search' not in tuning, "the site holds no sources to link to"
