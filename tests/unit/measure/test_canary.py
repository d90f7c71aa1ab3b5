"""Fault 18 and the foreign process of fault 8: what NVML and AMD SMI say, and what a slow canary has measured again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tileflow.measure.canary import AGAIN, LEARN, PATIENCE, Canary, NoiseGuard
from tileflow.measure.device import DeviceInfo, pci_address
from tileflow.measure.monitor import AmdSmiMonitor, NullMonitor, NvmlMonitor, open_monitor, without_this_process
from tileflow.measure.types import DeviceFacts

UUID = "GPU-00000000-1111-2222-3333-444444444444"
NVIDIA = DeviceInfo("H200", "nvidia-h200", UUID, 1, 1, "2.13", "cuda 13.0", "0000:c1:00.0")
AMD = DeviceInfo("MI300X", "amd-mi300x", UUID, 1, 1, "2.13", "hip 7.1", "0000:c1:00.0")


# ---- canaries -----------------------------------------------------------------------------------------------------


class Card:
    """Its canary takes ``us``, times what ``slow`` gives next; ``throttled`` is asked of it after each measurement."""

    def __init__(self, slow: Iterator[float] | None = None, throttled: Callable[[], bool] = lambda: False) -> None:
        self.slow, self.throttled = slow or iter(()), throttled
        self.rests: list[float] = []
        self.measured = 0
        self.watch = NoiseGuard(Canary(self.sample), self, self.rests.append)

    def sample(self, count: int) -> list[float]:
        factor = next(self.slow, 1.0)
        return [40.0 * factor, 40.5 * factor, 39.5 * factor][:count]

    def facts(self) -> DeviceFacts:
        held = self.throttled()
        return DeviceFacts(UUID, throttled=held, throttle_reasons=("thermal slowdown",) if held else ())

    def foreign_processes(self) -> tuple[int, ...] | None:
        return None

    def time(self) -> tuple[int, DeviceFacts]:
        """The number of the measurement that counted."""

        def measure() -> int:
            self.measured += 1
            return self.measured

        return self.watch.measure_stable(measure)


def test_a_steady_card_measures_once() -> None:
    card = Card(iter([1.0, 1.02, 0.99, 1.03, 1.05, 1.01]))
    found = [card.time() for _ in range(6)]
    assert [number for number, _ in found] == [1, 2, 3, 4, 5, 6] and not card.rests
    assert all(
        facts.canary_ratio is not None and facts.canary_ratio < 1.1 and facts.noise_retries is None
        for _, facts in found
    )


def test_what_a_canary_condemns_is_measured_again() -> None:
    card = Card(iter([1.0] * LEARN + [1.5, 1.0, 1.0]))
    for _ in range(LEARN):
        card.time()
    number, facts = card.time()
    assert number == LEARN + 2, "the times beside the slow canary are gone"
    assert (facts.canary_ratio, facts.noise_retries, len(card.rests)) == (1.0, 1, 1)
    assert card.time()[1].noise_retries is None


def test_a_card_that_is_held_down_measures_again() -> None:
    held = iter([False, True, False])
    card = Card(throttled=lambda: next(held, False))
    assert card.time()[0] == 1
    number, facts = card.time()
    assert (number, facts.noise_retries, facts.throttled) == (3, 1, False)


def test_what_stays_condemned_says_so() -> None:
    card = Card(iter([1.0] * LEARN + [1.5] * (AGAIN + 1)))
    for _ in range(LEARN):
        card.time()
    number, facts = card.time()
    assert number == LEARN + AGAIN + 1 and facts.noise_retries == AGAIN
    assert facts.canary_ratio == pytest.approx(1.5)
    assert card.rests == sorted(card.rests) and len(set(card.rests)) == AGAIN, "it rests longer each time"


def test_a_card_that_stays_slow_is_taken_as_it_is() -> None:
    """A sweep must not take three times as long for a neighbour that came to stay."""
    card = Card(iter([1.0] * LEARN + [1.5] * 1000))
    for _ in range(LEARN + PATIENCE):
        card.time()
    before = card.measured
    found = [card.time()[1] for _ in range(5)]
    assert card.measured == before + 5
    assert [facts.canary_ratio for facts in found[LEARN:]] == [1.0] * (5 - LEARN), "its time is the usual one by now"


def test_a_card_that_is_always_throttled_is_measured_once_a_config() -> None:
    card = Card(throttled=lambda: True)
    for _ in range(PATIENCE):
        card.time()
    before = card.measured
    assert card.time()[1].noise_retries is None and card.measured == before + 1


def test_times_that_change_in_the_first_moments_condemn_nothing() -> None:
    card = Card(iter([2.0, 1.0, 1.5]))
    assert [card.time()[0] for _ in range(3)] == [1, 2, 3]


# ---- NVML ---------------------------------------------------------------------------------------------------------


class NvmlError(Exception):
    pass


def nvml(**answers: Any) -> Any:
    """``pynvml``; a question whose answer is an exception raises it."""
    given: dict[str, Any] = {
        "clock": {0: 1980, 1: 3201},
        "temperature": 61,
        "power": 512_300,
        "reasons": 0x4,
        "pids": [os.getpid()],
    } | answers

    def ask(name: str) -> Any:
        if isinstance(given[name], Exception):
            raise given[name]
        return given[name]

    def by_uuid(uuid: str) -> str:
        if uuid != UUID:
            raise NvmlError("not found")
        return "handle"

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=0,
        NVML_CLOCK_MEM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: ask("reasons"),
        nvmlDeviceGetPowerUsage=lambda handle: ask("power"),
        nvmlDeviceGetClockInfo=lambda handle, kind: ask("clock")[kind],
        nvmlDeviceGetTemperature=lambda handle, sensor: ask("temperature"),
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=pid) for pid in ask("pids")],
    )


def test_what_nvml_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons=0x4 | 0x1, pids=[os.getpid(), 7]))
    monitor = open_monitor(NVIDIA)
    assert isinstance(monitor, NvmlMonitor) and monitor.foreign_processes() == (7,)
    assert monitor.facts() == DeviceFacts(UUID, 1980, 61, 512.3, False, 3201, ("power cap",), 1)


@pytest.mark.parametrize(
    ("reasons", "throttled", "names"),
    [(0x20, True, ("thermal slowdown",)), (0x8 | 0x4, True, ("power cap", "hardware slowdown")), (0x0, False, ())],
)
def test_what_holds_a_card_down(
    reasons: int, throttled: bool, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons=reasons))
    facts = open_monitor(NVIDIA).facts()
    assert (facts.throttled, facts.throttle_reasons) == (throttled, names)


def test_what_a_driver_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {name: NvmlError("not supported") for name in ("reasons", "power", "temperature", "pids")}
    monkeypatch.setitem(sys.modules, "pynvml", nvml(**silent))
    assert open_monitor(NVIDIA).facts() == DeviceFacts(UUID, sm_clock_mhz=1980, mem_clock_mhz=3201)


def test_an_unknown_card_and_a_missing_package_know_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    other = DeviceInfo("H200", "nvidia-h200", "GPU-other", 1, 1, "", "cuda 13.0")
    assert open_monitor(other) == NullMonitor("GPU-other")
    for name, info in (("pynvml", NVIDIA), ("amdsmi", AMD)):
        monkeypatch.setitem(sys.modules, name, None)
        monitor = open_monitor(info)
        assert monitor.facts() == DeviceFacts(UUID) and monitor.foreign_processes() is None


def test_strangers_are_told_from_this_process() -> None:
    """In a container the driver's numbers are the host's: one of them is this process, whichever."""
    me = os.getpid()
    assert without_this_process((me, 7, 9)) == (7, 9)
    assert without_this_process((me,)) == () == without_this_process(())
    assert len(without_this_process((70001, 70002))) == 1
    assert without_this_process((70001,)) == ()


# ---- AMD SMI ------------------------------------------------------------------------------------------------------


class AmdSmiException(Exception):
    pass


def smi(**answers: Any) -> Any:
    """``amdsmi``, with the names and answers of its version 7.0.2."""
    violations = dict.fromkeys(
        ("active_ppt_pwr", "active_prochot_thrm", "active_socket_thrm", "active_vr_thrm", "active_hbm_thrm"), False
    )
    given: dict[str, Any] = {
        "power": {"current_socket_power": 640, "average_socket_power": "N/A", "socket_power": 640},
        "clock": {"gfx": {"clk": 2100}, "mem": {"clk": 1300}},
        "temperature": 58,
        "violations": violations,
        "processes": [{"pid": os.getpid(), "mem": 1}, {"pid": 8, "mem": 2}],
    } | answers

    def ask(name: str) -> Any:
        if isinstance(given[name], Exception):
            raise given[name]
        return given[name]

    return SimpleNamespace(
        AmdSmiException=AmdSmiException,
        AmdSmiClkType=SimpleNamespace(GFX="gfx", MEM="mem"),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["first", "second"],
        amdsmi_get_gpu_device_bdf=lambda handle: {"first": "0000:05:00.0", "second": "0000:c1:00.0"}[handle],
        amdsmi_get_power_info=lambda handle: ask("power"),
        amdsmi_get_clock_info=lambda handle, kind: ask("clock")[kind],
        amdsmi_get_temp_metric=lambda handle, kind, metric: ask("temperature"),
        amdsmi_get_violation_status=lambda handle: ask("violations"),
        amdsmi_get_gpu_process_list=lambda handle: ask("processes"),
    )


def test_what_amd_smi_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", smi())
    monitor = open_monitor(AMD)
    assert isinstance(monitor, AmdSmiMonitor) and monitor.handle == "second" and monitor.foreign_processes() == (8,)
    assert monitor.facts() == DeviceFacts(UUID, 2100, 58, 640.0, False, 1300, (), 1)


def test_an_amd_card_that_is_held_down(monkeypatch: pytest.MonkeyPatch) -> None:
    violations = {"active_ppt_pwr": True, "active_socket_thrm": True, "active_vr_thrm": "N/A"}
    monkeypatch.setitem(sys.modules, "amdsmi", smi(violations=violations))
    facts = open_monitor(AMD).facts()
    assert (facts.throttled, facts.throttle_reasons) == (True, ("power cap", "thermal slowdown"))
    monkeypatch.setitem(sys.modules, "amdsmi", smi(violations=violations | {"active_socket_thrm": False}))
    assert open_monitor(AMD).facts().throttled is False, "the power cap alone is ordinary"


def test_what_amd_smi_does_not_know_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    error = AmdSmiException("not supported")
    unknown = {"power": {"current_socket_power": "N/A", "average_socket_power": 0}, "temperature": "N/A"}
    monkeypatch.setitem(sys.modules, "amdsmi", smi(violations=error, processes=error, **unknown))
    assert open_monitor(AMD).facts() == DeviceFacts(UUID, sm_clock_mhz=2100, mem_clock_mhz=1300)
    monkeypatch.setitem(sys.modules, "amdsmi", smi(violations=dict.fromkeys(("active_ppt_pwr",), "N/A")))
    assert open_monitor(AMD).facts().throttled is None


def test_a_cards_address_is_as_lspci_writes_it() -> None:
    assert pci_address(SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)) == AMD.pci_address
    assert pci_address(SimpleNamespace()) == ""


def test_the_stand_in_has_the_packages_names() -> None:
    """Needs nvidia-ml-py, and neither a card nor a driver."""
    real = pytest.importorskip("pynvml")
    for name in vars(nvml()):
        assert hasattr(real, name), name
    assert real.nvmlClocksThrottleReasonSwThermalSlowdown == 0x20 and real.nvmlClocksThrottleReasonSwPowerCap == 0x4
