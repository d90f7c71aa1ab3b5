"""Shares of a cluster. No Ray is started."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileflow_cluster import sweep_registry
from tileflow_cluster.fair_share import SweepEntry, fair_shares
from tileflow_cluster.sweep_registry import RegistryClient, SweepRegistry, named

from tileflow.errors import SpecError

GPU, OTHER = "nvidia-h200", "amd-mi300x"


def entry(
    name: str, *classes: str, since: int = 0, compilers: int = 64, priority: int = 1, order: str = ""
) -> SweepEntry:
    return SweepEntry(name, classes, compilers, priority, since, order=order)  # type: ignore[arg-type]


def shares(entries: list[SweepEntry], cpus: int, **gpus: int) -> dict[str, tuple[int, int]]:
    found = fair_shares(entries, cpus, {GPU: gpus.get("gpus", 0)})
    return {name: (share.compilers, share.gpus.get(GPU, 0)) for name, share in found.items()}


def test_one_sweep_has_all() -> None:
    assert shares([entry("a", GPU)], 16, gpus=4) == {"a": (16, 4)}


def test_two_sweeps_share_by_priority() -> None:
    assert shares([entry("a", GPU, since=1), entry("b", GPU, since=2)], 16, gpus=4) == {"a": (8, 2), "b": (8, 2)}
    favoured = [entry("a", GPU, since=1), entry("b", GPU, since=2, priority=3)]
    assert shares(favoured, 16, gpus=4) == {"a": (4, 1), "b": (12, 3)}


def test_compile_slots_follow_gpus() -> None:
    both = [entry("a", GPU, OTHER, since=1), entry("b", OTHER, since=2)]
    found = fair_shares(both, 8, {GPU: 2, OTHER: 2})
    assert {n: (s.compilers, dict(s.gpus)) for n, s in found.items()} == {
        "a": (6, {GPU: 2, OTHER: 1}), "b": (2, {OTHER: 1}),
    }  # fmt: skip


def test_who_cannot_have_a_gpu_waits_its_turn_with_one_compiler() -> None:
    found = shares([entry("late", GPU, since=2), entry("early", GPU, since=1)], 8, gpus=1)
    assert found == {"early": (7, 1), "late": (1, 0)}
    urgent = [entry("early", GPU, since=1), entry("late", GPU, since=2, priority=2)]
    assert shares(urgent, 8, gpus=1) == {"early": (1, 0), "late": (7, 1)}


def test_a_paused_sweep_takes_nothing() -> None:
    assert shares([entry("a", GPU, since=1, order="pause"), entry("b", GPU, since=2)], 8, gpus=2) == {
        "a": (0, 0), "b": (8, 2),
    }  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.sampled_from(["", GPU, OTHER])), max_size=6),
    st.integers(0, 40),
    st.integers(0, 9),
)
def test_nothing_is_given_twice_nor_kept_from_who_wants_it(
    asked: list[tuple[int, int, str]], cpus: int, gpus: int
) -> None:
    entries = [
        entry(f"s{n}", *filter(None, [name]), since=n, priority=priority, compilers=compilers)
        for n, (priority, compilers, name) in enumerate(asked)
    ]
    found = fair_shares(entries, cpus, {GPU: gpus})
    assert found == fair_shares(entries[::-1], cpus, {GPU: gpus}), "every sweep works out the same"
    wanting = [e for e in entries if GPU in e.classes]
    assert sum(found[e.sweep_id].gpus.get(GPU, 0) for e in entries) == (gpus if wanting else 0)
    given_cpus = sum(share.compilers for share in found.values())
    assert given_cpus <= cpus and all(found[e.sweep_id].compilers <= e.compilers for e in entries)


def test_a_head_that_does_not_answer_holds_up_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 6 under load: the registry went with the head, and the driver asked the head for another until Ray ended
    it after 60 s. Where the registry cannot be reached it is looked for again."""
    head_is_back, looked = threading.Event(), list[int]()

    def look() -> object:
        looked.append(threading.get_ident())
        if len(looked) == 1:
            head_is_back.wait(30.0)
            raise ConnectionError("the head was restarted")
        return SimpleNamespace(enter=SimpleNamespace(remote=lambda told: told))

    monkeypatch.setattr(sweep_registry, "get_or_create_registry", look)
    client = RegistryClient(entry("a-1", GPU), 0.01)
    began = time.monotonic()
    assert not any(client.heartbeat({}) for _ in range(3))
    assert time.monotonic() - began < 5.0 and client._answer is None and len(looked) == 1
    head_is_back.set()
    while client._answer is None and time.monotonic() - began < 30.0:
        assert not client.heartbeat({"trials": 3})
    assert client._answer == replace(entry("a-1", GPU), status={"trials": 3})
    assert len(looked) == 2 and threading.get_ident() not in looked


def test_the_registry_forgets_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tileflow_cluster.sweep_registry.time.monotonic", lambda: now[0])
    registry = SweepRegistry()
    registry.enter(entry("a-1", GPU))
    now[0] = 15.0
    assert [(e.sweep_id, e.since) for e in registry.enter(entry("b-1", GPU))] == [("a-1", 1), ("b-1", 2)]
    assert registry.order("a", "pause") == ["a-1"] and registry.order("c", "stop") == []
    assert [e.order for e in registry.entries()] == ["pause", ""]
    now[0] = 30.0
    assert [e.sweep_id for e in registry.enter(entry("b-1", GPU))] == ["b-1"]


def test_an_order_is_for_one_sweep() -> None:
    """`stop ""`, as of a variable of the shell that is not set, stopped everybody's sweeps; `stop demo` stopped
    `demo-large` too, and a colleague's `demo`."""
    mine, large = entry("demo-aaa111", GPU), entry("demo-large-bbb222", GPU)
    parts = [replace(entry(f"two-{n}-{n}{n}{n}ccc", GPU), part=0.5) for n in range(2)]
    everybody = [mine, large, *parts]
    assert named(everybody, "demo") == named(everybody, "demo-a") == named(everybody, mine.sweep_id) == ["demo-aaa111"]
    assert named(everybody, "demo-l") == ["demo-large-bbb222"] and named(everybody, "other") == []
    assert named(everybody, "two") == named(everybody, "tw") == [part.sweep_id for part in parts]
    assert named(everybody, "two-1") == [parts[1].sweep_id]
    for several in ("", "d", "demo-"):
        with pytest.raises(SpecError, match="one sweep of the cluster"):
            named(everybody, several)
    with pytest.raises(SpecError, match="one sweep of the cluster"):
        named([mine], "")
    with pytest.raises(SpecError, match="demo-aaa111, demo-fff999"):
        named([mine, entry("demo-fff999", GPU)], "demo")
    with pytest.raises(SpecError, match="one sweep of the cluster"):
        named([*parts, replace(parts[0], sweep_id="two-0-ddd444")], "two")
