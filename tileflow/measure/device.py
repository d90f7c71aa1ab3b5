"""What torch says of a card: its identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..runtime.describe import device_class


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The card that a measuring process stands on. ``device_class``: the catalogue's or a described one; ``uuid``:
    ``GPU-...``; ``runtime``: ``cuda 13.0``, ``hip 7.1``. ``pci_address``: as ``lspci`` writes it,
    ``0000:c1:00.0``; empty where torch does not say."""

    display_name: str
    device_class: str
    uuid: str
    total_bytes: int
    free_bytes: int
    torch: str
    runtime: str
    pci_address: str = ""


def identity() -> DeviceInfo:
    """The facts of this process's current device, on which this opens a context."""
    import torch

    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    runtime = f"hip {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}"
    return DeviceInfo(
        properties.name,
        device_class(index),
        f"GPU-{properties.uuid}",
        total,
        free,
        torch.__version__,
        runtime,
        pci_address(properties),
    )


def pci_address(properties: Any) -> str:
    """As ``lspci`` writes it, of torch's properties of a device."""
    try:
        domain, bus, device = (getattr(properties, f"pci_{name}_id") for name in ("domain", "bus", "device"))
    except AttributeError:  # of an earlier torch
        return ""
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"
