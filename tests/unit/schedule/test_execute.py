"""The executor of schedules: right ones pass whatever the interleaving, planted protocol faults are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tile_testing.kernels.schedule_bodies import Plain, Walk, edited, made

from tileflow.schedule.execute import NASTY, at_random, execute, interleavings
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.types import (
    Arrive,
    Await,
    AwaitPuts,
    Copy,
    IfAny,
    Multiply,
    OfGroup,
    Repeat,
    Round,
    Schedule,
    Staged,
    Step,
    Turn,
    Wait,
)


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_right_schedules_pass_under_every_interleaving(groups: int, stages: int, ping_pong: bool) -> None:
    for turns in (0, 1, 2, 7):
        for _, choose in interleavings(seeds=6):
            body = Plain(groups, turns)
            execute(made(groups, stages, ping_pong), body, turns, choose)
            if turns:
                found = torch.stack([body.saved[g] for g in range(groups)])
                torch.testing.assert_close(found, body.expected)


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_programs_that_walk_over_tiles(groups: int, stages: int, ping_pong: bool) -> None:
    for tiles, turns in ((1, 3), (3, 1), (4, 2), (2, 5)):
        for _, choose in interleavings(seeds=3):
            bodies = [Plain(groups, turns) for _ in range(tiles)]
            execute(made(groups, stages, ping_pong, walks=True), Walk(bodies), turns, choose, tiles)
            for body in bodies:
                torch.testing.assert_close(torch.stack([body.saved[g] for g in range(groups)]), body.expected)


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_tiles_of_different_lengths(groups: int, stages: int, ping_pong: bool) -> None:
    """As a causal loop has them: each ring goes on where the tile before left it."""
    for turns in ((5, 1, 4), (1, 2, 3, 4), (1, 1, 7), (3,)):
        for _, choose in interleavings(seeds=3):
            bodies = [Plain(groups, n) for n in turns]
            execute(made(groups, stages, ping_pong, walks=True), Walk(bodies), turns, choose, len(turns))
            for body in bodies:
                torch.testing.assert_close(torch.stack([body.saved[g] for g in range(groups)]), body.expected)


def _queries_are_kept(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Arrive, "query_empty"))


def _queries_go_before_the_last_scores(s: Schedule) -> Schedule:
    """The next tile's queries may come while this tile's last keys are multiplied by the old ones."""
    gone = Arrive("query_empty", OfGroup())
    without = _without(s, "consumer", _is(Arrive, "query_empty"))
    return edited(without, "consumer", lambda x: (gone, x) if isinstance(x, Repeat) else (x,))


def _queries_are_not_asked_for(s: Schedule) -> Schedule:
    return _without(s, "producer", _is(Wait, "query_empty"))


def _the_last_values_are_kept(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: x == Arrive("value_empty", Staged(Turn("last"))))


def _results_overwrite_each_other(s: Schedule) -> Schedule:
    return _without(s, "consumer", lambda x: isinstance(x, AwaitPuts))


WALKING = {
    _queries_are_kept: "deadlock",
    _queries_go_before_the_last_scores: "race",
    _queries_are_not_asked_for: "race",
    _the_last_values_are_kept: "deadlock",
    _results_overwrite_each_other: "race",
}


@pytest.mark.parametrize("plant", WALKING, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_of_programs_that_walk(plant: Callable[[Schedule], Schedule]) -> None:
    found = set()
    for _, choose in interleavings(seeds=5):
        try:
            execute(plant(made(walks=True)), Walk([Plain(2, 4) for _ in range(3)]), 4, choose, 3)
        except ScheduleFault as fault:
            found.add(fault.kind)
    assert WALKING[plant] in found


def test_a_ring_of_one_slot_is_a_deadlock() -> None:
    """A turn waits for its own values before it lets go of those of the turn before, which lie in the only slot."""
    assert _kinds(made(stages=1)) == {"deadlock"}


def _without(schedule: Schedule, role: str, is_it: Callable[[Step], bool]) -> Schedule:
    return edited(schedule, role, lambda s: () if is_it(s) else (s,))


def _changed(schedule: Schedule, role: str, change: Callable[[Step], Step]) -> Schedule:
    return edited(schedule, role, lambda s: (change(s),))


def _is(kind: type, barrier: str) -> Callable[[Step], bool]:
    return lambda s: isinstance(s, kind) and getattr(s, "barrier", getattr(s, "full", None)) == barrier


def _never_let_go(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Arrive, "key_empty"))


def _wrong_phase_of_the_producer(s: Schedule) -> Schedule:
    return _changed(
        s, "producer", lambda x: replace(x, round=Round(Turn())) if isinstance(x, Wait) and "value" in x.barrier else x
    )


def _wrong_phase_of_the_consumer(s: Schedule) -> Schedule:
    return _changed(
        s,
        "consumer",
        lambda x: (
            replace(x, round=Round(Turn(), behind=1)) if x == Wait("key_full", Staged(Turn()), Round(Turn())) else x
        ),
    )


def _one_slot_too_few(s: Schedule) -> Schedule:
    """The barriers go round in a ring of one slot more than the buffers have."""
    more = [replace(b, slots=b.slots + 1) if b.per == "stage" else b for b in s.barriers]
    return replace(s, stages=s.stages + 1, barriers=tuple(more))


def _let_go_before_the_product_is_over(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Repeat):
            return (step,)
        gone = next(x for x in step.steps if _is(Arrive, "value_empty")(x))
        rest = [x for x in step.steps if x is not gone]
        rest.insert(next(i for i, x in enumerate(rest) if x == Await(1, ("scores",))), gone)
        return (replace(step, steps=tuple(rest)),)

    return edited(s, "consumer", change)


def _no_arrival_at_the_order(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Arrive, "order"))


def _no_wait_for_the_order(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Wait, "order"))


def _both_groups_let_go_first(s: Schedule) -> Schedule:
    """Neither group has the head start."""

    def change(step: Step) -> Step:
        return replace(step, round=replace(step.round, head_start=0)) if _is(Wait, "order")(step) else step  # type: ignore[arg-type, union-attr]

    return _changed(s, "consumer", change)


def _swapped_barriers(s: Schedule) -> Schedule:
    """Copies of keys are told to the values' barrier, and the other way round."""
    other = {"key_full": "value_full", "value_full": "key_full"}
    return _changed(s, "producer", lambda x: replace(x, full=other.get(x.full, x.full)) if isinstance(x, Copy) else x)


