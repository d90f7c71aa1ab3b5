"""Python's own functions, whatever stands in their place at the moment.

A library may replace some for a while, in all threads of the process: torch.export does so with ``max``, ``min`` and
``math.pow`` while it traces, a debugger with ``breakpoint``. A kernel means Python's own: what it computes, and its
hash, by which rows and operators are found, are the same whoever traces it and when.
"""

from __future__ import annotations

import builtins
import math
import types
from typing import Any

# Taken when the first kernel is decorated. What somebody had replaced before then is none of Python's own.
_OWN = {
    (module, name): function
    for module in (builtins, math)
    for name, function in vars(module).items()
    if isinstance(function, types.BuiltinFunctionType)
}


def python_own(value: Any) -> Any:
    """Python's own function, where ``value`` stands in its place now; any other value is itself."""
    if isinstance(value, (types.BuiltinFunctionType, type)) or not callable(value):
        return value
    return next((own for (module, name), own in _OWN.items() if getattr(module, name, None) is value), value)
