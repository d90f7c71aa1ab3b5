"""PyTorch with tiles: GPU kernels tuned on a cluster, dispatched from a table.

``import tileflow`` is light: everything is imported when it is first asked for (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Kernel, kernel, load_kernel
    from .autograd import differentiable
    from .config import Config
    from .derive.kernel import derive_backward
    from .interpreting import interpret
    from .programs import load_operators, saved_operators
    from .runtime.recording import record
    from .target import Target
    from .tuning import tune

__version__ = "0.1.0"
__all__ = [
    "Config",
    "Kernel",
    "Target",
    "derive_backward",
    "differentiable",
    "interpret",
    "kernel",
    "load_kernel",
    "load_operators",
    "record",
    "saved_operators",
    "tune",
]

_HOMES = {
    "Kernel": "api",
    "interpret": "interpreting",
    "kernel": "api",
    "load_kernel": "api",
    "tune": "tuning",
    "differentiable": "autograd",
    "Config": "config",
    "derive_backward": "derive.kernel",
    "Target": "target",
    "load_operators": "programs",
    "saved_operators": "programs",
    "record": "runtime.recording",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tileflow' has no attribute {name!r}")
    from .collector import paused

    with paused():
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
