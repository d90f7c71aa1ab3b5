"""The notebooks of examples/notebooks run from top to bottom, in a kernel of their own as Jupyter starts one.

``python tests/unit/test_notebooks.py`` makes anew what they show.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tile_testing import ROOT

TREE = ROOT
NOTEBOOKS = sorted((TREE / "examples/notebooks").glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shown(notebook: dict[str, Any]) -> str:
    """All text that the cells left below themselves."""
    outputs = (o for cell in notebook["cells"] if cell["cell_type"] == "code" for o in cell["outputs"])
    texts = (o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return "\n".join("".join(text) for text in texts)


def execute(path: Path) -> dict[str, Any]:
    """The notebook after a run from the repository's root, without what was said on standard error."""
    nbclient, nbformat = import_module("nbclient"), import_module("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(TREE)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ each time
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    found: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_with_what_it_shows(path: Path) -> None:
    notebook = read(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)], "run from top to bottom"
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    assert str(TREE) not in path.read_text() and "/home/" not in path.read_text(), "no path of a machine"
    assert "".join(notebook["cells"][0]["source"]).startswith("# "), "its title"


@pytest.mark.slow
@pytest.mark.parametrize(("stem", "said"), [("load_a_bundle", "'exact'"), ("write_and_tune", "speed-up")])
def test_it_runs(stem: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    assert said in shown(execute(TREE / "examples/notebooks" / f"{stem}.ipynb"))


def test_each_of_them_is_run() -> None:
    (runs,) = (mark for mark in test_it_runs.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert [stem for stem, _ in runs.args[1]] == [path.stem for path in NOTEBOOKS]


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or NOTEBOOKS):
        path.write_text(json.dumps(execute(path), indent=1, ensure_ascii=False) + "\n")
