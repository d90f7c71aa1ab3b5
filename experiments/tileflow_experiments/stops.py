"""The signals that end a sweep: Ctrl-C, SIGTERM, and SIGHUP, which a terminal sends when it goes away."""

from __future__ import annotations

import signal

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
