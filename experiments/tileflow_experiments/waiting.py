"""A word about code of an author's that runs in the driver's own process and does not come back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 30.0

log = logging.getLogger(__name__)


@contextmanager
def said_when_slow(what: str) -> Iterator[None]:
    """Log once that ``what`` is waited for, where the block takes longer than :data:`PATIENCE_S` seconds.

    Nothing is interrupted: an import may take minutes, and whoever reads the message may press Ctrl-C.
    """
    said = threading.Timer(PATIENCE_S, log.warning, ("%s has not come back for %g s; Ctrl-C ends it", what, PATIENCE_S))
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()
