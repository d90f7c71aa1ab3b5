"""Configs that no GPU has run are run through Triton's interpreter at small odd sizes, and journalled.

Modelled winners are checked, each until one is right, and a few random configs of every problem that no GPU has
searched, so that a kernel whose default happens to be right does not hide an error elsewhere in its space.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tileflow.config import Config
from tileflow.errors import TileflowError
from tileflow.measure.failure import failed
from tileflow.measure.interpret import InterpretRequest
from tileflow.measure.types import Outcome, Status

from . import journal as journals
from .journal import Folded
from .journal_writer import Writer
from .records import StudyKey, how_they_ended
from .study import Study, leaders

Check = Callable[[InterpretRequest], Outcome]

# How a completed check ends. Any other end says nothing of the config, and the next session tries again.
WRONG = (Status.INCORRECT, Status.NONFINITE)
MADE = (Status.OK, *WRONG)
WINNERS_TRIED = 3
RANDOM_CONFIGS = 5
UNMADE_TRIED = 2  # checks of one problem that cannot be made: the next would end as they did
LEAST_S = 5.0  # of a random config's check, however little time is left


def verify(
    studies: Sequence[Study],
    journal: Writer,
    check: Check,
    *,
    seed: int,
    stopping: Callable[[], bool] = lambda: False,
    random_s: float | None = None,
    show: Callable[[str], None] = lambda doing: None,
) -> list[Study]:
    """Check what no earlier session of the sweep has checked; return early once ``stopping``.

    ``show`` is told what is checked now: the author's functions run in a check, and may take all of its time.

    ``random_s``: seconds after which no further random config is checked, though one of each problem is; a journal's
    event says how many were left out. None for as long as it takes. Winners are always checked.

    A check that cannot be made says nothing about a config and costs no study anything; it is journalled for the
    report. After :data:`UNMADE_TRIED` of one problem its other configs are left out, since inputs or a reference that
    hang or end their process do so whatever the config. Returns the studies whose winner was neither measured nor
    checked.
    """
    checks = _Checks(journal, check, seed, stopping, show)
    checks.of_winners(studies)
    unchecked = [study for study in studies if not _winner_is_right(study, checks.known)]
    checks.of_random_configs(studies, math.inf if random_s is None else time.monotonic() + random_s)
    return unchecked


class _Checks:
    """The checks of one session. ``known``: how those ended that were made, in earlier ones too; the other arguments
    are :func:`verify`'s."""

    def __init__(
        self,
        journal: Writer,
        check: Check,
        seed: int,
        stopping: Callable[[], bool],
        show: Callable[[str], None],
    ) -> None:
        self._journal, self._check, self._seed, self._stopping, self._show = journal, check, seed, stopping, show
        self._unmade = Counter[object]()
        self.known = {
            (e["study"], Config.of(e["config"])): Status(e["status"])
            for e in journals.events(journal.lines, "interpreted")
            if e["status"] in MADE
        }

    def of_winners(self, studies: Sequence[Study]) -> None:
        """Of the configs that no GPU has measured and a model thinks fastest, each until one is right."""
        for study in studies:
            for record in [r for r in leaders(study.completed.values()) if not r.measured][:WINNERS_TRIED]:
                if self._stopping() or self._is_futile(study) or (study.best is not None and study.best.measured):
                    break
                if self._made(study, record.config, "winner") is Status.OK:
                    break

    def of_random_configs(self, studies: Sequence[Study], until: float) -> None:
        """Of a few random configs of every problem, of one where the time is over."""
        for study in _one_a_problem(studies):
            configs = _random_configs(study, self._seed)
            for position, config in enumerate(configs):
                if self._stopping():
                    return
                if study.stopped:
                    break
                left_s = until - time.monotonic()
                if self._is_futile(study) or (left_s <= 0 and position):
                    left_out = len(configs) - position
                    self._journal.event("not_interpreted", study=study.task.key.id, configs=left_out)
                    break
                self._made(study, config, "random", max(left_s, LEAST_S))

    def _is_futile(self, study: Study) -> bool:
        return self._unmade[_problem(study)] >= UNMADE_TRIED

    def _made(self, study: Study, config: Config, role: str, most_s: float = math.inf) -> Status:
        """How the check of a config ends, or has ended."""
        key = (study.task.key.id, config)
        if key in self.known:
            return self.known[key]
        self._show(f"checking {role} configs of {study.task.key.title} in the interpreter")
        request = _request(study, config, self._seed)
        try:
            outcome = self._check(replace(request, limit_s=min(request.limit_s, most_s)))
        except TileflowError as error:
            outcome = replace(failed(Status.CANCELLED, error), measured=False)
        if self._stopping():
            return Status.CANCELLED  # its process was ended during the check
        self._journal.event(
            "interpreted",
            study=study.task.key.id,
            role=role,
            config=config.to_dict(),
            status=outcome.status.value,
            max_err=outcome.max_err,
            error=outcome.error_digest,
        )
        self.known[key] = outcome.status
        self._unmade[_problem(study)] += outcome.status not in MADE
        return outcome.status


