"""Packages of kernels that need torch and tileflow-runtime only."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tile_testing.kernels import odd_names
from tile_testing.kernels import standalone_kernels as home
from tile_testing.kernels import standalone_script as script
from tileflow_experiments.standalone import write_package

from tileflow import runtime
from tileflow.errors import SpecError

TREE = ROOT
FORMATS = TREE / "tests" / "data" / "formats"
BUNDLE = FORMATS / "bundle_of_schema_1"
_ALONE = """
import inspect, sys, torch
sys.modules["triton"] = None
import pack
assert str(inspect.signature(pack.add)) == sys.argv[1], inspect.signature(pack.add)
x, y = torch.randn(4096), torch.randn(4096)
from tileflow import runtime
hit = runtime.lookup(pack.add.name, pack.add.semantic_hash, pack.add.describe(x, y), "nvidia-h200")
assert hit is not None and hit.step == "exact" and hit.binaries(), hit
torch.testing.assert_close(pack.add(x, y), x + y)
assert importlib.util.find_spec("tileflow.lowered") is None
"""


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FORMATS))
    runtime.clear()
    yield
    runtime.clear()


def copied_bundle(folder: Path) -> runtime.Bundle:
    shutil.copytree(BUNDLE, folder)
    return runtime.load_bundle(folder)


def imported(package: Path) -> Any:
    spec = importlib.util.spec_from_file_location(package.name, package / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_package_s_functions_are_those_at_home(tmp_path: Path) -> None:
    write_package(tmp_path / "pack", [f"{home.__name__}:acted"], copied_bundle)
    pack = imported(tmp_path / "pack")
    acted = pack.acted
    assert pack.__all__ == ["acted"] and acted is not home.acted
    assert inspect.signature(acted) == inspect.signature(home.acted) and acted.__doc__ == home.acted.__doc__
    assert (acted.name, acted.semantic_hash) == (home.acted.name, home.acted.semantic_hash)
    x = torch.randn(40)
    torch.testing.assert_close(acted(x, twice=True), home.acted(x, twice=True))
    assert len(runtime.loaded()) == 2, "the bundle inside is loaded"
    text = next((tmp_path / "pack").glob("_kernels_*.py")).read_text()
    assert "TABLE" not in text and "reference" not in text and 'LOWEST = float("-inf")' in text


def test_a_script_s_own_tensors_are_not_the_kernel_s_variables(tmp_path: Path) -> None:
    """A module's x and out, beside a parameter and a variable of these names, were refused as tensors it reads."""
    write_package(tmp_path / "pack", [f"{script.__name__}:scaled"], copied_bundle)
    packed, x = imported(tmp_path / "pack").scaled, torch.randn(40)
    assert inspect.signature(packed) == inspect.signature(script.scaled), "its annotations were strings"
    assert packed.semantic_hash == script.scaled.semantic_hash
    torch.testing.assert_close(packed(x, 3.0, bias=x), (4 * x, x))
    text = next((tmp_path / "pack").glob("_kernels_*.py")).read_text()
    assert "from typing import Optional as Optional" in text and "value" not in text.partition("def ")[0]


def test_annotations_that_a_package_cannot_hold_are_strings(tmp_path: Path) -> None:
    write_package(tmp_path / "pack", [f"{script.__name__}:named"], copied_bundle)
    packed, x = imported(tmp_path / "pack").named, torch.randn(40)
    assert str(inspect.signature(packed)) == "(x: 'Tensor', by: 'Optional[Named]' = None) -> 'Tensor'"
    assert torch.equal(packed(x), x)


