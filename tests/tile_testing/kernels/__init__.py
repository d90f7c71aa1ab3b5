"""Kernels that tests run: in this process eagerly, in another one by Triton's interpreter, on a GPU."""

from __future__ import annotations

from pathlib import Path


def path_of(name: str) -> str:
    """The file of the module ``name`` of this package, for what loads modules by their files."""
    file = Path(__file__).with_name(f"{name}.py")
    assert file.exists(), file
    return str(file)
