"""The machine that a run takes place on."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from typing import Any

_PACKAGES = {"liger": "liger-kernel", "helion": "helion", "quack": "quack-kernels"}
_MODULES = {"liger": "liger_kernel", "helion": "helion", "quack": "quack"}


def importable(peers: Sequence[str]) -> list[str]:
    """Return the peers whose package is installed."""
    return [name for name in peers if name not in _MODULES or importlib.util.find_spec(_MODULES[name])]


def visible_devices() -> tuple[str, list[str]]:
    """Return (the variable that hides devices, the names that it takes for those visible now)."""
    import torch

    variable = "HIP_VISIBLE_DEVICES" if torch.version.hip else "CUDA_VISIBLE_DEVICES"
    listed = os.environ.get(variable)
    if listed is not None:
        return variable, [name.strip() for name in listed.split(",") if name.strip()]
    return variable, [str(n) for n in range(torch.cuda.device_count())]


def header(command: str, peers: Sequence[str]) -> dict[str, Any]:
    """Return command, date and versions."""
    import torch
    import triton

    versions = {"torch": torch.__version__, "triton": triton.__version__, "Python": platform.python_version()}
    versions |= {name: metadata.version(_PACKAGES[name]) for name in peers if name in _PACKAGES}
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "driver": _driver(),
        "versions": versions,
    }


def _driver() -> str:
    """Return the driver's version by nvidia-smi; ``unknown`` on a machine without one."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.splitlines()[0].strip()
