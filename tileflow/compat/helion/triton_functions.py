"""What ``triton_kernel`` may be given: a ``@triton.jit`` function, a plain one, its name, or its text."""

from __future__ import annotations

import hashlib
import linecache
import sys
from functools import cache
from types import FunctionType
from typing import Any

from ...errors import TraceError


def jit_function(given: Any) -> Any:
    """``given`` as a ``@triton.jit`` function. A name is one of the module that calls. Raises TraceError."""
    if isinstance(given, str):
        return _of_caller(given) if given.isidentifier() else _defined(given)
    return _jit(given) if isinstance(given, FunctionType) else given


@cache
def _jit(function: FunctionType) -> Any:
    import triton

    return triton.jit(function)


def _of_caller(name: str) -> Any:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] != "tileflow" and name in frame.f_globals:
            return jit_function(frame.f_globals[name])
        frame = frame.f_back  # type: ignore[assignment]
    raise TraceError("hl.triton_kernel names a function of the kernel's module", got=repr(name))


@cache
def _defined(text: str) -> Any:
    """The one function that ``text`` defines. Triton reads its text again, so that the text gets a file name."""
    import triton
    import triton.language as tl

    name = f"<hl.triton_kernel {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"triton": triton, "tl": tl, "__name__": name}
    before = set(scope)
    exec(compile(text, name, "exec"), scope)
    made = [value for key, value in scope.items() if key not in before and callable(value)]
    if len(made) != 1:
        raise TraceError("the text of hl.triton_kernel defines one function", got=f"{len(made)} of them")
    return jit_function(made[0])