def how_it_ended(folded: Folded, key: StudyKey) -> str:
    """Return how a search's trials ended, and what the interpreter said of those that only a model has timed: why no
    config works."""
    trials = folded.trials.get(key, ())
    tried = {record.config for record in trials}
    wrong = {config: error for config, error in _interpreted_wrong(folded, key).items() if config in tried}
    said = Counter(error.splitlines()[0] for error in wrong.values() if error)
    most = f", most often: {said.most_common(1)[0][0]}" if said else ""
    found = f"; {len(wrong)} found wrong in the interpreter{most}" if wrong else ""
    return how_they_ended(trials) + found


def some_config_works(folded: Folded, key: StudyKey) -> bool:
    """Whether a search has a config that ended well, and that the interpreter did not find wrong."""
    wrong = _interpreted_wrong(folded, key)
    return any(record.config not in wrong for record in leaders(folded.trials.get(key, ())))


def _interpreted_wrong(folded: Folded, key: StudyKey) -> dict[Config, str]:
    """Return the configs of a search that the interpreter found wrong, with what it said."""
    found = journals.events(folded.of(key), "interpreted")
    return {Config.of(e["config"]): e.get("error", "") for e in found if e["status"] in WRONG}


def _problem(study: Study) -> object:
    """Return what the author's functions are given, whichever device it is searched for."""
    return study.task.key.kernel, study.task.key.problem


def _winner_is_right(study: Study, known: Mapping[tuple[str, Config], Status]) -> bool:
    """Whether a GPU has checked the winner, or the interpreter found it right.

    The winner is the fastest config that the interpreter did not find wrong. True where no config works.
    """
    for record in leaders(study.completed.values()):
        status = Status.OK if record.measured else known.get((study.task.key.id, record.config))
        if status not in WRONG:
            return status is Status.OK
    return True


def _one_a_problem(studies: Iterable[Study]) -> list[Study]:
    """Return the first study of each (kernel, problem), without those whose configs a GPU has checked.

    One is enough, since sources differ little between device classes.
    """
    first: dict[object, Study] = {}
    checked = set()
    for study in studies:
        what = _problem(study)
        first.setdefault(what, study)
        if study.best is not None and study.best.measured:
            checked.add(what)
    return [study for what, study in first.items() if what not in checked]


def _random_configs(study: Study, seed: int) -> list[Config]:
    rng = random.Random(seed)
    return list(dict.fromkeys(study.task.space.sample(rng) for _ in range(RANDOM_CONFIGS)))


def _request(study: Study, config: Config, seed: int) -> InterpretRequest:
    task = study.task
    return InterpretRequest(
        kernel=task.kernel.reference,
        problem=task.key.problem,
        config=config,
        target_name=task.key.device_class,
        mode=task.mode,
        sys_path=task.kernel.sys_path,
        seed=seed,
        loader=task.kernel.loader,
    )