def _values_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Wait, "value_full"))


def _queries_are_not_waited_for(s: Schedule) -> Schedule:
    return _without(s, "consumer", _is(Wait, "query_full"))


def _one_arrival_is_enough(s: Schedule) -> Schedule:
    """A slot is let go by the first group that is done with it."""
    return replace(s, barriers=tuple(replace(b, arrivals=1) if "empty" in b.name else b for b in s.barriers))


def _scores_are_read_too_early(s: Schedule) -> Schedule:
    return _changed(s, "consumer", lambda x: replace(x, pending=2) if x == Await(1, ("scores",)) else x)


def _weights_are_overwritten(s: Schedule) -> Schedule:
    """The narrow weights of this turn are written before the product of the turn before has been awaited."""

    def change(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Repeat):
            return (step,)
        *others, narrow = step.steps
        at = next(i for i, x in enumerate(others) if isinstance(x, Await) and x.pending == 0)
        return (replace(step, steps=(*others[:at], narrow, *others[at:])),)

    return edited(s, "consumer", change)


def _the_last_product_is_not_awaited(s: Schedule) -> Schedule:
    def change(step: Step) -> tuple[Step, ...]:
        return (replace(step, steps=step.steps[:-1]),) if isinstance(step, IfAny) else (step,)

    return edited(s, "consumer", change)


def _a_stage_behind(s: Schedule) -> Schedule:
    """The second product multiplies by this turn's values in place of those of the turn before."""
    stale = Staged(Turn())
    return _changed(
        s,
        "consumer",
        lambda x: (
            replace(x, right=replace(x.right, slot=stale))
            if isinstance(x, Multiply) and x.right.slot == Staged(Turn(offset=-1))
            else x
        ),
    )


# by planted fault, what it shows as under some interleaving
FAULTS = {
    _never_let_go: "deadlock",
    _wrong_phase_of_the_producer: "deadlock",
    _wrong_phase_of_the_consumer: "early",
    _one_slot_too_few: "race",
    _let_go_before_the_product_is_over: "race",
    _no_arrival_at_the_order: "deadlock",
    _no_wait_for_the_order: "order",
    _both_groups_let_go_first: "deadlock",
    _swapped_barriers: "deadlock",
    _values_are_not_waited_for: "early",
    _queries_are_not_waited_for: "early",
    _one_arrival_is_enough: "race",
    _scores_are_read_too_early: "early",
    _weights_are_overwritten: "race",
    _the_last_product_is_not_awaited: "early",
    _a_stage_behind: "stale",
}


def _kinds(schedule: Schedule) -> set[str]:
    """The kinds of the faults that the interleavings find."""
    found = set()
    for turns in (1, 5):
        for _, choose in interleavings(seeds=5):
            try:
                execute(schedule, Plain(2, turns), turns, choose)
            except ScheduleFault as fault:
                found.add(fault.kind)
    return found


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_planted_faults_are_found(plant: Callable[[Schedule], Schedule]) -> None:
    assert FAULTS[plant] in _kinds(plant(made()))


def test_a_deadlock_says_who_waits_for_what() -> None:
    with pytest.raises(ScheduleFault) as error:
        execute(_never_let_go(made()), Plain(2, 4), 4, at_random(0))
    text = str(error.value)
    assert re.search(r"producer waits for round 0 of key_empty\[0\] \(all groups have multiplied by these keys\)", text)
    assert "lacks 2 of 2 arrivals" in text
    assert "consumer 0 waits for" in text and "consumer 1 waits for" in text


def test_the_same_seed_is_the_same_interleaving() -> None:
    """What a seed found can be looked at again."""

    def taken(seed: int) -> list[str]:
        kinds: list[str] = []
        choose = at_random(seed)

        def note(events):  # type: ignore[no-untyped-def]
            event = choose(events)
            kinds.append(f"{event.kind} {event.number}")
            return event

        execute(made(), Plain(2, 5), 5, note)
        return kinds

    assert taken(3) == taken(3) != taken(4)


def test_nasty_interleavings_differ() -> None:
    """Each is another order of events, so that none of them is there twice."""
    orders = set()
    for choose in NASTY.values():
        kinds: list[str] = []

        def note(events, choose=choose, kinds=kinds):  # type: ignore[no-untyped-def]
            event = choose(events)
            kinds.append(f"{event.kind} {event.number} {event.age}")
            return event

        execute(made(), Plain(2, 6), 6, note)
        orders.add(tuple(kinds))
    assert len(orders) >= len(NASTY) - 2
