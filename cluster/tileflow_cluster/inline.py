"""The evaluator in this process: the counterpart of the Ray one for one machine, for tests and for debugging."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tileflow.errors import ClusterError, TileflowError
from tileflow.runtime.abi import Binary

from .binary_cache import BinaryCache
from .protocol import AnyRequest, Counters, DeviceClass, Ordered, RaceRequest
from .queued_evaluator import QueuedEvaluator
from .stages import Compiler, Device, Stages
from .trial import TrialResult
from .trial_queue import Lease, TrialQueue

AHEAD = 4
Binaries = tuple[Binary, ...]


class InlineEvaluator(QueuedEvaluator[Binaries]):
    """One compiler and one device per class, used in turn by whoever polls.

    ``measured``: device classes of this machine's GPUs; ``modelled``: classes that the cost model stands in for.
    Raises ClusterError where a GPU is not what it should be.
    """

    def __init__(
        self,
        stages: Stages,
        *,
        measured: Sequence[str] = (),
        modelled: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._queue: TrialQueue[Binaries] = TrialQueue(clock)
        self._measured = tuple(measured)
        self._compiler: Compiler = stages.open_compiler()
        self._devices: dict[str, Device] = {name: stages.open_device(name) for name in measured}
        self._devices |= {name: stages.open_model(name) for name in modelled if name not in measured}
        self._binaries: BinaryCache[Binaries] = BinaryCache()
        self._device_s = 0.0
        self._draining = False

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return the classes it was made with, one worker each."""
        return tuple(DeviceClass(name, name in self._measured, 1) for name in self._devices)

    def capacity(self, device_class: str) -> int:
        """Return how many requests of the class are missing from :data:`AHEAD`; 0 while draining."""
        self._require(device_class)
        return 0 if self._draining else max(AHEAD - self._queue.in_flight(device_class), 0)

    def away(self, device_class: str) -> str:
        """Return no reason to wait: the devices are part of this process."""
        return ""

    def unused(self) -> tuple[str, ...]:
        """Return nothing: every device given is used."""
        return ()

    @property
    def ordered(self) -> Ordered:
        """No order: no other process knows of this evaluator."""
        return ""

    def announce(self, status: Mapping[str, Any]) -> None:
        """Do nothing: no other process asks."""

    def submit(self, request: AnyRequest) -> None:
        """Queue one request, a race with the binaries of its candidates. While draining it is cancelled at once.

        Raises ClusterError for another device class, or where a candidate's binaries are gone.
        """
        self._require(request.device_class)
        candidates = request.candidates if isinstance(request, RaceRequest) else ()
        self._queue.submit(request, tuple(self.fetch_binaries(trial_id) for trial_id, _ in candidates))
        if self._draining:
            self._queue.cancel_all(also_on_devices=True)

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Run trials until one has ended or ``timeout_s`` seconds have passed; at least one stage, however long it
        takes."""
        deadline = self._clock() + timeout_s
        results = self._queue.take_results()
        while not results and self._step():
            results = self._queue.take_results()
            if self._clock() >= deadline:
                break
        return results

    def fetch_binaries(self, trial_id: str) -> Binaries:
        """Return the binaries of a trial compiled here. Raises ClusterError where they are not kept."""
        binaries = self._binaries.get(trial_id)
        if binaries is None:
            raise ClusterError("binaries are kept of trials that were compiled here", got=trial_id)
        return binaries

    def keeps(self, trial_id: str) -> bool:
        """Whether the trial's binaries are in the cache."""
        return self._binaries.get(trial_id) is not None

    def drain(self) -> None:
        """Cancel every request, also those on a device: nothing runs between polls."""
        self._draining = True
        self._queue.cancel_all(also_on_devices=True)

    def counters(self) -> Counters:
        """Return the queue's counters with the devices' idle share, 0 to 1."""
        counters = self._queue.counters()
        capacity_s = counters.elapsed_s * len(self._devices)
        return replace(counters, device_idle=max(1 - self._device_s / capacity_s, 0.0) if capacity_s else 0.0)

    def close(self) -> None:
        """Close the compiler and the devices."""
        self._compiler.close()
        for device in self._devices.values():
            device.close()

    def _step(self) -> bool:
        """Run one stage of one trial, devices first. Returns False where nothing waits."""
        on_devices = (self._queue.lease("device", name, name) for name in self._devices)
        lease = next((lease for lease in on_devices if lease is not None), None)
        lease = lease or self._queue.lease("compile", "inline")
        if lease is None:
            return False
        try:
            if lease.phase == "compile":
                self._compile(lease)
            else:
                self._run(self._devices[lease.request.device_class], lease)
        except TileflowError as error:
            if error.retryable:
                raise
            self._queue.fail_kernel(lease, error)
        return True

    def _compile(self, lease: Lease[Binaries]) -> None:
        compiled, binaries = self._compiler.compile(lease.trial)
        if compiled.rejected is None:
            self._binaries.put(compiled.trial_id, binaries)
        self._queue.compiled(lease, compiled, binaries)

    def _run(self, device: Device, lease: Lease[Binaries]) -> None:
        assert lease.compiled is not None
        started = self._clock()
        if isinstance(lease.request, RaceRequest):
            outcome = device.race(lease.request, lease.candidates)
        else:
            assert lease.payload is not None
            outcome = device.run(lease.request, lease.compiled, lease.payload)
            if outcome.measurement is not None:
                self._binaries.timed(
                    lease.compiled.trial_id, lease.request, lease.payload, outcome.measurement.median_us
                )
        spent = self._clock() - started
        self._device_s += spent
        self._queue.finish(lease, outcome, device.identity, spent)

    def _require(self, device_class: str) -> None:
        if device_class not in self._devices:
            raise ClusterError(
                "a request's device class must be served",
                got=repr(device_class),
                hint=f"this evaluator serves: {', '.join(self._devices)}",
            )
