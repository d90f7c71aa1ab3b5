"""Since when device classes have had no node, and for how long that is waited for."""

from __future__ import annotations

import logging
import time

from .labels import DEVICE_CLASS

log = logging.getLogger("tileflow.cluster")


class Absences:
    """The device classes without a node; the empty one is compiling. ``patience_s``: for how long one may have none."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[str, float] = {}

    def __contains__(self, device_class: str) -> bool:
        return device_class in self._since

    def note(self, device_class: str, workers: int) -> None:
        """Take in how many workers the nodes of the class have a place for now."""
        what = device_class or "compiling"
        if not workers and device_class not in self._since:
            self._since[device_class] = time.monotonic()
            log.warning("the last node for %s has gone; its work waits up to %g s for one", what, self._patience_s)
        elif workers and self._since.pop(device_class, None) is not None:
            log.info("a node for %s is back", what)

    def why_over(self, device_class: str) -> str:
        """Return why the class is waited for no longer; empty while it is, or has a node."""
        now = time.monotonic()
        if now - self._since.get(device_class, now) <= self._patience_s:
            return ""
        label = f"{DEVICE_CLASS}={device_class}" if device_class else "CPUs"
        return f"no node with {label} came back within {self._patience_s:g} s"
