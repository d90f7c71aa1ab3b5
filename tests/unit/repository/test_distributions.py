"""Two distributions of one tree: ``tileflow-runtime`` holds what calls from a bundle import, ``tileflow`` the rest."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from tile_testing import ROOT

TREE = ROOT
CALLS = TREE / "tests" / "tile_testing" / "programs" / "bundled_calls.py"
BUNDLE = TREE / "tests" / "data" / "formats" / "bundle_of_schema_1"

# In the runtime's wheel, but imported by no call: what builds the extension, and what names its types.
NO_MODULES = {"tileflow/py.typed", "tileflow/runtime/_native.c", "tileflow/runtime/_native.pyi"}
NOT_IN_CALLS = {"tileflow.runtime.build_native"}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", TREE / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def run_alone(root: Path, *command: str) -> str:
    """The command's output, with no tileflow to be found but the one under ``root``; the bundle's kernels are."""
    path = os.pathsep.join([str(root), str(BUNDLE.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "TILEFLOW_NATIVE": "0"}
    run = subprocess.run([sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout


def bundled_calls(root: Path) -> set[str]:
    return {*json.loads(run_alone(root, str(CALLS), str(BUNDLE)).splitlines()[-1])}


def test_each_file_is_in_exactly_one_wheel(hook: ModuleType) -> None:
    runtime, compiler = hook.runtime_files(), hook.compiler_files()
    tracked = subprocess.run(["git", "ls-files", "tileflow"], cwd=TREE, capture_output=True, text=True).stdout.split()
    untracked = not tracked
    assert not {*runtime} & {*compiler}
    assert untracked or {*runtime, *compiler} >= {*tracked} - {"tileflow/runtime/pyproject.toml"}
    assert "tileflow/emit/kernel.py" in compiler and "tileflow/runtime/registry.py" in runtime


def test_the_runtime_s_files_are_what_bundled_calls_import(hook: ModuleType, tmp_path: Path) -> None:
    """On a copy of those files alone: one too few fails there, one too many was not imported."""
    files = hook.runtime_files()
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / file, tmp_path / file)
    listed = {module_of(file) for file in files if file not in NO_MODULES}
    assert {file for file in files if not file.endswith(".py")} == NO_MODULES
    assert bundled_calls(tmp_path) == listed - NOT_IN_CALLS


def test_tileflow_depends_on_the_runtime_of_its_version() -> None:
    version = re.search(r'__version__ = "(.+)"', (TREE / "tileflow" / "__init__.py").read_text())
    assert version is not None
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    runtime = tomllib.loads((TREE / "tileflow" / "runtime" / "pyproject.toml").read_text())["project"]
    assert f"{runtime['name']}=={version[1]}" in project["dependencies"]
    assert runtime["dependencies"] == [d for d in project["dependencies"] if d.startswith("torch")]
    assert runtime["requires-python"] == project["requires-python"]


@pytest.mark.slow
def test_the_runtime_s_wheel_serves_a_bundle_without_a_compiler(hook: ModuleType, tmp_path: Path) -> None:
    wheels, alone = tmp_path / "wheels", tmp_path / "alone"
    subprocess.run([TREE / "scripts" / "wheels", wheels], check=True, env={**os.environ, "PYTHON": sys.executable})
    (runtime,) = wheels.glob("tileflow_runtime-*.whl")
    (compiler,) = wheels.glob("tileflow-*.whl")
    names = [{n for n in zipfile.ZipFile(w).namelist() if ".dist-info/" not in n} for w in (runtime, compiler)]
    assert not names[0] & names[1]
    assert {n for n in names[0] if not n.endswith(".so")} == {*hook.runtime_files()}
    assert {n for n in names[1] if n.startswith("tileflow/")} == {*hook.compiler_files()}
    assert {"tileflow_search/__init__.py", "tileflow_experiments/cli.py"} < names[1]
    held = {"tileflow", "tileflow_search", "tileflow_cluster", "tileflow_experiments"}
    assert {name.split("/")[0] for name in names[1]} == held, "benchmarks, examples and tests are of the checkout alone"

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", alone, runtime], check=True)
    said = run_alone(alone, "-m", "tileflow.runtime.show", str(BUNDLE))
    assert "format_kernels:add" in said and said.startswith("bundle ")
    home = run_alone(alone, "-c", "import tileflow, sys; sys.stdout.write(tileflow.__file__)")
    assert home == str(alone / "tileflow" / "__init__.py")
    assert bundled_calls(alone) == {module_of(f) for f in hook.runtime_files() if f not in NO_MODULES} - NOT_IN_CALLS


def test_every_pinned_version_runs_on_the_oldest_python_that_is_promised() -> None:
    """One wanted 3.11.5, so that the README's first command failed under Debian 12's 3.11.2."""
    specifiers = pytest.importorskip("packaging.specifiers")
    promised = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f"{promised.removeprefix('>=')}.0"
    pinned = re.findall(r"^([\w.-]+)==", (TREE / "constraints.txt").read_text(), re.MULTILINE)
    wanted = {}
    for name in pinned:
        try:
            wanted[name] = metadata.metadata(name).get("Requires-Python") or ""
        except metadata.PackageNotFoundError:  # of another extra
            continue
    assert len(wanted) > len(pinned) / 2
    refused = {name: text for name, text in wanted.items() if not specifiers.SpecifierSet(text).contains(oldest)}
    assert not refused
