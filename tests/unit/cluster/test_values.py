"""The protocol's values, node labels and the placement plan: no Ray is started."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileflow_cluster.devices import VisibleGpu
from tileflow_cluster.labels import ARCH, DEVICE_CLASS, VENDOR, labels_for
from tileflow_cluster.placement import Node, gpus_for, plan, replan, unlabelled
from tileflow_cluster.protocol import (
    KernelRef,
    RaceRequest,
    TrialRequest,
    config_trial_id,
    problem_items,
    problem_key,
    source_hash,
    trial_id,
)
from tileflow_cluster.trial import Build, Phases, TrialResult

from tileflow import cost
from tileflow.config import Config
from tileflow.errors import ClusterError, InternalError, SpecError
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import DeviceFacts, Measurement, Outcome, RankedResult, Status
from tileflow.target import CATALOGUE, target

H200 = Node("1", "a", ((DEVICE_CLASS, "nvidia-h200"),), cpus=8, gpus=4)
MI300X = Node("2", "b", ((DEVICE_CLASS, "amd-mi300x"),), cpus=8, gpus=8)
CPUS = Node("3", "c", (), cpus=64, gpus=0)
FORGOTTEN = Node("4", "d", (("ray.io/node-id", "4"),), cpus=8, gpus=2)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("__main__:kernel", "module of its own"),
        ("m:f.<locals>.kernel", "top level"),
        ("kernel", "module:qualname"),
        (":k", "module:qualname"),
    ],
)
def test_a_kernel_that_workers_cannot_import_is_refused(name: str, remedy: str) -> None:
    with pytest.raises(SpecError, match=remedy):
        KernelRef(name, "h")


def test_a_problem_has_one_key_whatever_its_order() -> None:
    assert problem_items({"n": 1, "dtype": "bfloat16"}) == problem_items({"dtype": "bfloat16", "n": 1})
    assert problem_key(problem_items({"n": 1})) != problem_key(problem_items({"n": "1"}))


def test_numbers_of_two_types_are_two_problems_whichever_was_asked_first() -> None:
    """The text was remembered by the problem, and 1, 1.0 and True are one key of a mapping: a study of the second had
    the id of the first."""
    assert [problem_key((("n", value),)) for value in (1, 1.0, True, 0.0, -0.0)] == [
        '{"n":1}', '{"n":1.0}', '{"n":true}', '{"n":0.0}', '{"n":-0.0}'
    ]  # fmt: skip


parts = st.tuples(*(st.text(max_size=4) for _ in range(6)))


@given(parts, parts)
def test_trial_ids_differ_where_any_part_does(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    def identity(p: tuple[str, ...]) -> str:
        kernel = KernelRef(f"m:k{p[5].encode().hex()}", p[0])
        return trial_id(TrialRequest("r", kernel, (("n", p[1]),), p[2], Config.of({})), p[3], p[4])

    assert (identity(a) == identity(b)) == (a == b)


def test_a_trial_id_does_not_run_its_parts_together() -> None:
    assert source_hash(["ab", "c"]) != source_hash(["a", "bc"])
    request = TrialRequest("r", KernelRef("m:k", "h"), (), "d", Config.of({}))
    assert trial_id(request, "s", "t") != trial_id(replace(request, mode="dynamic"), "s", "t")


def test_requests_and_results_pickle() -> None:
    request = TrialRequest("r", KernelRef("m:k", "h", ("/src",)), (("n", 1),), "nvidia-h200", Config.of({"x": 1}))
    result = TrialResult("r", 1, 1, Build(config_trial_id(request)), Outcome(Status.CANCELLED))
    assert pickle.loads(pickle.dumps((request, result))) == (request, result)
    assert pickle.loads(pickle.dumps(request)).key == request.key


def test_infrastructure_blames_no_config_unless_blocklisted() -> None:
    lost = TrialResult("r", 1, 1, Build("t"), Outcome(Status.WORKER_LOST))
    assert not lost.blames_config
    assert TrialResult("r", 1, 1, Build("t"), Outcome(Status.WORKER_LOST), blocklisted="twice").blames_config
    assert not TrialResult("r", 1, 1, Build("t"), Outcome(Status.OOM), retried=True).blames_config


def test_labels_come_from_the_catalogue() -> None:
    for entry in CATALOGUE.values():
        gpus = [VisibleGpu("u", name, entry.name) for name in entry.display_names]
        assert labels_for(gpus)[DEVICE_CLASS] == entry.name
    assert labels_for([]) == {}


def test_a_card_that_the_catalogue_lacks_has_labels() -> None:
    """Finding 11: such a node could not join."""
    slices = [VisibleGpu(uuid, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "nvidia-sm_90a-60sm-40gb") for uuid in "ab"]
    assert labels_for(slices) == {DEVICE_CLASS: "nvidia-sm_90a-60sm-40gb", ARCH: "sm_90a", VENDOR: "nvidia"}


def test_a_node_of_two_classes_is_refused_with_the_remedy() -> None:
    gpus = [VisibleGpu("1", "NVIDIA H200", "nvidia-h200"), VisibleGpu("2", "AMD Instinct MI300X", "amd-mi300x")]
    with pytest.raises(ClusterError, match=r"nvidia-h200, amd-mi300x(.|\n)*one `ray start` for each"):
        labels_for(gpus)


def test_a_plan_measures_where_it_can_and_models_elsewhere() -> None:
    made = plan([H200, CPUS], ["nvidia-h200", "amd-mi300x"])
    assert made.compilers == 72
    assert [(d.name, d.measured, d.workers) for d in made.devices] == [
        ("nvidia-h200", True, 4),
        ("amd-mi300x", False, 1),
    ]


def test_a_plan_counts_cpus_before_it_asks_for_them() -> None:
    two = Node("1", "a", (), cpus=2, gpus=0)
    assert plan([two], ["nvidia-h200"], compilers=64).compilers == 2
    with pytest.raises(ClusterError, match="at least one CPU"):
        plan([Node("1", "a", (), cpus=0, gpus=0)], ["nvidia-h200"])


def test_an_impossible_selector_names_what_there_is() -> None:
    with pytest.raises(ClusterError) as caught:
        gpus_for([H200, FORGOTTEN], {DEVICE_CLASS: "amd-mi300x"})
    text = str(caught.value)
    assert f"{DEVICE_CLASS}=amd-mi300x" in text and f"{DEVICE_CLASS}=nvidia-h200" in text
    assert "d (8 CPUs, 2 GPUs; no labels)" in text and "tileflow_cluster.labels" in text
    with pytest.raises(ClusterError):
        gpus_for([Node("1", "a", H200.labels, cpus=1, gpus=0)], {DEVICE_CLASS: "nvidia-h200"})


def test_a_plan_follows_the_nodes() -> None:
    made = plan([H200, MI300X], ["nvidia-h200", "amd-mi300x", "nvidia-b200"])
    after = replan(made, [MI300X, CPUS], compilers=None)
    assert after.compilers == 72
    assert [(d.measured, d.workers) for d in after.devices] == [(True, 0), (True, 8), (False, 1)]


def test_forgotten_gpus_are_found() -> None:
    assert unlabelled([H200, CPUS, FORGOTTEN]) == (FORGOTTEN,)


INFINITE = (math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("number", INFINITE)
def test_no_part_of_a_record_holds_what_a_journal_refuses(number: float) -> None:
    """Issue 15: an infinite ``max_err`` ended the sweep, and each resume."""
    made: list[Callable[[], object]] = [
        lambda: Outcome(Status.INCORRECT, max_err=number),
        lambda: Outcome(Status.OK, verify_s=number),
        lambda: RankedResult(Outcome(Status.OK), number),
        lambda: DeviceFacts(power_w=number),
        lambda: Measurement((1.0, number), 1.0, 1.0, 1.0, 0.0),
        lambda: Measurement((1.0,), 1.0, 1.0, 1.0, number),
        lambda: Build("t", roofline_us=number),
        lambda: Phases(device_s=number),
    ]
    for make in made:
        with pytest.raises(InternalError, match="must be finite"):
            make()


def test_a_time_is_above_0() -> None:
    """What calls nothing took no time, and ended the sweep where a strategy was told so."""
    with pytest.raises(InternalError, match="above 0"):
        Measurement((0.0,), 0.0, 0.0, 0.0, 0.0)
    outcome = cost.model(Traffic(0, 0, "float32"), (), target("nvidia-h200"))
    assert outcome.status is Status.INVALID_STATIC and "launches nothing" in outcome.error_digest


class TestRaces:
    CONFIGS = tuple(Config.of({"x": x}) for x in (1, 2))
    PLACE = ("r", KernelRef("m:k", "h"), (("n", 1),), "nvidia-h200")

    def test_a_race_is_no_trial(self) -> None:
        """It had a config of its own, and trials had candidates that meant nothing."""
        race = RaceRequest(*self.PLACE, (("t1", self.CONFIGS[0]), ("t2", self.CONFIGS[1])), seed=3, attempt=2)
        assert not hasattr(race, "config") and not hasattr(TrialRequest(*self.PLACE, self.CONFIGS[0]), "candidates")
        assert pickle.loads(pickle.dumps(race)) == race

    def test_its_key_is_that_of_its_candidates(self) -> None:
        pair = (("t1", self.CONFIGS[0]), ("t2", self.CONFIGS[1]))
        keys = {
            RaceRequest(*self.PLACE, pair).key,
            RaceRequest(*self.PLACE, pair[:1]).key,
            RaceRequest(*self.PLACE, pair, mode="dynamic").key,
            *(TrialRequest(*self.PLACE, config).key for config in self.CONFIGS),
        }
        assert len(keys) == 5
        assert RaceRequest("another", *self.PLACE[1:], pair).key in keys

    def test_a_candidate_by_itself_is_measured_once_more(self) -> None:
        race = RaceRequest(*self.PLACE, (("t1", self.CONFIGS[0]),), incumbent_us=5.0, seed=3, attempt=2, epoch=4)
        alone = race.alone(self.CONFIGS[0])
        assert alone == TrialRequest(
            *self.PLACE, self.CONFIGS[0], incumbent_us=5.0, seed=3, attempt=2, epoch=4, remeasure=True
        )

    def test_nobody_races_nobody(self) -> None:
        with pytest.raises(InternalError, match="must have a candidate"):
            RaceRequest(*self.PLACE, ())
