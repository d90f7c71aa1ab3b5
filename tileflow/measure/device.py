"""What the driver says of a card: its identity, and its state while it measured (through NVML, where that is there)."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ..runtime.describe import device_class
from .types import DeviceFacts

# NVML's clock event reasons that make a measurement suspect; the ordinary power cap (0x4) is not among them.
_SLOWDOWN = 0x8 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The card that a measuring process stands on. ``device_class``: the catalogue's or a described one; ``uuid``:
    ``GPU-...``; ``runtime``: ``cuda 13.0``, ``hip 7.1``."""

    display_name: str
    device_class: str
    uuid: str
    total_bytes: int
    free_bytes: int
    torch: str
    runtime: str


def identity() -> DeviceInfo:
    """The facts of this process's current device, on which this opens a context."""
    import torch

    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    runtime = f"hip {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}"
    return DeviceInfo(
        properties.name, device_class(index), f"GPU-{properties.uuid}", total, free, torch.__version__, runtime
    )


def facts(uuid: str) -> DeviceFacts:
    """The card's state now; all None where NVML is not installed or does not know the card."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return DeviceFacts(uuid)
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return DeviceFacts(uuid)
    reasons = _ask(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    power_mw = _ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    return DeviceFacts(
        uuid,
        sm_clock_mhz=_ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        temp_c=_ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        power_w=None if power_mw is None else power_mw / 1000,
        throttled=None if reasons is None else bool(reasons & _SLOWDOWN),
    )


def _ask(nvml: Any, question: Any, *args: Any) -> Any:
    """One fact; None where this driver does not tell it."""
    try:
        return question(*args)
    except nvml.NVMLError:
        return None
