"""Hatchling's hook: a wheel holds the C extension of launches where it can be compiled, else it is pure Python."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        native = _build_native(Path(self.root))
        try:
            built = native.build()
        except (native.CannotBuild, OSError) as error:
            if os.environ.get("TILEFLOW_NATIVE") == "1":
                raise
            self.app.display_warning(f"tileflow without its C extension: {error}")
            return
        if built is None or version == "editable":  # an editable install finds what lies in the tree
            return
        build_data["artifacts"].append(str(built.relative_to(self.root)))
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"


def _build_native(root: Path) -> ModuleType:
    """The package's module, without the package: that would ask for torch."""
    spec = importlib.util.spec_from_file_location("build_native", root / "tileflow" / "runtime" / "build_native.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
