"""The trial queue under any order of events: each request ends exactly once, and old leases count for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileflow_cluster.protocol import KernelRef, RaceRequest, Selection, TrialRequest, Waiting
from tileflow_cluster.trial import Build, DeviceIdentity, TrialResult
from tileflow_cluster.trial_queue import MAX_ATTEMPTS, POISON_KILLS, PRUNED, Lease, Phase, TrialQueue

from tileflow.config import Config
from tileflow.cost import Launch, StaticFacts
from tileflow.errors import ClusterError, InternalError, SpecError
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Resources

GPU = "nvidia-h200"
ON = DeviceIdentity(GPU, "host", "GPU-1")
OK = Outcome(Status.OK, Measurement((5.0,), 5.0, 5.0, 5.0, 0.0))
LOST = Outcome(Status.WORKER_LOST, None, "ActorDiedError", "died")


def request(name: str, x: int = 0, *, remeasure: bool = False) -> TrialRequest:
    return TrialRequest(name, KernelRef("m:k", "h"), (("n", 1),), GPU, Config.of({"x": x}), remeasure=remeasure)


def compile_next(queue: TrialQueue[str], source: str = "", rejected: Outcome | None = None) -> Lease[str]:
    lease = queue.lease("compile", "c")
    assert lease is not None
    identity = source or f"t{lease.request.config['x']}"
    queue.compiled(lease, Build(identity, rejected=rejected, roofline_us=2.0), f"code {identity}")
    return lease


def device_next(queue: TrialQueue[str], worker: str = "d") -> Lease[str]:
    lease = queue.lease("device", worker, GPU)
    assert lease is not None
    return lease


def finals(queue: TrialQueue[str]) -> list[TrialResult]:
    return [result for result in queue.take_results() if result.final]


def test_a_trial_goes_through() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    compile_next(queue)
    lease = device_next(queue)
    assert lease.payload == "code t0" and lease.compiled is not None
    queue.finish(lease, OK, ON)
    (result,) = queue.take_results()
    assert (result.trial_id, result.gpu_uuid, result.attempt) == ("t0", "GPU-1", 1)
    assert result.roofline_frac == pytest.approx(0.4)
    assert queue.pending == 0


def test_an_attempts_phases_add_up_to_the_time_that_it_took() -> None:
    """The time in a worker's hand, behind other work, was in none of them: a first trial was told of 4 s too early."""
    now = [0.0]
    queue: TrialQueue[str] = TrialQueue(lambda: now[0])
    queue.submit(request("a"))
    now[0] = 1.0
    lease = queue.lease("compile", "c")
    now[0] = 3.0
    assert lease is not None
    queue.compiled(lease, Build("t0", compile_s=0.5), "code")
    now[0] = 4.0
    lease = device_next(queue)
    now[0] = 9.0
    queue.finish(lease, OK, ON, 0.25)
    (result,) = queue.take_results()
    phases = result.phases
    assert (phases.queue_s, phases.built_s, phases.device_s) == (2.5, 5.75, 0.25)


def test_a_lease_without_an_answer_was_waiting() -> None:
    now = [0.0]
    queue: TrialQueue[str] = TrialQueue(lambda: now[0])
    queue.submit(request("a"))
    compile_next(queue)
    lease = device_next(queue)
    now[0] = 4.0
    queue.returned(lease)
    now[0] = 5.0
    lease = device_next(queue)
    now[0] = 6.0
    queue.finish(lease, OK, ON, 1.0)
    (result,) = queue.take_results()
    assert (result.phases.built_s, result.phases.device_s) == (5.0, 1.0)


def test_phases_add_up_where_a_trial_repeats_another_or_is_cancelled() -> None:
    """What a trial had waited for the outcome of its like, or until it was cancelled, was in none of them."""
    now = [0.0]
    queue: TrialQueue[str] = TrialQueue(lambda: now[0])
    for name, x in (("leads", 0), ("follows", 0), ("queued", 1), ("leased", 2)):
        queue.submit(request(name, x))
    compile_next(queue)
    compile_next(queue)
    now[0] = 2.0
    leading = device_next(queue)
    now[0] = 3.0
    queue.finish(leading, OK, ON, 1.0)
    queue.cancel("queued")
    leased = queue.lease("compile", "c")
    assert leased is not None and leased.request.request_id == "leased"
    now[0] = 5.0
    queue.cancel("leased")
    waited = {r.request_id: (r.phases.queue_s, r.phases.built_s, r.phases.device_s) for r in queue.take_results()}
    assert waited == {
        "leads": (0.0, 2.0, 1.0), "follows": (0.0, 3.0, 0.0), "queued": (3.0, 0.0, 0.0), "leased": (5.0, 0.0, 0.0),
    }  # fmt: skip


