"""``scripts/release``: what keeps two wheels from being released, and the whole of it once."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from tile_testing import ROOT

TREE = ROOT
CHANGES = "# Changes\n\n## 1.2.0, 2026-12-01\n"


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_checks", TREE / "scripts" / "release_checks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheels(folder: Path, *, runtime: str = "1.2.0", needs: str = "tileflow-runtime==1.2.0", more: str = "") -> Path:
    """Two small ones that can be released, but for what is asked."""
    for name, version, requires in (("tileflow-runtime", runtime, "torch>=2.11"), ("tileflow", "1.2.0", needs)):
        stem = f"{name.replace('-', '_')}-{version}"
        fields = {"Name": name, "Version": version, "Summary": "s", "License-Expression": "Apache-2.0"}
        lines = [f"{key}: {value}" for key, value in (fields | {"Requires-Python": ">=3.11"}).items()]
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
            text = "\n".join(["Metadata-Version: 2.4", *lines, f"Requires-Dist: {requires}", "", "PyTorch with tiles"])
            archive.writestr(f"{stem}.dist-info/METADATA", text)
            archive.writestr("tileflow/x.py", "")
            if more:
                archive.writestr(more, "")
    return folder


def faults(checks: ModuleType, folder: Path, changes: str = CHANGES, rehearse: bool = False) -> list[str]:
    return list(checks.faults(checks.find_wheels(folder), changes, rehearse))


def test_good_wheels_have_no_fault(checks: ModuleType, tmp_path: Path) -> None:
    assert faults(checks, wheels(tmp_path)) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runtime": "1.1.0"}, "one version"),
        ({"needs": "tileflow-runtime>=1.0"}, "must need tileflow-runtime==1.2.0"),
        ({"more": "tileflow_benchmarks/suite/cli.py"}, "belongs in the repository only"),
        ({"more": "tests/unit/test_x.py"}, "belongs in the repository only"),
    ],
)
def test_each_fault_is_named(checks: ModuleType, tmp_path: Path, options: dict[str, str], said: str) -> None:
    found = faults(checks, wheels(tmp_path, **options))
    assert found and all(said in fault for fault in found), found


def test_one_wheel_is_no_release(checks: ModuleType, tmp_path: Path) -> None:
    wheels(tmp_path)
    next(tmp_path.glob("tileflow_runtime*")).unlink()
    assert "must be a wheel of" in faults(checks, tmp_path)[0]


def test_the_changes_must_tell_of_it(checks: ModuleType, tmp_path: Path) -> None:
    folder = wheels(tmp_path)
    assert "must begin with a section of 1.2.0" in faults(checks, folder, "## 1.1.0, 2026-11-01")[0]
    early = "## 1.2.0, not released yet"
    assert "the day of the release" in faults(checks, folder, early)[0]
    assert faults(checks, folder, early, rehearse=True) == []


@pytest.mark.slow
def test_a_rehearsal(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    environment = {**os.environ, "PYTHON": sys.executable}
    environment.pop("TILEFLOW_VERIFY", None)
    command = [str(TREE / "scripts" / "release"), str(tmp_path / "wheels"), "--rehearse"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=290)
    assert run.returncode == 0, run.stderr[-4000:]
    assert "is ready" in run.stdout
