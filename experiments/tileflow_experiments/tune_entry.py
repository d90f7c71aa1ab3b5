"""Where ``tileflow.tune`` enters: this machine's workers start before what searches is imported; each takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileflow_cluster.local_pool import begin_here

from .local_or_ray import on_ray


def tune_calls(calls: Sequence[tuple[Any, ...]], **options: Any) -> list[Any]:
    """Tune the calls as :func:`tileflow.tune` does, on workers of this machine or on those of Ray."""
    if calls and not on_ray():
        begin_here()
    from .tune import tune_calls as tune

    return list(tune(calls, **options))