def test_every_lease_has_the_next_epoch() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    first = compile_next(queue)
    second = device_next(queue)
    queue.lost(second, LOST, blame=True)
    third = device_next(queue)
    assert [lease.request.epoch for lease in (first, second, third)] == [1, 2, 3]
    assert [lease.request.attempt for lease in (first, second, third)] == [1, 1, 2]


def test_an_answer_to_an_old_lease_is_dropped() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    compile_next(queue)
    old = device_next(queue)
    queue.lost(old, LOST, blame=False)
    new = device_next(queue)
    queue.finish(old, replace(OK, status=Status.INCORRECT), ON)
    assert queue.counters().dropped == 1 and not finals(queue)
    queue.finish(new, OK, ON)
    queue.finish(new, OK, ON)
    assert [result.outcome.status for result in finals(queue)] == [Status.OK]
    assert queue.counters().dropped == 2 and queue.counters().considered == 1


def test_what_is_not_compiled_yet_is_cancelled() -> None:
    queue: TrialQueue[str] = TrialQueue()
    for n, name in enumerate(("built", "compiling", "queued")):
        queue.submit(request(name, n))
    compile_next(queue)
    compiling = queue.lease("compile", "c")
    assert compiling is not None
    for name in ("built", "compiling", "queued", "unknown"):
        queue.cancel(name)
    assert [(r.request_id, r.outcome.status) for r in finals(queue)] == [
        ("compiling", Status.CANCELLED), ("queued", Status.CANCELLED),
    ]  # fmt: skip
    queue.compiled(compiling, Build("late"), "code")
    assert queue.counters().dropped == 1
    queue.finish(device_next(queue), OK, ON)
    assert [r.request_id for r in finals(queue)] == ["built"]
    queue.submit(request("again", 1))
    assert queue.pending == 1, "nothing is known of a config that was cancelled"


def test_what_its_host_let_nobody_compile_is_tried_again() -> None:
    """A full disk was each config's compile error."""
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    compile_next(queue, rejected=Outcome(Status.WORKER_LOST, None, "ClusterError", "No space left on device"))
    compile_next(queue)
    queue.finish(device_next(queue), OK, ON)
    first, last = queue.take_results()
    assert (first.outcome.status, first.final) == (Status.WORKER_LOST, False)
    assert (last.outcome.status, last.attempt) == (Status.OK, 2)


def test_a_compiler_that_the_host_does_not_start_blames_no_config() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    for _ in range(POISON_KILLS):
        lease = queue.lease("compile", "c")
        assert lease is not None
        queue.stage_raised(lease, ClusterError("a child must start", got="Too many open files"))
    assert [result.outcome.status for result in queue.take_results()] == [Status.WORKER_LOST] * POISON_KILLS


def test_poison_is_known_afterwards() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    for worker in range(POISON_KILLS):
        lease = queue.lease("compile", f"worker {worker}")
        assert lease is not None
        queue.lost(lease, LOST, blame=True)
    retried, final = queue.take_results()
    assert retried.retried and final.blames_config
    assert "worker 0" in final.blocklisted and "worker 1" in final.blocklisted
    assert final.trial_id and not retried.trial_id, "a verdict is always a trial's"
    queue.submit(request("b"))
    (again,) = queue.take_results()
    assert again.duplicate_of == "a" and again.blocklisted == final.blocklisted


def test_an_attempt_lost_before_it_was_built_names_no_trial() -> None:
    """Issue 15: it got an id of its own, of a trial that nobody ever saw again."""
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    lease = queue.lease("compile", "worker 0")
    assert lease is not None
    queue.lost(lease, LOST, blame=True)
    compile_next(queue)
    queue.finish(device_next(queue), OK, ON)
    lost, final = queue.take_results()
    assert (lost.retried, lost.build, lost.trial_id) == (True, None, "") and final.trial_id == "t0"


