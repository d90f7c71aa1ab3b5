"""What is a user's own and what a library's: a library's code counts by its name, a user's by what it holds."""

from __future__ import annotations

import sys

# Plain functions of "builtins" are the user's: exec calls its module so where it is given no name.
LIBRARIES = (frozenset({"torch", "tileflow", "tileflow_runtime", "triton", "numpy"}) | sys.stdlib_module_names) - {
    "builtins",
    "__main__",
}


KERNELS = "tileflow.kernels"  # written in the language, as a user writes: its text counts


def is_library(module: str | None) -> bool:
    """Whether what a module of this name holds is no user's."""
    return (module or "").partition(".")[0] in LIBRARIES and not is_kernel_text(module)


def is_kernel_text(module: str | None) -> bool:
    """Whether a module is of the package's own kernels."""
    return module is not None and (module == KERNELS or module.startswith(f"{KERNELS}."))
