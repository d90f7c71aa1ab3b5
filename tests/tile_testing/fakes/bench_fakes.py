"""Jobs for the benchmarks' process pool that need no device. Processes of their own import this module by its name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tileflow_benchmarks.process_pool import Slot, Work


def make(settings: Any, slot: Slot) -> Work:
    """A job is a list of words: ``die``, ``hang``, ``raise`` or anything else, each a phase of its own."""

    def work(job: list[str], tell: Callable[[str], None]) -> tuple[list[str], str, str, int]:
        for word in job:
            tell(word)
            if word == "die":
                os._exit(7)
            if word == "hang":
                time.sleep(60)
            if word == "raise":
                raise RuntimeError("planted")
        return job, slot.name, os.environ["FAKE_DEVICE"], os.getpid()

    return work
