"""``tileflow.interpret``: kernels as plain Python over real tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from .config import Choice

interpreted_config: ContextVar[Mapping[str, Choice] | None] = ContextVar("tileflow_interpreting", default=None)
interpretations = [0]  # that are open in any thread: none, mostly, and then no call asks further


@contextlib.contextmanager
def interpret(config: Mapping[str, Choice] | None = None) -> Iterator[None]:
    """Inside, kernels run as plain Python over real tiles, with ``config``'s block sizes where it names them."""
    token = interpreted_config.set(config or {})
    interpretations[0] += 1
    try:
        yield
    finally:
        interpretations[0] -= 1
        interpreted_config.reset(token)


def interpreting() -> bool:
    """Whether the calls of this thread stand inside :func:`interpret`."""
    return interpreted_config.get() is not None