def test_losses_without_blame_end_too() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    compile_next(queue)
    for _ in range(MAX_ATTEMPTS):
        queue.lost(device_next(queue), LOST, blame=False)
    final = queue.take_results()[-1]
    assert final.final and not final.blames_config and final.attempt == MAX_ATTEMPTS
    queue.submit(request("b"))
    assert queue.lease("compile", "c") is not None, "a loss that says nothing of the config is not remembered"


def test_followers_hear_their_leader() -> None:
    queue: TrialQueue[str] = TrialQueue()
    for name in "abc":
        queue.submit(request(name, ord(name)))
    for _ in "abc":
        compile_next(queue, "same")
    lease = device_next(queue)
    assert queue.lease("device", "d2", GPU) is None
    queue.finish(lease, OK, ON)
    results = queue.take_results()
    assert [result.duplicate_of for result in results] == ["", "a", "a"]
    assert {result.outcome for result in results} == {OK}


def test_a_follower_leads_where_its_leader_ends_without_an_outcome() -> None:
    queue: TrialQueue[str] = TrialQueue()
    for name in "ab":
        queue.submit(request(name, ord(name)))
    for _ in "ab":
        compile_next(queue, "same")
    queue.lost(device_next(queue), LOST, blame=False, recompile=True)
    assert device_next(queue).request.request_id == "b"
    compile_next(queue, "same")
    assert queue.waiting("device", GPU) == 0, "and now it is the one that follows"


def test_a_remeasurement_runs_though_the_outcome_is_known() -> None:
    queue: TrialQueue[str] = TrialQueue()
    for name in ("a", "b"):
        queue.submit(request(name, remeasure=name == "b"))
        compile_next(queue)
        queue.finish(device_next(queue), OK, ON)
    assert [result.duplicate_of for result in queue.take_results()] == ["", ""]


def test_a_pending_id_is_not_taken_twice() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a"))
    with pytest.raises(InternalError, match="unique"):
        queue.submit(request("a"))


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
    queue: TrialQueue[str] = TrialQueue()
    submitted: list[str] = []
    out: list[Lease[str]] = []
    old: list[Lease[str]] = []
    for what, x in script:
        if what == "submit":
            submitted.append(f"r{len(submitted)}")
            queue.submit(request(submitted[-1], x))
        elif what in ("lease_c", "lease_d"):
            lease = queue.lease("compile", "c") if what == "lease_c" else queue.lease("device", "d", GPU)
            out += [lease] if lease else []
        elif what == "stale" and old:
            _answer(queue, old[x % len(old)])
        elif out:
            lease = out.pop(x % len(out))
            old.append(lease)
            if what == "ok":
                _answer(queue, lease)
            else:
                queue.lost(lease, LOST, blame=what == "blame", recompile=what == "gone")
    while out := [lease for lease in (queue.lease("compile", "c"), queue.lease("device", "d", GPU)) if lease]:
        for lease in out:
            _answer(queue, lease)
    queue.cancel_all(also_on_devices=True)
    assert sorted(result.request_id for result in finals(queue)) == sorted(submitted)
    assert queue.pending == 0


def _answer(queue: TrialQueue[str], lease: Lease[str]) -> None:
    if lease.phase == "compile":
        source = f"t{int(lease.request.config['x']) // 2}"
        queue.compiled(lease, Build(source), f"code {source}")
    else:
        queue.finish(lease, OK, ON)


class Largest:
    """A policy that takes the config with the largest x and never those below ``least``."""

    def __init__(self, least: int = 0) -> None:
        self.least = least
        self.facts: dict[str, StaticFacts] = {}
        self.seen: list[list[str]] = []

    def built(self, request: TrialRequest, facts: StaticFacts) -> None:
        self.facts[request.request_id] = facts

    def select(self, groups: Waiting, worker: str) -> Selection:
        waiting = [request for group in groups.values() for request in group.values()]
        self.seen.append([r.request_id for r in waiting])
        best = max(waiting, key=lambda r: int(r.config["x"]))
        dropped = tuple(r.request_id for r in waiting if int(r.config["x"]) < self.least)
        return Selection(None if best.request_id in dropped else best.request_id, dropped, incumbent_us=7.0)


