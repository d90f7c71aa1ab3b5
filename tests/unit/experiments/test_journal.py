"""The journal: what is appended is read back, and no crash costs more than the line it happened in."""

from __future__ import annotations

import errno
import fcntl
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileflow_cluster.trial import Build, Phases, TrialResult
from tileflow_experiments import fields
from tileflow_experiments import journal as journals
from tileflow_experiments.journal import JournalError, parse
from tileflow_experiments.journal_writer import FSYNC_S, Journal, require_free
from tileflow_experiments.records import COLUMNS, StudyKey, TrialRecord

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

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def records(draw: st.DrawFn) -> TrialRecord:
    """Each figure of the build, the times and the card is there or not, as one draw says for all of it."""
    number, text = draw(finite), draw(st.text(max_size=5))
    build, times = replace(BUILD, trial_id=draw(st.sampled_from(["t0", "t1", "t2"])), compile_s=number, host=text), None
    if draw(st.booleans()):
        pairs = (("torch", "2.13"), ("triton", text))
        build = replace(build, compiled_by=pairs, traffic=Traffic(1000, 10, ""), roofline_us=number, occupancy=0.5)
    if draw(st.booleans()):
        times = Measurement((number, 2.0), abs(number) + 1, number, number, number)
    known = DeviceFacts("", 1980, 45, 350.5, False)
    noisy = replace(
        known, throttle_reasons=("power cap", text), mem_clock_mhz=3201, foreign_processes=0, canary_ratio=1.25
    )
    card = draw(st.sampled_from([DeviceFacts(), known, noisy, replace(noisy, noise_retries=2)]))
    outcome = Outcome(draw(st.sampled_from(list(Status))), times, text, text, max_err=number, device=card)
    result = replace(
        RESULT, build=build, outcome=outcome, phases=Phases(0.5, number, 0.0), attempt=draw(st.integers(1, 5)),
        retried=draw(st.booleans()), blocklisted=text,
    )  # fmt: skip
    return replace(BASE, result=result, config=Config.of({text: number, "flag": True, "mode": "a"}))


def tried(status: Status = Status.OK, time_us: float | None = None, **changes: Any) -> TrialRecord:
    """``BASE`` with another result."""
    times = None if time_us is None else Measurement((), time_us, time_us, time_us, 0.0)
    return replace(BASE, result=replace(RESULT, outcome=Outcome(status, times), **changes))


def content(lines: list[TrialRecord]) -> bytes:
    dicts = [{"kind": "header", "schema_version": 1, "sweep_id": "s"}, *({"kind": r.kind} | r.to_json() for r in lines)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in dicts)


@given(records())
def test_a_record_survives_its_line(record: TrialRecord) -> None:
    assert TrialRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert TrialRecord.from_json(BASE.to_json() | {"moon_phase": 0.3, "kind": "trial"}) == BASE


@settings(max_examples=60)
@given(st.lists(records(), max_size=4), st.data())
def test_any_prefix_is_readable(lines: list[TrialRecord], data: st.DataObject) -> None:
    whole = content(lines)
    cut = data.draw(st.integers(0, len(whole)))
    found = parse(whole[:cut])
    assert found.end == whole[:cut].rfind(b"\n") + 1 and not found.damaged
    assert list(journals.attempts(found.lines)) == lines[: max(whole[:cut].count(b"\n") - 1, 0)]


@settings(max_examples=40)
@given(st.lists(records(), min_size=1, max_size=3), st.data(), st.binary(max_size=8))
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


