"""The studies of a sweep as its journal left them: what each has spent, tried and found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tileflow_search.protocol import Strategy
from tileflow_search.registry import make
from tileflow_search.transfer import TransferGroup

from tileflow.config import Config

from . import journal as journals
from .journal_writer import Writer
from .records import DEFAULT, RECORD_KINDS, TRANSFER, StudyKey
from .spec import SweepSpec
from .study import Study, gpu_seconds
from .tuning_task import TuningTask, require_unchanged


def study_keys(spec: SweepSpec) -> list[StudyKey]:
    """Return every (kernel, problem, device class) of a sweep, in the spec's order."""
    return [
        StudyKey(kernel.kernel, problem, device)
        for kernel in spec.kernels
        for problem in kernel.problems
        for device in spec.device_classes
    ]


def open_studies(
    spec: SweepSpec,
    journal: Writer,
    tasks: Iterable[TuningTask],
    transfers: Callable[[TuningTask], Iterable[Config]] = lambda _: (),
    measured: Collection[str] = (),
) -> list[Study]:
    """Return the studies of a sweep, told what the journal knows. Raises SpecError where a kernel, or a call that its
    ``inputs`` makes, has changed since.

    ``transfers``: configs of earlier sweeps to try right after the default. ``measured``: device classes whose modelled
    times are not taken over.
    """
    groups: dict[tuple[str, str], TransferGroup] = {}
    lines = journal.lines
    known = {line["study"]: line for line in journals.events(lines, "study")}
    spent: dict[str, float] = {}
    for line in journals.events(lines, "clock"):
        spent |= line["spent_s"]
    trials = journals.by_study(journals.trials(lines).values())
    worked: dict[StudyKey, float] = {}
    for kind in RECORD_KINDS:
        for attempt in journals.attempts(lines, kind):
            worked[attempt.study] = worked.get(attempt.study, 0.0) + gpu_seconds(attempt.result)
    del lines
    studies = []
    for task in tasks:
        key = task.key
        if key.id in known:
            require_unchanged(task, known[key.id])
        else:
            journal.event("study", **task.to_json())
        group = groups.setdefault((key.kernel, key.device_class), TransferGroup(spec.strategy.seed))
        study = _new_study(spec, task, transfers(task), group)
        study.spent_s = spent.get(key.id, 0.0)
        study.gpu_s, study.on_gpu = worked.get(key, 0.0), key.device_class in measured
        for entry in trials.get(key, ()):
            if entry.completed and not (entry.result.modelled and key.device_class in measured):
                study.complete(entry.config, entry)
        studies.append(study)
    return studies


def _new_study(spec: SweepSpec, task: TuningTask, transfers: Iterable[Config], group: TransferGroup) -> Study:
    sources = {task.default: DEFAULT}
    for config in transfers:
        sources.setdefault(config, TRANSFER)
    peers = group.join(task.features, task.space, task.default)

    def strategy(seeds: Sequence[Config]) -> Strategy:
        return make(spec.strategy.name, task.space, spec.strategy.seed, seeds=seeds, peers=peers)

    budget = spec.budget_of(task.key.kernel, task.key.problem)
    study = Study(task, strategy(list(sources)), spec.strategy.name, budget, sources)
    study.renew = strategy
    return study


def take_turns(studies: Iterable[Study], at_once: Mapping[str, int]) -> None:
    """Let searches that transfer results begin one after the other, so that later ones start from more results.

    ``at_once``: how many studies of one kernel may run at once on each device class.
    """
    queues: dict[tuple[str, str], list[Study]] = {}
    for study in studies:
        key = study.task.key
        queue = queues.setdefault((key.kernel, key.device_class), [])
        if len(queue) >= at_once[key.device_class]:
            study.after = queue[-at_once[key.device_class]]
        queue.append(study)
