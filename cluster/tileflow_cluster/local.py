"""A Ray of this process alone, of a chosen size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ray


@contextmanager
def local_ray(cpus: int, gpus: int, labels: Mapping[str, str]) -> Iterator[None]:
    """Every RayEvaluator made meanwhile works on it. ``gpus``: how many to count on, be they there or not; ``labels``:
    the node's, as :func:`tileflow_cluster.devices.labels_for` gives them."""
    ray.init("local", num_cpus=cpus, num_gpus=gpus, labels=dict(labels), include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
