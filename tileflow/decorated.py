"""What a decorator of kernels is given."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from .errors import KernelError


def check_parts(fn: FunctionType, functions: Mapping[str, Any], debug_sizes: Any) -> None:
    """Raises KernelError for what a decorator of ``fn`` was given and a sweep could do nothing with."""
    where = f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
    for name, given in functions.items():
        if given is not None and not callable(given):
            raise KernelError(
                f"{name}= of a kernel is a function",
                got=f"{type(given).__name__} {given!r}"[:120],
                where=where,
                hint="see help(tileflow.kernel) for its arguments and what it returns",
            )
    if debug_sizes is not None and not (
        isinstance(debug_sizes, Mapping) and all(isinstance(k, str) for k in debug_sizes)
    ):
        raise KernelError(
            "debug_sizes= of a kernel is a dictionary by the problem's keywords",
            got=f"{type(debug_sizes).__name__} {debug_sizes!r}"[:120],
            where=where,
            hint="debug_sizes={'rows': 33}, say",
        )
