"""Hatchling's hook for the two distributions of this tree: which files of ``tileflow/`` go into whose wheel.

``tileflow-runtime`` (tileflow/runtime/pyproject.toml) lists its files, and holds the C extension of launches where it
can be compiled, else it is pure Python. ``tileflow`` holds the rest.
"""

from __future__ import annotations

import importlib.util
import sysconfig
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TREE = Path(__file__).parent
_RUNTIME = TREE / "tileflow" / "runtime" / "pyproject.toml"


class DistributionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Gives each wheel its files of ``tileflow/``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, and to the runtime's wheel the C extension; called by hatchling before a build."""
        if self.target_name != "wheel" or version == "editable":  # an editable install finds what lies in the tree
            return
        is_runtime = Path(self.root).resolve() == _RUNTIME.parent.resolve()
        files = runtime_files() if is_runtime else compiler_files()
        build_data["force_include"].update({str(TREE / file): file for file in files})
        if is_runtime:
            self._add_extension(build_data)

    def _add_extension(self, build_data: dict[str, Any]) -> None:
        native = _build_native()
        try:
            built = native.build()
        except (native.CannotBuild, OSError) as error:
            if isinstance(error, native.WrongSwitch) or native.wanted():
                raise
            self.app.display_warning(f"tileflow-runtime without its C extension: {error}")
            return
        if built is None:
            return
        build_data["force_include"][str(built)] = built.relative_to(TREE).as_posix()
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"


def runtime_files() -> list[str]:
    """The files of ``tileflow-runtime``, by their paths in the tree."""
    listed = tomllib.loads(_RUNTIME.read_text())["tool"]["hatch"]["build"]["hooks"]["custom"]["files"]
    absent = [entry for entry in listed if not (TREE / entry).exists()]
    if absent:
        raise FileNotFoundError(f"{_RUNTIME} lists what is not there: {', '.join(absent)}")
    return [file for file in _package_files() if any(file == e or file.startswith(f"{e}/") for e in listed)]


def compiler_files() -> list[str]:
    """The files of the package ``tileflow`` that the distribution ``tileflow`` owns."""
    return sorted({*_package_files()} - {*runtime_files()})


def _package_files() -> list[str]:
    """What of ``tileflow/`` is installed: not what was built there."""
    found = (path.relative_to(TREE) for path in (TREE / "tileflow").rglob("*") if path.is_file())
    return sorted(
        path.as_posix()
        for path in found
        if path.suffix not in (".so", ".pyc")
        and path.name != "pyproject.toml"
        and not any(part.startswith(".") for part in path.parts)
    )


def _build_native() -> ModuleType:
    """The package's module, without the package: that would ask for torch."""
    spec = importlib.util.spec_from_file_location("build_native", TREE / "tileflow" / "runtime" / "build_native.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
