"""Whether a call is tuned by workers of this machine alone."""

from __future__ import annotations

import os


def on_ray() -> bool:
    """Whether ``RAY_ADDRESS`` names a Ray to tune on."""
    return bool(os.environ.get("RAY_ADDRESS"))
