"""A card's state while it measures, and who else is on it: by NVML or AMD SMI, where their packages are installed.

Both are optional (``nvidia-ml-py``, ``amdsmi``). What a driver does not tell is None, never a guess.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .device import DeviceInfo
from .types import DeviceFacts

log = logging.getLogger(__name__)


class Monitor(Protocol):
    """Of one card."""

    def facts(self) -> DeviceFacts:
        """The card's state now."""

    def foreign_processes(self) -> tuple[int, ...] | None:
        """The processes that compute on the card beside this one, by id; None where the driver does not say."""


def open_monitor(info: DeviceInfo) -> Monitor:
    """The monitor of the card that ``info`` describes; one that knows nothing where its package is missing, or does not
    know the card."""
    openers: tuple[tuple[str, Callable[[Any, DeviceInfo], Monitor | None]], ...] = (
        ("amdsmi", _open_amd),
        ("pynvml", _open_nvidia),
    )
    package, opener = openers[0] if info.runtime.startswith("hip") else openers[1]
    try:
        module: Any = importlib.import_module(package)
    except (ImportError, OSError, KeyError) as error:  # amdsmi looks for its shared library while it is imported
        log.debug("clocks and temperatures are not known: %s: %s", package, error)
        return NullMonitor(info.uuid)
    return opener(module, info) or NullMonitor(info.uuid)


@dataclass(frozen=True, slots=True)
class NullMonitor:
    """Knows the card's name alone."""

    uuid: str

    def facts(self) -> DeviceFacts:
        """The name, and nothing measured."""
        return DeviceFacts(self.uuid)

    def foreign_processes(self) -> tuple[int, ...] | None:
        """None: nobody says."""
        return None


def without_this_process(pids: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a card's processes that are not this one. A driver tells the host's numbers: in a container this process
    is one of them under a number that it does not know, and then all but one are others."""
    found = tuple(sorted(set(pids)))
    if os.getpid() in found:
        return tuple(pid for pid in found if pid != os.getpid())
    return found[1:]


# ---- NVIDIA -------------------------------------------------------------------------------------------------------

# NVML's clock event reasons, by bit; those of _SLOWDOWN make a measurement suspect, the ordinary power cap does not
_REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "clocks set",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
_SLOWDOWN = 0x8 | 0x20 | 0x40 | 0x80
_IDLE = 0x1  # of the moment after a call, when nothing runs: it says nothing of the call


@dataclass(frozen=True, slots=True)
class NvmlMonitor:
    """``nvml``: the module ``pynvml``, initialised; ``handle``: of the card."""

    nvml: Any
    handle: Any
    uuid: str

    def facts(self) -> DeviceFacts:
        """Clocks in MHz, degrees Celsius, watts and throttle reasons now; None for what the driver does not say."""
        nvml = self.nvml
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        power_mw = self._ask(nvml.nvmlDeviceGetPowerUsage)
        others = self.foreign_processes()
        return DeviceFacts(
            self.uuid,
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            temp_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1000,
            throttled=None if reasons is None else bool(reasons & _SLOWDOWN),
            mem_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            throttle_reasons=tuple(
                name for bit, name in _REASONS.items() if reasons is not None and reasons & bit & ~_IDLE
            ),
            foreign_processes=None if others is None else len(others),
        )

    def foreign_processes(self) -> tuple[int, ...] | None:
        """The process ids of others that compute on the card."""
        found = self._ask(self.nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if found is None else without_this_process(tuple(process.pid for process in found))

    def _ask(self, question: Any, *args: Any) -> Any:
        """One fact; None where this driver does not tell it."""
        try:
            return question(self.handle, *args)
        except self.nvml.NVMLError:
            return None


def _open_nvidia(nvml: Any, info: DeviceInfo) -> Monitor | None:
    try:
        nvml.nvmlInit()
        return NvmlMonitor(nvml, nvml.nvmlDeviceGetHandleByUUID(info.uuid), info.uuid)
    except nvml.NVMLError as error:
        log.debug("NVML does not know %s: %s", info.uuid, error)
        return None


# ---- AMD ----------------------------------------------------------------------------------------------------------

# fields of amdsmi_get_violation_status that say what holds the clocks down now
_VIOLATIONS: Mapping[str, str] = {
    "active_ppt_pwr": "power cap",
    "active_prochot_thrm": "hardware thermal slowdown",
    "active_socket_thrm": "thermal slowdown",
    "active_vr_thrm": "voltage regulator slowdown",
    "active_hbm_thrm": "memory thermal slowdown",
}
_POWER_CAP = "power cap"


@dataclass(frozen=True, slots=True)
class AmdSmiMonitor:
    """``smi``: the module ``amdsmi``, initialised; ``handle``: of the card."""

    smi: Any
    handle: Any
    uuid: str

    def facts(self) -> DeviceFacts:
        """Clocks in MHz, degrees Celsius, watts and violations now; None for what the driver does not say."""
        smi = self.smi
        power = self._ask(smi.amdsmi_get_power_info)
        violations = self._ask(smi.amdsmi_get_violation_status)
        reasons = tuple(name for field, name in _VIOLATIONS.items() if violations and violations.get(field) is True)
        known = violations is not None and any(violations.get(field) in (True, False) for field in _VIOLATIONS)
        others = self.foreign_processes()
        kinds, current = smi.AmdSmiTemperatureType, smi.AmdSmiTemperatureMetric.CURRENT
        return DeviceFacts(
            self.uuid,
            sm_clock_mhz=self._clock(smi.AmdSmiClkType.GFX),
            temp_c=_number(self._ask(smi.amdsmi_get_temp_metric, kinds.HOTSPOT, current)),
            power_w=_watts(power),
            throttled=any(name != _POWER_CAP for name in reasons) if known else None,
            mem_clock_mhz=self._clock(smi.AmdSmiClkType.MEM),
            throttle_reasons=reasons,
            foreign_processes=None if others is None else len(others),
        )

    def foreign_processes(self) -> tuple[int, ...] | None:
        """The process ids of others that compute on the card."""
        found = self._ask(self.smi.amdsmi_get_gpu_process_list)
        return None if found is None else without_this_process(tuple(process["pid"] for process in found))

    def _clock(self, kind: Any) -> int | None:
        found = self._ask(self.smi.amdsmi_get_clock_info, kind)
        return None if found is None else _number(found.get("clk"))

    def _ask(self, question: Any, *args: Any) -> Any:
        """As :meth:`NvmlMonitor._ask`."""
        try:
            return question(self.handle, *args)
        except self.smi.AmdSmiException:
            return None


def _number(value: Any) -> int | None:
    """AMD SMI says ``N/A`` where it knows nothing."""
    return value if type(value) is int else None


def _watts(power: Mapping[str, Any] | None) -> float | None:
    """Instinct cards tell the current power, older ones an average alone."""
    for name in ("current_socket_power", "average_socket_power", "socket_power"):
        watts = _number((power or {}).get(name))
        if watts:
            return float(watts)
    return None


def _open_amd(smi: Any, info: DeviceInfo) -> Monitor | None:
    """By its address on the PCI bus: torch and AMD SMI name a card in different ways."""
    try:
        smi.amdsmi_init()
        handles = {smi.amdsmi_get_gpu_device_bdf(handle): handle for handle in smi.amdsmi_get_processor_handles()}
    except smi.AmdSmiException as error:
        log.debug("AMD SMI does not answer: %s", error)
        return None
    handle = handles.get(info.pci_address.lower())
    return None if handle is None else AmdSmiMonitor(smi, handle, info.uuid)
