"""A Ray of this process alone, of a chosen size; and an evaluator whose workers are all on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

# Read when Ray is imported: a Ray of one process listens on loopback alone.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

import ray

from tileflow.errors import ClusterError

from .placement import live_nodes
from .ray_connection import require_loopback, shut_down_ray
from .ray_errors import ray_must_start
from .ray_evaluator import RayEvaluator
from .stages import Stages


@contextmanager
def local_ray(cpus: int, gpus: int, labels: Mapping[str, str]) -> Iterator[None]:
    """Start a Ray that every RayEvaluator made meanwhile uses.

    ``gpus``: how many it counts, whether they exist or not. ``labels``: the node's, as
    :func:`tileflow_cluster.labels.labels_for` gives them. Raises ClusterError where Ray would listen on other
    interfaces than loopback.
    """
    require_loopback()
    with ray_must_start("local"):
        ray.init(
            "local", num_cpus=cpus, num_gpus=gpus, labels=dict(labels), include_dashboard=False, log_to_driver=False
        )
    try:
        yield
    finally:
        shut_down_ray()


def open_on_this_machine(stages: Stages, device_classes: Sequence[str]) -> RayEvaluator:
    """Return an evaluator on the Ray that RAY_ADDRESS names, ``local`` for one of this process alone.

    Raises ClusterError where that Ray has another host: a call's workers share memory.
    """
    address = os.environ.get("RAY_ADDRESS", "local")
    evaluator = RayEvaluator(stages, device_classes, address=address, quiet=True)
    if len(nodes := live_nodes()) > 1:
        evaluator.close()
        raise ClusterError(
            "a call is tuned by workers of its own machine",
            got=f"a Ray of {len(nodes)} nodes",
            hint="unset RAY_ADDRESS, or sweep a kernel of a module: tileflow sweep run",
        )
    return evaluator