def queue_with_policy(policy: Largest, *names: str, remeasure: bool = False) -> TrialQueue[str]:
    """A queue in which ``names`` (their digits are x) were compiled with facts and wait for the device."""
    queue: TrialQueue[str] = TrialQueue()
    queue.set_policy(policy)
    for name in names:
        queue.submit(request(name, int(name[-1]), remeasure=remeasure))
    launch = Launch(Resources(32, 0, 0, 128), 132)
    while (lease := queue.lease("compile", "c")) is not None:
        known = Build(f"t{lease.request.config['x']}", launches=(launch,), traffic=Traffic(1000, 0, "float32"))
        queue.compiled(lease, known, "code")
    return queue


def test_a_policy_selects_what_runs_next_and_hears_the_facts() -> None:
    policy = Largest()
    queue = queue_with_policy(policy, "a1", "b3", "c2")
    assert set(policy.facts) == {"a1", "b3", "c2"} and policy.facts["a1"].fits
    assert [device_next(queue).request.request_id for _ in range(3)] == ["b3", "c2", "a1"]
    assert policy.seen == [["a1", "b3", "c2"], ["a1", "c2"], ["a1"]]


def test_the_incumbent_is_that_of_the_moment_of_measuring() -> None:
    assert device_next(queue_with_policy(Largest(), "a1")).request.incumbent_us == 7.0


def test_a_race_goes_straight_to_its_device_and_teaches_nothing_of_its_first_config() -> None:
    queue: TrialQueue[str] = TrialQueue()
    first, second = request("a1", 1), request("b2", 2)
    candidates = (("t1", first.config), ("t2", second.config))
    race = RaceRequest("c", first.kernel, first.problem, first.device_class, candidates)
    queue.submit(race, ("code of 1", "code of 2"))
    assert queue.lease("compile", "c") is None
    lease = device_next(queue)
    assert lease.candidates == ("code of 1", "code of 2") and lease.payload is None
    queue.finish(lease, Outcome(Status.OK), DeviceIdentity(GPU), 0.5)
    (result,) = finals(queue)
    assert result.request_id == "c" and result.phases.device_s == 0.5
    queue.submit(first)
    assert queue.lease("compile", "c") is not None
    assert queue.counters().considered == 0


def test_what_a_policy_drops_ends_once_and_is_told_apart() -> None:
    queue = queue_with_policy(Largest(least=2), "a1", "b3", "c0")
    assert device_next(queue).request.request_id == "b3"
    dropped = finals(queue)
    assert {r.request_id for r in dropped} == {"a1", "c0"}
    assert {(r.outcome.status, r.outcome.error_class) for r in dropped} == {(Status.INVALID_STATIC, PRUNED)}
    assert all(r.blames_config for r in dropped)
    assert queue.lease("device", "d", GPU) is None and queue.pending == 1


def test_a_policy_may_drop_everything() -> None:
    queue = queue_with_policy(Largest(least=9), "a1", "b3")
    assert queue.lease("device", "d", GPU) is None
    assert len(finals(queue)) == 2 and queue.pending == 0


def test_what_is_measured_again_is_not_selectable() -> None:
    policy = Largest(least=9)
    queue = queue_with_policy(policy, "a1", "b3", remeasure=True)
    assert [device_next(queue).request.request_id for _ in range(2)] == ["a1", "b3"]
    assert not policy.facts and not policy.seen


def test_a_lost_measurement_is_repeated_before_anything_is_chosen() -> None:
    queue = queue_with_policy(Largest(), "a1", "b3", "c2")
    lease = device_next(queue)
    queue.lost(lease, LOST, blame=False)
    assert device_next(queue).request.request_id == "b3"


def test_a_kernel_that_fails_ends_its_own_requests_alone() -> None:
    queue: TrialQueue[str] = TrialQueue()
    names = ("measured", "raises", "built", "follows", "waits")
    for x, name in enumerate(names):
        queue.submit(request(name, x))
    queue.submit(replace(request("other"), problem=(("n", 2),)))
    for source in ("t0", "t1", "t2", "t2"):
        compile_next(queue, source)
    measured, raises = device_next(queue, "d1"), device_next(queue, "d2")
    error = SpecError("a reference must not raise")
    queue.fail_kernel(raises, error)
    ended = finals(queue)
    assert {result.request_id: result.kernel_error for result in ended} == dict.fromkeys(names, error)
    assert not any(result.blames_config for result in ended)
    queue.finish(measured, OK, ON)
    queue.fail_kernel(raises, error)
    assert not queue.take_results() and queue.counters().dropped == 1
    assert (queue.pending, queue.waiting("device", GPU)) == (1, 0)
    compile_next(queue)
    queue.finish(device_next(queue), OK, ON)
    assert [(result.request_id, result.kernel_error) for result in finals(queue)] == [("other", None)]


