"""The binary cache keeps the machine code of the latest trials, and of each study's best for its race."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .protocol import TrialRequest

Payload = TypeVar("Payload")

LATEST = 256
BEST = 24


@dataclass(slots=True)
class BinaryCache(Generic[Payload]):
    """Binaries by trial id. ``Payload``: as in the trial queue."""

    _latest: OrderedDict[str, Payload] = field(default_factory=OrderedDict)
    _best: dict[object, list[tuple[float, str, Payload]]] = field(default_factory=dict)
    _kept: dict[str, Payload] = field(default_factory=dict)

    def put(self, trial_id: str, payload: Payload) -> None:
        """Keep the binaries of a trial that has just been built."""
        self._latest[trial_id] = payload
        self._latest.move_to_end(trial_id)
        if len(self._latest) > LATEST:
            self._latest.popitem(last=False)

    def timed(self, trial_id: str, request: TrialRequest, payload: Payload, time_us: float) -> None:
        """Keep the binaries of a timed trial while it is among the best of its study."""
        best = self._best.setdefault((request.kernel, request.problem, request.device_class, request.mode), [])
        if any(trial_id == known for _, known, _ in best):
            return
        best.append((time_us, trial_id, payload))
        best.sort(key=lambda item: item[:2])
        self._kept[trial_id] = payload
        for _, left, _ in best[BEST:]:
            del self._kept[left]
        del best[BEST:]

    def get(self, trial_id: str) -> Payload | None:
        """Return the binaries of a trial, None where they are kept no longer."""
        kept = self._kept.get(trial_id)
        return kept if kept is not None else self._latest.get(trial_id)
