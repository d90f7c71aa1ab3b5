"""The first second of a tuning: workers start to import while their process imports the rest."""

from __future__ import annotations

import os

from tileflow_cluster.local_pool import begin_here


def begin() -> None:
    """Start this process's workers in the background, unless the trials are for a Ray."""
    if not on_ray():
        begin_here()


def on_ray() -> bool:
    """Whether ``RAY_ADDRESS`` names a Ray to tune on."""
    return bool(os.environ.get("RAY_ADDRESS"))
