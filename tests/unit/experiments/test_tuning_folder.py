"""What a tuning leaves on disk: nothing but its rows, unless somebody wants to know why it has none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tile_testing import ROOT
from tileflow_cluster.scratch import LOCK, Scratch
from tileflow_experiments import tuning_folder as folders
from tileflow_experiments.tuning_folder import PREFIX, VARIABLE, tuning_folder

from tileflow.errors import SpecError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*"))


def test_a_tuning_that_ended_well_leaves_nothing(place: Path) -> None:
    """Each left its journal, its tables and its log in the temporary directory for good."""
    with tuning_folder(None) as folder:
        folder.log.write_text("what Ray said")
        folder.outputs.tables.mkdir()
        folder.is_needed = False
    assert left(place) == []


def test_one_that_is_needed_stays_for_good(place: Path) -> None:
    with tuning_folder(None) as folder:
        folder.log.write_text("stopped")
    assert folder.log.read_text() == "stopped"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "LEAST_AGE_S", -1.0)
        with tuning_folder(None) as other:
            other.is_needed = False
    assert left(place) == [folder.outputs.folder.name, "tune.log"], "it was said where it is"


def test_an_exception_says_where_the_log_is(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as error, tuning_folder(None) as folder:
        folder.log.write_text("so far")
        raise KeyboardInterrupt
    assert error.value.__notes__ == [f"what was logged is in {folder.log}"] and folder.log.exists()


def test_an_exception_before_anything_was_written_leaves_nothing(place: Path) -> None:
    with pytest.raises(SpecError) as error, tuning_folder(None) as folder:
        folder.log.touch()
        raise SpecError("a call to tune is no such thing")
    assert left(place) == [] and not hasattr(error.value, "__notes__")


def test_an_exception_is_its_own_where_somebody_has_cleaned_up(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as error, tuning_folder(None) as folder:
        shutil.rmtree(folder.outputs.folder)
        raise KeyboardInterrupt
    assert not hasattr(error.value, "__notes__")
    (place / "out").mkdir()
    (place / "out" / "of others").touch()
    with pytest.raises(SpecError) as refused, tuning_folder(place / "out"):
        raise SpecError("a call to tune is no such thing")
    assert not hasattr(refused.value, "__notes__"), "nothing was logged there"


@pytest.mark.parametrize("way", ["out", "variable"])
def test_a_named_folder_stays(place: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    out: Path | None = place / "tunings"
    if way == "variable":
        monkeypatch.setenv(VARIABLE, str(out))
        out = None
    with tuning_folder(out) as folder:
        folder.log.write_text("all is well")
        folder.is_needed = False
    assert folder.log.exists() and folder.outputs.folder.is_relative_to(place / "tunings")
    if way == "variable":
        with tuning_folder(out) as another:
            assert another.outputs.folder.parent == folder.outputs.folder.parent
            assert another.outputs.folder != folder.outputs.folder


def test_a_variable_that_names_no_folder_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").touch()
    monkeypatch.setenv(VARIABLE, str(place / "file" / "tunings"))
    with pytest.raises(SpecError, match=rf"written to a folder(.|\n)*{VARIABLE}"), tuning_folder(None):
        pass


def test_what_a_killed_tuning_left_is_removed_a_day_later(place: Path) -> None:
    dead = Scratch(PREFIX)
    (dead.path / "tune.log").touch()
    dead._lock.close()
    for is_there in (True, False):
        with tuning_folder(None) as folder:
            folder.is_needed = False
        assert dead.path.exists() is is_there
        if is_there:
            os.utime(dead.path / LOCK, (1.0, 1.0))


SCRIPT = """
import torch
import tileflow
import tileflow.language as tfl


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


if __name__ == "__main__":
    doubled.tune(torch.randn(16, 32), budget_s=1, strategy="random", device_class="nvidia-h200")
"""


def test_a_program_that_tuned_leaves_its_rows_alone(tmp_path: Path) -> None:
    """Its workers and their caches are gone with it, too; folders with spaces and letters of any kind will do."""
    (script := tmp_path / "script.py").write_text(SCRIPT)
    (temporary := tmp_path / "für alle").mkdir()
    environment: dict[str, Any] = os.environ | {
        "TMPDIR": str(temporary),
        "TILEFLOW_TABLES": str(tmp_path / "meine tabellen"),
        "TILEFLOW_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "row in " in done.stdout and list((tmp_path / "meine tabellen").glob("*.json"))
    assert [path for path in temporary.iterdir() if path.name.startswith("tileflow-")] == []