def test_a_package_s_function_is_pickled_by_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was pickled by its name at home: where that could be imported, another process called what stands there."""
    write_package(tmp_path / "pickled_pack", [f"{home.__name__}:acted"], copied_bundle)
    monkeypatch.syspath_prepend(str(tmp_path))
    acted = importlib.import_module("pickled_pack").acted
    at_home = pickle.dumps(home.acted)
    monkeypatch.setattr(home, "acted", home.fallen_back)  # the module at home was edited since
    assert pickle.loads(pickle.dumps(acted)) is acted and b"pickled_pack" in pickle.dumps(acted)
    assert pickle.loads(at_home) is home.fallen_back
    monkeypatch.delitem(sys.modules, "pickled_pack")
    with pytest.raises(SpecError, match=r"pickled by its name.* another kernel has this name there"):
        pickle.dumps(acted)


def test_a_kernel_in_a_block_is_written_at_the_margin(tmp_path: Path) -> None:
    """Its lines kept their indentation, and the package was no Python. Strings are as they are at home."""
    write_package(tmp_path / "pack", [f"{home.__name__}:fallen_back"], copied_bundle)
    packed, x = imported(tmp_path / "pack").fallen_back, torch.randn(40)
    assert packed.__doc__ == home.fallen_back.__doc__ and packed.semantic_hash == home.fallen_back.semantic_hash
    torch.testing.assert_close(packed(x), x - home.EPS)


def test_only_what_was_written_here_is_written_over(tmp_path: Path) -> None:
    """Another package, or a file, that stood there was lost without a word."""
    pack, names = tmp_path / "pack", [f"{home.__name__}:acted"]
    pack.write_text("a file")
    with pytest.raises(SpecError, match="new folder, or over one that --standalone wrote, but got a file"):
        write_package(pack, names, copied_bundle)
    pack.unlink()
    pack.mkdir()
    (pack / "__init__.py").write_text("ours = 1\n")
    with pytest.raises(SpecError, match=r"but got __init__\.py\n  at .*pack\n  name another folder"):
        write_package(pack, names, copied_bundle)
    assert [path.name for path in pack.iterdir()] == ["__init__.py"]
    assert (pack / "__init__.py").read_text() == "ours = 1\n"
    (pack / "__init__.py").unlink()
    write_package(pack, names, copied_bundle)
    write_package(pack, names, lambda _: runtime.load_bundle(pack / "bundle"))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([f"{home.__name__}:reads_a_tensor"], "TABLE, a Tensor"),
        ([f"{home.__name__}:reads_marked"], "marked, a function with a decorator"),
        ([f"{home.__name__}:reads_renamed"], "renamed, act under another name"),
        ([f"{home.__name__}:Holder.inside"], "a function of a module"),
        ([f"{home.__name__}:acted", f"{home.__name__}:acted"], "names of their own"),
        ([f"{script.__name__}:reads_a_module"], r"kernels, a module\n.*\n  from tile_testing.kernels import \.\.\."),
    ],
)
def test_what_a_package_cannot_hold(names: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=said):
        write_package(tmp_path / "pack", names, copied_bundle)
    assert not (tmp_path / "pack").exists()


def test_a_package_has_a_name_that_python_imports(tmp_path: Path) -> None:
    for name in ("two words", "class"):
        with pytest.raises(SpecError, match="as Python imports it"):
            write_package(tmp_path / name, [f"{home.__name__}:acted"], copied_bundle)


@pytest.mark.parametrize("name", ["torch", "tileflow", "tileflow_runtime", "math", "dataclasses"])
def test_a_package_has_no_name_that_it_imports(name: str, tmp_path: Path) -> None:
    """Its folder shadowed torch for whatever was started beside it, itself among that."""
    with pytest.raises(SpecError, match=rf"'{name}', the name of a module.*\n.*\n  another name, as my_{name}"):
        write_package(tmp_path / name, [f"{home.__name__}:acted"], copied_bundle)
    assert not (tmp_path / name).exists()


def test_a_package_is_written_to_the_folder_that_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own name, which `.` is not; a link's own name is what Python imports."""
    for name in ("my_ops", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "by_link").symlink_to("other")
    monkeypatch.chdir(tmp_path / "my_ops")
    write_package(Path("."), [f"{home.__name__}:acted"], copied_bundle)
    write_package(Path("../by_link"), [f"{home.__name__}:acted"], copied_bundle)
    assert all((tmp_path / name / "__init__.py").is_file() for name in ("my_ops", "other"))
    (tmp_path / "two words").symlink_to("my_ops")
    with pytest.raises(SpecError, match="'two words'"):
        write_package(Path("../two words"), [f"{home.__name__}:acted"], copied_bundle)


@pytest.mark.slow
def test_a_package_runs_beside_the_runtime_alone(tmp_path: Path) -> None:
    """On a copy of the runtime's files: no compiler, no search, no triton, and not the kernel's own module."""
    spec = importlib.util.spec_from_file_location("hatch_build", TREE / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    pytest.importorskip("hatchling")
    spec.loader.exec_module(hook)
    for file in hook.runtime_files():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / file, tmp_path / file)
    write_package(tmp_path / "pack", ["format_kernels:add"], copied_bundle)
    import format_kernels

    signature = str(inspect.signature(format_kernels.add))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TILEFLOW_NATIVE": "0"}
    command = [sys.executable, "-c", f"import importlib.util{_ALONE}", signature]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_kernels_may_have_any_names(tmp_path: Path) -> None:
    """``load`` hid what the package itself loads its bundle with."""
    write_package(tmp_path / "pack", [odd_names.load.name, odd_names.übung.name], copied_bundle)
    package = imported(tmp_path / "pack")
    x = torch.randn(100)
    torch.testing.assert_close(package.load(x), 2 * x)
    torch.testing.assert_close(package.übung(x), 2 * x)
    assert package.übung.__doc__ == "Twice, of größe." and package.__all__ == ["load", "übung"]


def test_a_package_that_cannot_be_built_is_not_there(tmp_path: Path) -> None:
    """Half of one would be imported without complaint, as a namespace."""

    def build(_: Path) -> runtime.Bundle:
        raise SpecError("every row must build")

    with pytest.raises(SpecError, match="every row"):
        write_package(tmp_path / "pack", [odd_names.load.name], build)
    assert not list(tmp_path.rglob("*.py"))
