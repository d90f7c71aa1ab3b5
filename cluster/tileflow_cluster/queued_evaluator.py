"""What the evaluators that keep their requests in a trial queue have in common."""

from __future__ import annotations

import textwrap
from typing import Generic

from tileflow.errors import ClusterError

from .protocol import SchedulingPolicy
from .trial_queue import Payload, TrialQueue


def no_worker(device_class: str, reason: str) -> ClusterError:
    """Return the error of a device class that nothing can be done for any more. ``reason``: why, whose first line is
    what is said where there is room for one."""
    why, _, further = reason.partition("\n")
    return ClusterError(
        "a device class must have a usable worker",
        got=f"none for {device_class}: {why}",
        hint=textwrap.indent(textwrap.dedent(further), "  ").strip(),
    )


class QueuedEvaluator(Generic[Payload]):
    """The part of the protocol that evaluators over a trial queue have in common."""

    _queue: TrialQueue[Payload]
    _draining: bool

    def pending(self) -> int:
        """Return how many requests have no result polled yet."""
        return self._queue.pending

    def set_policy(self, policy: SchedulingPolicy) -> None:
        """Let ``policy`` select what runs next on a device."""
        self._queue.set_policy(policy)

    def cancel(self, request_id: str) -> None:
        """Cancel a request that is not compiled yet."""
        self._queue.cancel(request_id)

    @property
    def draining(self) -> bool:
        """Whether the evaluator takes no more requests."""
        return self._draining