BAD = (
    b"\0\0\0\n",
    b'{"kind":"trial","trial_id":"half of a\n',
    b'{"no":"kind"}\n',
    b"[1]\n",
    b'{"kind":"trial","status":"ok"}\n',  # JSON still, and of no use
    b'{"kind":"event","event":"contest"}\n',
    json.dumps({"kind": "trial"} | BASE.to_json()).replace("0.5", "NaN").encode() + b"\n",
)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("where", [(1,), (3,), (3, 3), (1, 2, 3)], ids=["inside", "last", "two at the end", "many"])
def test_resuming_sets_damaged_lines_aside(
    tmp_path: Path, bad: bytes, where: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Finding 8 of issue 17: two bad lines at the end, or one inside, could neither be resumed nor salvaged."""
    path = tmp_path / "journal.jsonl"
    good = content([BASE, tried(attempt=2)]).splitlines(keepends=True)
    broken = list(good)
    for position in reversed(where):
        broken.insert(position, bad)
    path.write_bytes(b"".join(broken))
    assert list(journals.attempts(journals.read(path))) == [BASE, tried(attempt=2)], "reading passes over them"
    journal = Journal.resume(path)
    with pytest.raises(SpecError, match="one driver"):
        Journal.resume(path)
    journal.close()
    assert path.read_bytes().startswith(b"".join(good))
    assert (tmp_path / "journal.jsonl.damaged").read_bytes() == bad * len(where)
    (event,) = journals.events(journals.read(path), "salvaged")
    assert event["lines"] == len(where) == journal.damaged
    assert f"{len(where)} damaged line" in caplog.text
    again = Journal.resume(path)
    again.close()
    assert (again.damaged, again.epoch) == (0, 2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal.jsonl", "journal.jsonl.damaged"]


FOREIGN = (b"hello\n", b"not ours", b'{"my":"notes"}\n', b"one\ntwo\n", b'{"kind":"trial"}\n')


@pytest.mark.parametrize("foreign", FOREIGN, ids=range(len(FOREIGN)))
def test_a_file_of_somebody_elses_stays_as_it_is(tmp_path: Path, foreign: bytes) -> None:
    """Issue 15: a file of one line was truncated."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(foreign)
    with pytest.raises(SpecError, match="folder of its own"):
        Journal.create(path, {"sweep_id": "s"})
    with pytest.raises(JournalError, match="header"):
        Journal.resume(path)
    assert path.read_bytes() == foreign and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("begun", [b"", b'{"ki', b'{"kind":"header","schema'])
def test_a_journal_that_never_got_its_header_is_begun_anew(tmp_path: Path, begun: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(begun)
    Journal.create(path, {"sweep_id": "s"}).close()
    assert journals.header(journals.read(path))["sweep_id"] == "s"


def test_a_journal_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    for opening in (lambda path: Journal.create(path, {}), Journal.resume, journals.read):
        with pytest.raises(SpecError, match="directory"):
            opening(tmp_path / "journal.jsonl")


def test_what_json_has_no_word_for_is_refused_in_words(tmp_path: Path) -> None:
    """Issue 15: an uncaught ValueError. Records cannot hold such a number; this holds for the events."""
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    for value in (float("inf"), float("nan"), b"bytes"):
        with pytest.raises(JournalError, match=r"finite numbers(.|\n)*'event': 'clock'"):
            journal.event("clock", spent_s=value)
    journal.add(BASE)
    journal.close()
    assert list(journals.attempts(journals.read(tmp_path / "journal.jsonl"))) == [BASE]


def test_an_attempt_without_a_trial_is_no_trial() -> None:
    """Issue 15: what a dead compile worker left behind was counted as a trial of its own."""
    lost = tried(Status.WORKER_LOST, retried=True, build=None)
    assert journals.trials([{"kind": "trial"} | r.to_json() for r in (lost, tried(attempt=2))]) == {
        "t0": tried(attempt=2)
    }


def test_every_opening_has_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.create(path, {"sweep_id": "s"}).close()
    for epoch in (2, 3):
        journal = Journal.resume(path)
        assert journal.epoch == epoch
        journal.close()
    assert [line["epoch"] for line in journals.events(journals.read(path), "opened")] == [1, 2, 3]


def test_a_header_that_cannot_be_read_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    """As of an editor that put a mark before it: the error named neither the file nor the line."""
    path = tmp_path / "journal.jsonl"
    Journal.create(path, {"sweep_id": "s"}).close()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    for read in (lambda: journals.fold(journals.read(path)), lambda: Journal.resume(path)):
        with pytest.raises(JournalError, match="'event' as the first that can be read") as error:
            read()
        assert error.value.where == str(path)


def test_one_driver_writes(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal.create(path, {"sweep_id": "s"})
    with pytest.raises(SpecError, match="one driver"):
        Journal.resume(path)
    first.close()
    Journal.resume(path).close()


def test_a_sweep_needs_a_folder_of_its_own_and_resuming_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for read in (Journal.resume, journals.read):
        with pytest.raises(SpecError, match=r"must hold journal\.jsonl") as raised:
            read(path)
        assert "name the folder" in str(raised.value.hint)
    Journal.create(path, {"sweep_id": "s"}).close()
    for read in (Journal.resume, journals.read):  # the journal's own path was named
        with pytest.raises(SpecError, match=r"journal\.jsonl, which is a file"):
            read(path / "journal.jsonl")
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
    monkeypatch.setattr("tileflow_experiments.journal_writer.os.fsync", synced.append)
    now = [100.0]
    monkeypatch.setattr("tileflow_experiments.journal_writer.time.monotonic", lambda: now[0])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    journal.add(BASE)
    assert not synced
    assert list(journals.attempts(journals.read(tmp_path / "journal.jsonl"))) == [BASE]
    now[0] += FSYNC_S
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
    assert poisoned.completed and state(poisoned, again) == poisoned


PLACE = {"config": {"x": 1}, "tied": True, "ratio": 1.0, "low": 1.0, "high": 1.0}
EVENTS: list[dict[str, Any]] = [
    {"event": "opened", "epoch": 1, "at": 1.5},
    {"event": "closed", "epoch": 1, "reason": ""},
    {"event": "study", "study": "s", "semantic_hash": "h", "space_fingerprint": "f", "mode": "static"},
    {"event": "study_stopped", "study": "s", "reason": "r"},
    {"event": "clock", "spent_s": {"s": 1.5}},
    {"event": "contest", "study": "s", "places": [PLACE, {"config": {}, "tied": False}], "device_s": 0.5},
    {"event": "interpreted", "study": "s", "role": "r", "config": {"x": 1}, "status": "ok", "error": ""},
    {"event": "known", "study": "s", "trial_id": "t", "config": {"x": 1}},
    {"event": "salvaged", "lines": 3, "kept": "file"},
]


@pytest.mark.parametrize("value", [{"x": [1]}, [[]], 10**30])
def test_a_field_that_holds_something_else_damages_its_line_alone(value: Any) -> None:
    """It was found out by what was made of it: a report, Parquet, a page."""
    card = DeviceFacts("", 1980, 45, 350.5, False, 1, ("power cap",), 0, 1.25, 2)
    outcome = Outcome(Status.OK, Measurement((1.0, 2.0), 1.0, 1.0, 1.0, 0.0), "", "", 0.5, device=card)
    whole = {"kind": "trial"} | replace(BASE, result=replace(RESULT, outcome=outcome)).to_json()
    lines = [whole, *({"kind": "event"} | event for event in EVENTS)]
    assert not parse(b"".join(json.dumps(line).encode() + b"\n" for line in lines)).damaged
    for line in lines:
        for name in line.keys() - {"kind", "event"}:
            found = parse(b"".join(json.dumps(one).encode() + b"\n" for one in (line | {name: value}, line)))
            assert (len(found.damaged), len(found.lines)) == (1, 1), (line.get("event"), name)


@pytest.mark.parametrize("change", [{"config": 3}, {"tied": 1}, {"low": None}, {"high": "x"}])
def test_a_place_of_a_race_that_holds_something_else_damages_its_line(change: dict[str, Any]) -> None:
    event = {"kind": "event", "event": "contest", "study": "s", "device_s": 0.5}
    lines = [event | {"places": [PLACE]}, event | {"places": [PLACE, PLACE | change]}]
    found = parse(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert (len(found.damaged), len(found.lines)) == (1, 1)


def test_every_column_of_a_trial_is_looked_at() -> None:
    assert fields.TRIAL.keys() == {*COLUMNS}


@pytest.mark.parametrize(
    "change", [{"created_at": 10**30}, {"spec": "x"}, {"sweep_id": None}, {"tileflow": []}, {"created_at": True}]
)
def test_a_header_that_does_not_say_its_sweep_is_refused(change: dict[str, Any]) -> None:
    header = {"kind": "header", "schema_version": 1, "sweep_id": "s", "spec": {}, "created_at": 1.5, "tileflow": "0"}
    assert journals.whole_header([header]) == header
    with pytest.raises(JournalError, match="which sweep it is of"):
        journals.header([header | change])
    (name,) = change
    with pytest.raises(JournalError, match=f"none of {name}"):
        journals.whole_header([{n: v for n, v in header.items() if n != name}])


def test_a_folder_that_cannot_be_locked_is_no_place_for_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of the system's, `No locks available`, in a traceback."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    (path := tmp_path / "journal.jsonl").touch()
    with pytest.raises(SpecError, match=r"file system with locks(.|\n)*local disk"):
        require_free(path)
