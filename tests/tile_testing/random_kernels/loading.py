"""A program's text as a module, from a file, which errors name and the frontend reads."""

from __future__ import annotations

import hashlib
import tempfile
from functools import cache
from pathlib import Path

from tile_testing.runs.interpreted import load_module
from tileflow.api import Kernel

from .kernels import Program


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="random-kernels-")


def load(program: Program) -> Kernel:
    name = "random_" + hashlib.sha256(program.source.encode()).hexdigest()[:16]
    path = Path(_folder().name) / f"{name}.py"
    path.write_text(program.source)
    kernel = load_module(str(path)).kernel
    assert isinstance(kernel, Kernel)
    return kernel
