"""Requests and sweeps over the fake stages of ``cluster_fakes``, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tileflow_cluster.protocol import Evaluator, TrialRequest
from tileflow_cluster.trial import TrialResult
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import parse
from tileflow_experiments.tuning_task import TuningTask
from tileflow_experiments.work import Tools

from tile_testing.fakes.cluster_fakes import GPU, KERNEL, MODELLED
from tileflow.config import ConfigSpace, Knob
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.problem import Problem, TensorSpec

if TYPE_CHECKING:  # Ray reads its environment when it is imported
    from tileflow_cluster.ray_evaluator import RayEvaluator

LIMIT_S = 200.0


def run(evaluator: Evaluator, requests: list[TrialRequest], limit_s: float = LIMIT_S) -> dict[str, list[TrialResult]]:
    """Everything that comes back, by request; fails where that takes too long."""
    for each in requests:
        evaluator.submit(each)
    results: dict[str, list[TrialResult]] = {each.request_id: [] for each in requests}
    deadline = time.monotonic() + limit_s
    while evaluator.pending():
        assert time.monotonic() < deadline, f"pending after {limit_s:g} s: {evaluator.pending()}"
        for result in evaluator.poll(1.0):
            results[result.request_id].append(result)
    return results


@dataclass(frozen=True)
class Prepare:
    """A space whose ``fault`` knob says what goes wrong."""

    faults: tuple[str, ...]

    def __call__(self, key: StudyKey, mode: Any) -> TuningTask:
        space = ConfigSpace((
            Knob("x", "block:x", (0, 1, 2, 3), "block", 0),
            Knob("inert", "load:a", (0, 1), "access", 0),
            Knob("fault", "tunable:fault", self.faults, "tunable", self.faults[0]),
        ))  # fmt: skip
        sizes = (int(dict(key.problem)["m"]),)
        problem = Problem(KERNEL.name, (("a", TensorSpec("float32", sizes, (1,))),))
        return TuningTask(key, KERNEL, problem, space, space.default, mode)


def spec(budget: int, *sizes: int, devices: tuple[str, ...] = (GPU, MODELLED)) -> Any:
    return parse({
        "name": "ray",
        "kernels": [{"kernel": KERNEL.name, "problems": [{"m": m} for m in sizes or (64,)]}],
        "device_classes": [*devices],
        "strategy": {"name": "exhaustive"},
        "budget": {"trials": budget},
        "modes": ["static"],
    })  # fmt: skip


def tools(start: Callable[..., RayEvaluator], faults: tuple[str, ...], **options: Any) -> Tools:
    def checked(request: Any) -> Outcome:
        return Outcome(Status.OK, measured=False)

    return Tools(lambda spec: start((GPU, MODELLED), **options), Prepare(faults), checked)
