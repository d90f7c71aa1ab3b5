"""A reference that is not made in time: what it costs the other problems of its measuring process.

The child's own code runs in a process without a device. The data that it makes is counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes.cpu_measuring import MAKES_S, ask, measuring

from tileflow.errors import SlowProblem, SpecError
from tileflow.measure.deadline import Alarm, Allowance
from tileflow.measure.request import EARLIER_S, LEAST_S, Limits
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Status

OTHERS = range(1, 10)
FAILING = 50
LIMITS = Limits(prepare_others_waiting=4.0)
WAITING = LIMITS.while_others_wait()
LATE_S = 2.5  # of a busy machine


class Search:
    """A process that has the data of :data:`OTHERS`. ``made``: how often each size's inputs were made since."""

    def __init__(self, process: MeasureProcess, log: Path) -> None:
        self.process, self._log = process, log
        log.write_text("")
        for n in OTHERS:
            assert ask(process, "Twice", n, WAITING).status is Status.OK
        assert self.made == Counter(OTHERS)

    @property
    def made(self) -> Counter[int]:
        return Counter(int(line.split()[0]) for line in self._log.read_text().splitlines())

    def fails(self, kernel: str, limits: Limits, error: type[SpecError] = SlowProblem) -> tuple[str, float]:
        """What a problem of ``kernel`` is told, and after how many seconds."""
        began = time.monotonic()
        with pytest.raises(error) as told:
            ask(self.process, kernel, FAILING, limits)
        return str(told.value), time.monotonic() - began

    def remade(self) -> int:
        """How many of the others' data is made anew for their next trials."""
        before = self.made
        for n in OTHERS:
            assert ask(self.process, "Twice", n, WAITING).status is Status.OK
        return (self.made - before).total()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MeasureProcess, Path]]:
    log = tmp_path_factory.mktemp("measuring") / "made"
    with measuring(log) as process:
        yield process, log


@pytest.fixture
def search(measured: tuple[MeasureProcess, Path]) -> Search:
    measured[0].rest()
    return Search(*measured)


@pytest.mark.parametrize("kernel", ["Sleeps", "Insists", "Leaves"])
def test_it_is_interrupted_and_the_others_keep_their_data(
    search: Search, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held up the others until its process was ended, and then until all of theirs was made anew: 2.7 s by the log
    and 1.16 times the seconds a trial of nine studies on an H200."""
    said, took_s = search.fails(kernel, WAITING)
    assert f"must be made in {LEAST_S:g} s, but got longer; others' took 0.0" in said
    assert took_s < LEAST_S + LATE_S < WAITING.prepare
    with monkeypatch.context() as patch:
        patch.setattr(search.process, "_ask", lambda *_, **__: pytest.fail("it is not tried again while others wait"))
        search.fails(kernel, WAITING)
    assert search.remade() == 0


def test_its_inputs_and_its_reference_have_one_limit(search: Search) -> None:
    """Each had the whole: inputs of half a second left the reference as long as before."""
    limits = replace(WAITING, prepare=1.0)
    said, took_s = search.fails("SlowInputs", limits)
    assert "must be made in 0.75 s" in said and took_s < 1.0 + LATE_S
    assert ask(search.process, "SlowInputs", FAILING, replace(LIMITS, prepare=8.0)).status is Status.OK
    assert search.remade() == 0


def test_one_call_that_nothing_interrupts_costs_the_process(search: Search) -> None:
    limits = replace(WAITING, prepare=1.0)
    said, took_s = search.fails("Deaf", limits)
    assert "must be made in 1 s" in said and took_s < 1.0 + 2 * LATE_S
    assert search.remade() == len(OTHERS)


def test_one_that_leaves_torch_changed_costs_the_process(search: Search) -> None:
    search.fails("Spoils", WAITING)
    assert search.remade() == len(OTHERS)


def test_one_that_does_not_bear_to_be_interrupted_has_a_fresh_process_in_the_end(search: Search) -> None:
    """While others wait it costs them nothing; when none does, what it raises is not its author's doing."""
    search.fails("Begins", WAITING)
    assert search.remade() == 0
    assert ask(search.process, "Begins", FAILING, LIMITS).status is Status.OK


def test_an_import_is_not_interrupted(search: Search) -> None:
    """Modules do not bear to be imported by halves, and again."""
    with suppress(SlowProblem):  # where the alarm rings at once afterwards
        ask(search.process, "Imports", FAILING, WAITING)
    assert ask(search.process, "Imports", FAILING, LIMITS).status is Status.OK
    assert search.remade() == 0


def test_a_text_without_calls_of_torch_is_interrupted_too(search: Search) -> None:
    """It had twice its limit, and then cost the process."""
    limits = replace(WAITING, text=2.0)
    said, took_s = search.fails("EndlessText", limits, SpecError)
    assert "planted: no witnesses" in said and took_s < 2 * limits.text
    assert search.remade() == 0


def test_patience_goes_by_what_the_others_took() -> None:
    first = WAITING.prepare - EARLIER_S
    assert [WAITING.author_s(slowest) for slowest in (None, MAKES_S, 0.5, 60.0)] == [first, LEAST_S, 2.0, first]
    assert LIMITS.author_s(MAKES_S) == LIMITS.prepare - EARLIER_S, "nobody waits"
    assert replace(WAITING, prepare=0.4).author_s(MAKES_S) == pytest.approx(0.3)


def test_outside_a_measuring_process_nothing_is_interrupted() -> None:
    """A process of the user's own has alarms of its own, and so has a test's."""
    with Alarm(0.01):
        time.sleep(0.1)
    allowance = Allowance(1.0)
    assert allowance.limited(lambda x, *, y: x + y)(1, y=2) == 3 and 0 < allowance.seconds < 1.0