def batch(queue: TrialQueue[str], phase: Phase, most: int, worker: str = "w") -> list[Lease[str]]:
    return queue.lease_batch(phase, worker, "" if phase == "compile" else GPU, most)


def names(leases: list[Lease[str]]) -> list[str]:
    return [lease.request.request_id for lease in leases]


def test_a_call_carries_several_trials_and_never_a_race_or_a_suspect_beside_them() -> None:
    queue: TrialQueue[str] = TrialQueue()
    for x, name in enumerate("abcd"):
        queue.submit(request(name, x))
    first = batch(queue, "compile", 3)
    assert names(first) == ["a", "b", "c"]
    queue.lost(first[1], LOST, blame=False)  # b waits behind d, and a worker may have died of it
    assert names(batch(queue, "compile", 3)) == ["d"]
    assert names(batch(queue, "compile", 3)) == ["b"]
    race = RaceRequest("race", KernelRef("m:k", "h"), (("n", 1),), GPU, (("t0", Config.of({"x": 0})),))
    queue.submit(race, ("code t0",))
    for lease in (first[0], first[2]):
        queue.compiled(lease, Build(f"t{lease.trial.config['x']}"), "code")
    assert names(batch(queue, "device", 3)) == ["race"]
    assert names(batch(queue, "device", 3)) == ["a", "c"]


def test_the_loss_of_a_batch_blames_nobody_until_one_dies_alone() -> None:
    """Issue 17: of several trials of one call nobody knows which one killed its worker."""
    queue: TrialQueue[str] = TrialQueue()
    for x, name in enumerate("abc"):
        queue.submit(request(name, x))
    poison, left = "b", {"a", "b", "c"}
    compiled = 0
    deaths: list[list[str]] = []
    while left:
        leases = batch(queue, "compile", 3, f"c{len(deaths)}")
        if poison in names(leases):
            deaths.append(names(leases))
            queue.lost_batch(leases, LOST, blame=True)
        for lease in leases if poison not in names(leases) else ():
            compiled += 1
            queue.compiled(lease, Build(f"t{lease.trial.config['x']}", rejected=OK), None)
        left -= {result.request_id for result in finals(queue)}
    assert deaths == [["a", "b", "c"], ["b"], ["b"]] and compiled == 2
    (again,) = (queue.submit(request("p", 1)), finals(queue))[1]
    assert "twice: c1, c2" in again.blocklisted


def test_a_suspect_goes_to_an_idle_worker_alone() -> None:
    """Issue 17: a worker may die of one call and take the answer of the one before with it."""
    queue: TrialQueue[str] = TrialQueue()
    for x, name in enumerate("abc"):
        queue.submit(request(name, x))
        compile_next(queue)
    first, second = batch(queue, "device", 1), queue.lease_batch("device", "w", GPU, 1, idle=False)
    assert [*names(first), *names(second)] == ["a", "b"]
    queue.lost_batch([*first, *second], LOST, blame=True)
    busy = [queue.lease_batch("device", "busy", GPU, 3, idle=False) for _ in range(2)]
    assert [names(each) for each in busy] == [["c"], []], "a suspect waits until it is idle"
    alone = [queue.lease_batch("device", f"idle{i}", GPU, 3, idle=True) for i in range(2)]
    assert [(names(each), each[0].suspect) for each in alone] == [(["a"], True), (["b"], True)]
    for (lease,) in (*alone, busy[0]):
        queue.finish(lease, OK, ON)
    assert [(result.request_id, result.blocklisted) for result in finals(queue)] == [(name, "") for name in "abc"]


def test_what_a_worker_hands_back_is_not_an_attempt() -> None:
    queue: TrialQueue[str] = TrialQueue()
    queue.submit(request("a", 0))
    queue.submit(request("b", 1))
    first, other = batch(queue, "compile", 2)
    queue.compiled(first, Build("t0"), "code")
    queue.returned(other)
    (again,) = batch(queue, "compile", 2)
    assert (again.request.request_id, again.request.attempt, again.request.epoch) == ("b", 1, 2)
    assert queue.take_results() == []
