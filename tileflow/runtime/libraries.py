"""What is a user's own and what a library's: a library's code counts by its name, a user's by what it holds."""

from __future__ import annotations

import sys

LIBRARIES = (frozenset({"torch", "tileflow", "tileflow_runtime", "triton", "numpy"}) | sys.stdlib_module_names) - {
    "builtins", "__main__"
}  # fmt: skip


def is_library(module: str | None) -> bool:
    """Whether what a module of this name holds is no user's."""
    return (module or "").partition(".")[0] in LIBRARIES
