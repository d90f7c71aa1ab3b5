"""The journal: what is appended is read back, and no crash costs more than the line it happened in."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from tileflow_cluster.trial import Build, Phases, TrialResult
from tileflow_experiments import journal as journals
from tileflow_experiments.journal import Journal, JournalError, parse
from tileflow_experiments.records import StudyKey, TrialRecord

from tileflow.config import Config
from tileflow.cost import Launch
from tileflow.errors import SpecError
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import DeviceFacts, Measurement, Outcome, Status
from tileflow.runtime.abi import Resources

STUDY = StudyKey("m:k", (("dtype", "float32"), ("n", 64)), "nvidia-h200")
BUILD = Build("t0", "source", (("triton", "3.7.1"),), 0.5, "here", None, (Launch(Resources(32, 0, 1024, 0), 0),))
RESULT = TrialResult("", 1, 1, BUILD, Outcome(Status.OK))
CONFIG = Config.of({"x": 1, "flag": True, "mode": "a"})
BASE = TrialRecord("trial", "s", "random", 1.5, STUDY, "c0ffee", "static", CONFIG, RESULT)

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
some = st.none() | finite
pairs = st.dictionaries(st.text(max_size=3), st.text(max_size=3)).map(lambda d: tuple(sorted(d.items())))
builds = st.builds(
    Build,
    st.sampled_from(["t0", "t1", "t2"]),
    st.text(max_size=3),
    pairs,
    finite,
    st.text(max_size=3),
    launches=st.just(()) | st.just((Launch(Resources(32, 8, 1024, 0), 0),)),
    traffic=st.none() | st.just(Traffic(1000, 10, "")),
    roofline_us=some,
    modelled_us=some,
    occupancy=some,
)
outcomes = st.builds(
    Outcome,
    st.sampled_from(list(Status)),
    st.none() | st.builds(Measurement, st.lists(finite, max_size=3).map(tuple), positive, finite, finite, finite),
    st.text(max_size=3),
    st.text(max_size=20),
    some,
    *[finite] * 4,
    st.builds(DeviceFacts, st.just(""), *[st.none() | st.integers()] * 2, some, st.none() | st.booleans()),
    st.booleans(),
)
results = st.builds(
    TrialResult,
    st.just(""),
    st.integers(1, 5),
    st.integers(1, 9),
    builds,
    outcomes,
    st.builds(Phases, finite, finite, finite),
    retried=st.booleans(),
    blocklisted=st.text(max_size=5),
)
records = st.builds(
    replace,
    st.just(BASE),
    result=results,
    config=st.dictionaries(st.text(max_size=5), st.integers() | st.booleans() | st.text(max_size=5)).map(Config.of),
)


def tried(status: Status = Status.OK, time_us: float | None = None, **changes: Any) -> TrialRecord:
    """``BASE`` with another result."""
    times = None if time_us is None else Measurement((), time_us, time_us, time_us, 0.0)
    return replace(BASE, result=replace(RESULT, outcome=Outcome(status, times), **changes))


def content(lines: list[TrialRecord]) -> bytes:
    dicts = [{"kind": "header", "schema_version": 1, "sweep_id": "s"}, *({"kind": r.kind} | r.to_json() for r in lines)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in dicts)


@given(records)
def test_a_record_survives_its_line(record: TrialRecord) -> None:
    assert TrialRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert TrialRecord.from_json(BASE.to_json() | {"moon_phase": 0.3, "kind": "trial"}) == BASE


@settings(max_examples=60)
@given(st.lists(records, max_size=4), st.data())
def test_any_prefix_is_readable(lines: list[TrialRecord], data: st.DataObject) -> None:
    whole = content(lines)
    cut = data.draw(st.integers(0, len(whole)))
    read, end = parse(whole[:cut])
    assert end == whole[:cut].rfind(b"\n") + 1
    assert list(journals.attempts(read)) == lines[: max(whole[:cut].count(b"\n") - 1, 0)]


@settings(max_examples=40)
@given(st.lists(records, min_size=1, max_size=3), st.data(), st.binary(max_size=8))
def test_resuming_loses_at_most_the_torn_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[TrialRecord], data: st.DataObject, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    whole = content(lines)
    torn_from = whole[:-1].rfind(b"\n") + 1
    cut = data.draw(st.integers(torn_from, len(whole)))
    path.write_bytes(whole[:cut] + garbage.replace(b"\n", b""))
    journal = Journal.resume(path)
    journal.add(BASE)
    journal.close()
    # Garbage after the last newline is a torn line of its own; garbage inside a line costs that line.
    kept = lines if cut == len(whole) else lines[:-1]
    assert list(journals.attempts(journals.read(path))) == [*kept, BASE]


def test_damage_before_the_last_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content([BASE]) + b"\0\0\0\n" + content([BASE]))
    with pytest.raises(JournalError, match="line 3"):
        journals.read(path)


def test_a_torn_line_with_a_newline_is_torn_too() -> None:
    whole = content([BASE])
    assert parse(whole + b"\0\0\n") == parse(whole)


def test_every_opening_has_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.create(path, {"sweep_id": "s"}).close()
    for epoch in (2, 3):
        journal = Journal.resume(path)
        assert journal.epoch == epoch
        journal.close()
    assert [line["epoch"] for line in journals.events(journals.read(path), "opened")] == [1, 2, 3]


def test_one_driver_writes(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal.create(path, {"sweep_id": "s"})
    with pytest.raises(SpecError, match="one driver"):
        Journal.resume(path)
    first.close()
    Journal.resume(path).close()


def test_a_sweep_needs_a_folder_of_its_own_and_resuming_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with pytest.raises(SpecError, match=r"must hold journal\.jsonl"):
        Journal.resume(path)
    Journal.create(path, {"sweep_id": "s"}).close()
    with pytest.raises(SpecError, match="folder of its own"):
        Journal.create(path, {"sweep_id": "s"})


def test_a_journal_without_its_header_or_from_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="header"):
        Journal.resume(path)
    path.write_bytes(b'{"kind":"header","schema_version":99}\n')
    with pytest.raises(JournalError, match="upgrade"):
        Journal.resume(path)


def test_lines_are_flushed_at_once_and_synced_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("tileflow_experiments.journal.os.fsync", synced.append)
    now = [100.0]
    monkeypatch.setattr("tileflow_experiments.journal.time.monotonic", lambda: now[0])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    journal.add(BASE)
    assert not synced
    assert list(journals.attempts(journals.read(tmp_path / "journal.jsonl"))) == [BASE]
    now[0] += journals.FSYNC_S
    journal.add(BASE)
    assert len(synced) == 1
    journal.sync_when_due()
    assert len(synced) == 1
    journal.close()


def test_the_state_of_a_trial_is_its_first_verdict_else_its_latest_attempt() -> None:
    lost = tried(Status.WORKER_LOST, retried=True)
    again = tried(Status.WORKER_LOST, retried=True, attempt=2)
    good, later = tried(time_us=7.0, attempt=3), tried(time_us=9.0)

    def state(*lines: TrialRecord) -> TrialRecord:
        return journals.trials([{"kind": "trial"} | r.to_json() for r in lines])["t0"]

    assert state(lost, again) == again
    assert state(lost, again, good, later) == good
    poisoned = tried(Status.WORKER_LOST, blocklisted="killed two workers")
    assert poisoned.settled and state(poisoned, again) == poisoned
