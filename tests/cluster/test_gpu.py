"""The Ray evaluator with its real stages on a real GPU, whatever class it is."""

from __future__ import annotations

from typing import Any

import pytest
from tile_testing import ROOT
from tile_testing.fakes.cluster_runs import run
from tileflow_cluster.protocol import KernelRef, TrialRequest, problem_items

from tileflow.measure.types import Status

pytestmark = pytest.mark.gpu
SIZES = problem_items({"n": 1 << 24, "dtype": "float32"})


def test_a_kernel_is_compiled_and_measured_through_ray() -> None:
    import ray
    from ray.cluster_utils import Cluster
    from tileflow_cluster.devices import visible_gpus
    from tileflow_cluster.labels import DEVICE_CLASS, labels_for
    from tileflow_cluster.pipeline import TileflowStages
    from tileflow_cluster.ray_evaluator import RayEvaluator

    from examples.vector_add import vector_add
    from tileflow.target import target

    gpus = visible_gpus()
    labels = labels_for(gpus)
    head: dict[str, Any] = {"num_cpus": 4, "num_gpus": len(gpus), "labels": labels, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        device_class = labels[DEVICE_CLASS]
        lowered = vector_add.lower(vector_add.inputs(device="meta", **dict(SIZES)), target(device_class))
        ref = KernelRef("examples.vector_add:vector_add", vector_add.semantic_hash, (str(ROOT),))
        warps = next(knob for knob in lowered.space.knobs if knob.name.endswith("num_warps"))
        requests = [
            TrialRequest(f"w{w}", ref, SIZES, device_class, lowered.default.with_({warps.name: w}))
            for w in warps.choices
        ]
        evaluator = RayEvaluator(TileflowStages(), (device_class,), must_measure=True)
        results = run(evaluator, requests, limit_s=240.0)
        counters = evaluator.counters()
        evaluator.close()
    finally:
        ray.shutdown()
        cluster.shutdown()
    ended = {name: each[-1] for name, each in results.items()}
    assert {result.outcome.status for result in ended.values()} == {Status.OK}, ended
    assert all(result.outcome.measured for result in ended.values())
    assert {result.gpu_uuid for result in ended.values()} <= {f"GPU-{gpu.uuid}" for gpu in gpus}
    assert all(result.roofline_frac and 0.1 < result.roofline_frac < 1.1 for result in ended.values())
    assert counters.measured == len(requests)
