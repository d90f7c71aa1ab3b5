"""How many trials one call of a worker carries.

A call of Ray and its answer take about a millisecond of the driver's processor time, whatever they carry. So a worker
that needs little time for a trial is given several at once, and answers them together. It begins no other trial once
its time slice has passed, and hands back what it has not begun. The slice is what a result may be late by, and what a
worker's death may cost. It grows with the number of workers, for the calls of all of them come from one thread.
"""

from __future__ import annotations

import math

from .trial_queue import Phase

CALL_S = 0.001  # docs/measurements/scaling.md
CALLS_SHARE = 0.25  # of the driver's time, which calls are to take at most
LEAST_S = 0.1
# A device's limit is lower: what is chosen to be measured next depends on the results.
MOST_S: dict[Phase, float] = {"compile": 2.0, "device": 0.2}
MOST_TRIALS = 16
LATEST = 0.2  # weight of the latest trial in the mean


class BatchSizes:
    """The batch sizes of one evaluator, by device class; that of the compile workers is empty."""

    def __init__(self) -> None:
        self._mean_s: dict[str, float] = {}

    def took(self, device_class: str, seconds: float) -> None:
        """Record how long a worker of the class took for a trial."""
        mean_s = self._mean_s.get(device_class, seconds)
        self._mean_s[device_class] = mean_s + LATEST * (seconds - mean_s)

    def slice_s(self, device_class: str, workers: int) -> float:
        """Return for how many seconds a worker of the class begins trials of one call. ``workers``: of all kinds."""
        most_s = MOST_S["device" if device_class else "compile"]
        return min(max(workers * CALL_S / CALLS_SHARE, LEAST_S), most_s)

    def size(self, device_class: str, workers: int) -> int:
        """Return how many trials fill a time slice; 1 while nothing is known of the class."""
        mean_s = self._mean_s.get(device_class)
        if mean_s is None:
            return 1
        return max(min(int(self.slice_s(device_class, workers) / max(mean_s, 1e-6)), MOST_TRIALS), 1)


def fair_size(size: int, waiting: int, workers: int) -> int:
    """Return ``size``, lowered to the worker's part of what waits, so that no worker is idle for another's batch."""
    return max(min(size, math.ceil(waiting / max(workers, 1))), 1)
