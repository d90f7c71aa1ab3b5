"""The ledger under any order of events: each request ends exactly once, and old leases count for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileflow_cluster.ledger import MAX_ATTEMPTS, POISON_KILLS, PRUNED, Lease, Ledger
from tileflow_cluster.protocol import Choice, KernelRef, TrialRequest, Waiting
from tileflow_cluster.trial import Build, DeviceIdentity, TrialResult

from tileflow.config import Config
from tileflow.cost import Launch, StaticFacts
from tileflow.errors import InternalError, SpecError
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Resources

GPU = "nvidia-h200"
ON = DeviceIdentity(GPU, "host", "GPU-1")
OK = Outcome(Status.OK, Measurement((5.0,), 5.0, 5.0, 5.0, 0.0))
LOST = Outcome(Status.WORKER_LOST, None, "ActorDiedError", "died")


def request(name: str, x: int = 0, *, remeasure: bool = False) -> TrialRequest:
    return TrialRequest(name, KernelRef("m:k", "h"), (("n", 1),), GPU, Config.of({"x": x}), remeasure=remeasure)


def compile_next(ledger: Ledger[str], source: str = "", rejected: Outcome | None = None) -> Lease[str]:
    lease = ledger.lease("compile", "c")
    assert lease is not None
    identity = source or f"t{lease.request.config['x']}"
    ledger.compiled(lease, Build(identity, rejected=rejected, roofline_us=2.0), f"code {identity}")
    return lease


def device_next(ledger: Ledger[str], worker: str = "d") -> Lease[str]:
    lease = ledger.lease("device", worker, GPU)
    assert lease is not None
    return lease


def finals(ledger: Ledger[str]) -> list[TrialResult]:
    return [result for result in ledger.take_results() if result.final]


def test_a_trial_goes_through() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    compile_next(ledger)
    lease = device_next(ledger)
    assert lease.payload == "code t0" and lease.compiled is not None
    ledger.finish(lease, OK, ON)
    (result,) = ledger.take_results()
    assert (result.trial_id, result.gpu_uuid, result.attempt) == ("t0", "GPU-1", 1)
    assert result.roofline_frac == pytest.approx(0.4)
    assert ledger.pending == 0


def test_every_lease_has_the_next_epoch() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    first = compile_next(ledger)
    second = device_next(ledger)
    ledger.lost(second, LOST, blame=True)
    third = device_next(ledger)
    assert [lease.request.epoch for lease in (first, second, third)] == [1, 2, 3]
    assert [lease.request.attempt for lease in (first, second, third)] == [1, 1, 2]


def test_an_answer_to_an_old_lease_is_dropped() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    compile_next(ledger)
    old = device_next(ledger)
    ledger.lost(old, LOST, blame=False)
    new = device_next(ledger)
    ledger.finish(old, replace(OK, status=Status.INCORRECT), ON)
    assert ledger.counters().dropped == 1 and not finals(ledger)
    ledger.finish(new, OK, ON)
    ledger.finish(new, OK, ON)
    assert [result.outcome.status for result in finals(ledger)] == [Status.OK]
    assert ledger.counters().dropped == 2 and ledger.counters().considered == 1


def test_what_is_not_compiled_yet_is_withdrawn() -> None:
    ledger: Ledger[str] = Ledger()
    for n, name in enumerate(("built", "compiling", "queued")):
        ledger.submit(request(name, n))
    compile_next(ledger)
    compiling = ledger.lease("compile", "c")
    assert compiling is not None
    for name in ("built", "compiling", "queued", "unknown"):
        ledger.withdraw(name)
    assert [(r.request_id, r.outcome.status) for r in finals(ledger)] == [
        ("compiling", Status.CANCELLED), ("queued", Status.CANCELLED),
    ]  # fmt: skip
    ledger.compiled(compiling, Build("late"), "code")
    assert ledger.counters().dropped == 1
    ledger.finish(device_next(ledger), OK, ON)
    assert [r.request_id for r in finals(ledger)] == ["built"]
    ledger.submit(request("again", 1))
    assert ledger.pending == 1, "nothing is known of a config that was withdrawn"


def test_poison_is_known_afterwards() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    for worker in range(POISON_KILLS):
        lease = ledger.lease("compile", f"worker {worker}")
        assert lease is not None
        ledger.lost(lease, LOST, blame=True)
    retried, final = ledger.take_results()
    assert retried.retried and final.blames_config
    assert "worker 0" in final.blocklisted and "worker 1" in final.blocklisted
    assert final.trial_id and not retried.trial_id, "a verdict is always a trial's"
    ledger.submit(request("b"))
    (again,) = ledger.take_results()
    assert again.duplicate_of == "a" and again.blocklisted == final.blocklisted


def test_an_attempt_lost_before_it_was_built_names_no_trial() -> None:
    """Issue 15: it got an id of its own, of a trial that nobody ever saw again."""
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    lease = ledger.lease("compile", "worker 0")
    assert lease is not None
    ledger.lost(lease, LOST, blame=True)
    compile_next(ledger)
    ledger.finish(device_next(ledger), OK, ON)
    lost, final = ledger.take_results()
    assert (lost.retried, lost.build, lost.trial_id) == (True, None, "") and final.trial_id == "t0"


def test_losses_without_blame_end_too() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    compile_next(ledger)
    for _ in range(MAX_ATTEMPTS):
        ledger.lost(device_next(ledger), LOST, blame=False)
    final = ledger.take_results()[-1]
    assert final.final and not final.blames_config and final.attempt == MAX_ATTEMPTS
    ledger.submit(request("b"))
    assert ledger.lease("compile", "c") is not None, "a loss that says nothing of the config is not remembered"


def test_followers_hear_their_leader() -> None:
    ledger: Ledger[str] = Ledger()
    for name in "abc":
        ledger.submit(request(name, ord(name)))
    for _ in "abc":
        compile_next(ledger, "same")
    lease = device_next(ledger)
    assert ledger.lease("device", "d2", GPU) is None
    ledger.finish(lease, OK, ON)
    results = ledger.take_results()
    assert [result.duplicate_of for result in results] == ["", "a", "a"]
    assert {result.outcome for result in results} == {OK}


def test_a_follower_leads_where_its_leader_ends_without_an_outcome() -> None:
    ledger: Ledger[str] = Ledger()
    for name in "ab":
        ledger.submit(request(name, ord(name)))
    for _ in "ab":
        compile_next(ledger, "same")
    ledger.lost(device_next(ledger), LOST, blame=False, recompile=True)
    assert device_next(ledger).request.request_id == "b"
    compile_next(ledger, "same")
    assert ledger.waiting("device", GPU) == 0, "and now it is the one that follows"


def test_a_remeasurement_runs_though_the_outcome_is_known() -> None:
    ledger: Ledger[str] = Ledger()
    for name in ("a", "b"):
        ledger.submit(request(name, remeasure=name == "b"))
        compile_next(ledger)
        ledger.finish(device_next(ledger), OK, ON)
    assert [result.duplicate_of for result in ledger.take_results()] == ["", ""]


def test_a_pending_id_is_not_taken_twice() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.submit(request("a"))
    with pytest.raises(InternalError, match="unique"):
        ledger.submit(request("a"))


events = st.lists(
    st.tuples(
        st.sampled_from(["submit", "lease_c", "lease_d", "ok", "lose", "blame", "stale", "gone"]), st.integers(0, 3)
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(events)
def test_nothing_is_lost_and_nothing_comes_twice(script: list[tuple[str, int]]) -> None:
    """Whatever the order of leases, answers, losses and late answers, draining then leaves one final result each."""
    ledger: Ledger[str] = Ledger()
    submitted: list[str] = []
    out: list[Lease[str]] = []
    old: list[Lease[str]] = []
    for what, x in script:
        if what == "submit":
            submitted.append(f"r{len(submitted)}")
            ledger.submit(request(submitted[-1], x))
        elif what in ("lease_c", "lease_d"):
            lease = ledger.lease("compile", "c") if what == "lease_c" else ledger.lease("device", "d", GPU)
            out += [lease] if lease else []
        elif what == "stale" and old:
            _answer(ledger, old[x % len(old)])
        elif out:
            lease = out.pop(x % len(out))
            old.append(lease)
            if what == "ok":
                _answer(ledger, lease)
            else:
                ledger.lost(lease, LOST, blame=what == "blame", recompile=what == "gone")
    while out := [lease for lease in (ledger.lease("compile", "c"), ledger.lease("device", "d", GPU)) if lease]:
        for lease in out:
            _answer(ledger, lease)
    ledger.cancel(also_on_devices=True)
    assert sorted(result.request_id for result in finals(ledger)) == sorted(submitted)
    assert ledger.pending == 0


def _answer(ledger: Ledger[str], lease: Lease[str]) -> None:
    if lease.phase == "compile":
        source = f"t{int(lease.request.config['x']) // 2}"
        ledger.compiled(lease, Build(source), f"code {source}")
    else:
        ledger.finish(lease, OK, ON)


class Largest:
    """A judge that takes the config with the largest x and never those below ``least``."""

    def __init__(self, least: int = 0) -> None:
        self.least = least
        self.facts: dict[str, StaticFacts] = {}
        self.seen: list[list[str]] = []

    def built(self, request: TrialRequest, facts: StaticFacts) -> None:
        self.facts[request.request_id] = facts

    def choose(self, groups: Waiting, worker: str) -> Choice:
        waiting = [request for group in groups.values() for request in group.values()]
        self.seen.append([r.request_id for r in waiting])
        best = max(waiting, key=lambda r: int(r.config["x"]))
        dropped = tuple(r.request_id for r in waiting if int(r.config["x"]) < self.least)
        return Choice(None if best.request_id in dropped else best.request_id, dropped, incumbent_us=7.0)


def judged(judge: Largest, *names: str, remeasure: bool = False) -> Ledger[str]:
    """A ledger in which ``names`` (their digits are x) were compiled with facts and wait for the device."""
    ledger: Ledger[str] = Ledger()
    ledger.heed(judge)
    for name in names:
        ledger.submit(request(name, int(name[-1]), remeasure=remeasure))
    launch = Launch(Resources(32, 0, 0, 128), 132)
    while (lease := ledger.lease("compile", "c")) is not None:
        known = Build(f"t{lease.request.config['x']}", launches=(launch,), traffic=Traffic(1000, 0, "float32"))
        ledger.compiled(lease, known, "code")
    return ledger


def test_a_judge_chooses_what_runs_next_and_hears_the_facts() -> None:
    judge = Largest()
    ledger = judged(judge, "a1", "b3", "c2")
    assert set(judge.facts) == {"a1", "b3", "c2"} and judge.facts["a1"].fits
    assert [device_next(ledger).request.request_id for _ in range(3)] == ["b3", "c2", "a1"]
    assert judge.seen == [["a1", "b3", "c2"], ["a1", "c2"], ["a1"]]


def test_the_incumbent_is_that_of_the_moment_of_measuring() -> None:
    assert device_next(judged(Largest(), "a1")).request.incumbent_us == 7.0


def test_a_race_goes_straight_to_its_device_and_teaches_nothing_of_its_first_config() -> None:
    ledger: Ledger[str] = Ledger()
    first, second = request("a1", 1), request("b2", 2)
    race = replace(first, request_id="c", remeasure=True, candidates=(("t1", first.config), ("t2", second.config)))
    ledger.submit(race, ("code of 1", "code of 2"))
    assert ledger.lease("compile", "c") is None
    lease = device_next(ledger)
    assert lease.candidates == ("code of 1", "code of 2") and lease.payload is None
    ledger.finish(lease, Outcome(Status.OK), DeviceIdentity(GPU), 0.5)
    (result,) = finals(ledger)
    assert result.request_id == "c" and result.phases.device_s == 0.5
    ledger.submit(first)
    assert ledger.lease("compile", "c") is not None
    assert ledger.counters().considered == 0


def test_what_a_judge_drops_ends_once_and_is_told_apart() -> None:
    ledger = judged(Largest(least=2), "a1", "b3", "c0")
    assert device_next(ledger).request.request_id == "b3"
    dropped = finals(ledger)
    assert {r.request_id for r in dropped} == {"a1", "c0"}
    assert {(r.outcome.status, r.outcome.error_class) for r in dropped} == {(Status.INVALID_STATIC, PRUNED)}
    assert all(r.blames_config for r in dropped)
    assert ledger.lease("device", "d", GPU) is None and ledger.pending == 1


def test_a_judge_may_drop_everything() -> None:
    ledger = judged(Largest(least=9), "a1", "b3")
    assert ledger.lease("device", "d", GPU) is None
    assert len(finals(ledger)) == 2 and ledger.pending == 0


def test_what_is_measured_again_is_not_judged() -> None:
    judge = Largest(least=9)
    ledger = judged(judge, "a1", "b3", remeasure=True)
    assert [device_next(ledger).request.request_id for _ in range(2)] == ["a1", "b3"]
    assert not judge.facts and not judge.seen


def test_a_lost_measurement_is_repeated_before_anything_is_chosen() -> None:
    ledger = judged(Largest(), "a1", "b3", "c2")
    lease = device_next(ledger)
    ledger.lost(lease, LOST, blame=False)
    assert device_next(ledger).request.request_id == "b3"


def test_a_kernel_that_fails_ends_its_own_requests_alone() -> None:
    ledger: Ledger[str] = Ledger()
    names = ("measured", "raises", "built", "follows", "waits")
    for x, name in enumerate(names):
        ledger.submit(request(name, x))
    ledger.submit(replace(request("other"), problem=(("n", 2),)))
    for source in ("t0", "t1", "t2", "t2"):
        compile_next(ledger, source)
    measured, raises = device_next(ledger, "d1"), device_next(ledger, "d2")
    error = SpecError("a reference must not raise")
    ledger.fail_kernel(raises, error)
    ended = finals(ledger)
    assert {result.request_id: result.kernel_error for result in ended} == dict.fromkeys(names, error)
    assert not any(result.blames_config for result in ended)
    ledger.finish(measured, OK, ON)
    ledger.fail_kernel(raises, error)
    assert not ledger.take_results() and ledger.counters().dropped == 1
    assert (ledger.pending, ledger.waiting("device", GPU)) == (1, 0)
    compile_next(ledger)
    ledger.finish(device_next(ledger), OK, ON)
    assert [(result.request_id, result.kernel_error) for result in finals(ledger)] == [("other", None)]
