"""One local Ray for all tests of this folder: two CPUs, two pretend GPUs labelled as H200s, loopback only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tile_testing.fakes.cluster_fakes import GPU, NODE, FakeStages
from tileflow_cluster.labels import DEVICE_CLASS

# Ray reads its environment when it is imported, which must be after the conftest above this one has set it.
if TYPE_CHECKING:
    from tileflow_cluster.ray_evaluator import RayEvaluator

MARK = f"TILEFLOW_TEST_RAY_{os.getpid()}"


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A ``ray.cluster_utils.Cluster`` with this process connected; afterwards none of its processes may be left."""
    import ray
    from ray.cluster_utils import Cluster

    # Every process that comes from this Ray inherits the mark, orphans too.
    os.environ[MARK] = "1"
    head = NODE | {"num_cpus": 2, "num_gpus": 2, "labels": {DEVICE_CLASS: GPU}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    del os.environ[MARK]
    deadline = time.monotonic() + 15
    while (left := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, f"processes left behind: {left}"


def marked_processes() -> list[str]:
    """Commands of the live processes that carry this session's mark; not Python's own tracker of a spawning process,
    which another test may have started and which ends with its parent."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # A zombie has no environment left.
            if MARK.encode() in (process / "environ").read_bytes():
                command = (process / "cmdline").read_text().replace("\0", " ")
                if "multiprocessing.resource_tracker" not in command:
                    found.append(command[:120])
        except OSError:
            continue
    return found


@pytest.fixture
def start(ray_cluster: Any, tmp_path: Path) -> Iterator[Callable[..., RayEvaluator]]:
    """``start(stages={"device_s": 0.1}, timeouts=...)``: a Ray evaluator over fake stages, closed after the test."""
    from tileflow_cluster.ray_evaluator import RayEvaluator

    started = []

    def make(
        device_classes: tuple[str, ...] = (GPU,),
        stages: dict[str, Any] | None = None,
        kind: type[FakeStages] = FakeStages,
        **options: Any,
    ) -> Any:
        evaluator = RayEvaluator(kind(**{"scratch": str(tmp_path), **(stages or {})}), device_classes, **options)
        started.append(evaluator)
        return evaluator

    yield make
    for evaluator in started:
        evaluator.close()


@pytest.fixture
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow_experiments import mlflow_log

    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
