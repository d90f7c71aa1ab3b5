"""One search: a strategy over one tuning task, its budget, and what is known so far. Knows no evaluator and no file."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from tileflow_cluster.trial import TrialResult
from tileflow_search.protocol import Result, Strategy

from tileflow.config import Config
from tileflow.cost import StaticFacts

from .records import DEFAULT, PORTFOLIO, TRANSFER, TrialRecord
from .spec import Budget
from .tuning_task import TuningTask

# An evaluator has tried a lost trial several times already; more than this many losses of one config end it here.
LOSSES_PER_CONFIG = 2
LOSSES_IN_A_ROW = 8
BEST_MODELLED = 8  # modelled configs that are measured first where a GPU joins during a search


class Study:
    """One search.

    ``sources``: who proposed a config, where it was not the strategy (``default``, ``transfer``). ``after``: a search
    of the same kernel that must have ended before this one begins, to use its results. ``renew``: makes its strategy
    again, with configs to begin with. ``gpu_s``: for how long GPUs have worked for it, losses too. ``on_gpu``: GPUs do,
    and not the cost model. ``completed``: the verdicts on completed trials, by trial id. ``best``: the fastest good
    one. ``stopped``: why nothing more is asked.
    """

    def __init__(
        self, task: TuningTask, strategy: Strategy, strategy_name: str, budget: Budget, sources: dict[Config, str]
    ) -> None:
        self.task = task
        self.completed: dict[str, TrialRecord] = {}
        self.best: TrialRecord | None = None
        self.spent_s = 0.0
        self.gpu_s = 0.0
        self._unused_s = 0.0  # of them, those without a trial: a reference that others did not wait for
        self.on_gpu = False
        self.stopped = ""
        self._strategy = strategy
        self._name = strategy_name
        self.budget = budget
        self._sources = sources
        self._in_flight: set[Config] = set()
        self._again: deque[Config] = deque()
        self._losses: Counter[Config] = Counter()
        self._lost_in_a_row = 0
        self._exhausted = False
        self.after: Study | None = None
        self._last: Callable[[], bool] | None = None
        self.renew: Callable[[Sequence[Config]], Strategy] | None = None

    # ---- asking ---------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many configs are asked for and not answered."""
        return len(self._in_flight)

    @property
    def wants_more(self) -> bool:
        """Whether another trial fits the budget. Each one in flight counts as a new trial, as most become one."""
        if (self.after is not None and self.after.open) or (self._last is not None and not self._last()):
            return False
        self.after = None
        if self.stopped or ((self._exhausted or self.finished) and not self._again):
            return False
        if self._again and self.best is None and not self._in_flight:
            return True  # else a study whose time is up would end without one config that works, and one untried
        if self.budget.trials is not None:
            return len(self.completed) + self.in_flight < self.budget.trials
        if self.budget.gpu_seconds is not None:
            each_s = self.used_s / max(len(self.completed), 1)
            return self.used_s + self.in_flight * each_s < self.budget.gpu_seconds
        assert self.budget.seconds is not None
        return self.spent_s < self.budget.seconds

    @property
    def used_s(self) -> float:
        """Seconds used of a budget of GPU-seconds; the wall clock's where the cost model stands in for GPUs."""
        return self.gpu_s - self._unused_s if self.on_gpu else self.spent_s

    @property
    def finished(self) -> str:
        """Why the strategy expects nothing more; empty while it does."""
        return self._strategy.finished

    @property
    def over(self) -> bool:
        """Whether nothing more is asked for, unless a result in flight changes that.

        Budgets of time count. A budget of trials does not, since the trials in flight are part of it.
        """
        seconds, gpu_seconds = self.budget.seconds, self.budget.gpu_seconds
        used = (seconds is not None and self.spent_s >= seconds) or (
            gpu_seconds is not None and self.used_s >= gpu_seconds
        )
        return bool(self.stopped or self.finished) or used

    @property
    def open(self) -> bool:
        """Whether trials are in flight or wanted."""
        return self.in_flight > 0 or self.wants_more

    def ask(self) -> Config | None:
        """Return the next config to try, now in flight; None where the space holds no more."""
        if self._again:
            config = self._again.popleft()
        else:
            asked = self._strategy.ask(1)
            if not asked:
                self._exhausted = True
                return None
            config = asked[0]
        self._in_flight.add(config)
        return config

    def want(self, config: Config) -> None:
        """Seed ``config`` with the strategy for a portfolio's sake, so that it is tried in any case."""
        self._strategy.seed([config])
        self._sources.setdefault(config, PORTFOLIO)

    def source(self, config: Config) -> str:
        """Return who proposed ``config``: where it is no seed, the strategy, by a name that is no seed's."""
        mistakable = self._name in (DEFAULT, TRANSFER, PORTFOLIO)
        return self._sources.get(config, f"{self._name} strategy" if mistakable else self._name)

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Tell the strategy that ``config`` was built and waits to be measured."""
        self._strategy.built(config, facts)

    def rank(self, configs: Sequence[Config]) -> list[float]:
        """Rank built configs as :meth:`Strategy.rank` does."""
        return self._strategy.rank(configs)

    @property
    def incumbent_us(self) -> float | None:
        """The best measured time in microseconds, None before there is one."""
        return self.best.time_us if self.best is not None and self.best.measured else None

    # ---- hearing --------------------------------------------------------------------------------

    def complete(self, config: Config, record: TrialRecord) -> None:
        """Take in the verdict on ``config``, of this session or an earlier one, which completes its trial.

        The first verdict on a trial stands, for every config that gives it.
        """
        known = self.completed.setdefault(record.trial_id, record)
        if known.time_us is not None and (self.best is None or _order(known) < _order(self.best)):
            self.best = known
        self._in_flight.discard(config)
        self._lost_in_a_row = 0
        time_us = known.time_us
        self._strategy.tell(config, Result(time_us=time_us) if time_us is not None else Result(violated=True))

    def lost(self, config: Config, reason: str) -> None:
        """Take in that infrastructure failed. The config is tried again, and not blamed."""
        self._in_flight.discard(config)
        self._losses[config] += 1
        self._lost_in_a_row += 1
        if self._losses[config] < LOSSES_PER_CONFIG:
            self._queue_again(config)
        else:
            self._strategy.tell(config, Result(infrastructure=True))
        if self._lost_in_a_row >= LOSSES_IN_A_ROW:
            self.stop(f"{self._lost_in_a_row} trials in a row were lost, the last one: {reason}")

    def cancelled(self, config: Config) -> None:
        """Take ``config`` out of flight without a result: the sweep stops, or waits for it no longer."""
        self._in_flight.discard(config)

    @property
    def postponed(self) -> bool:
        """Whether its problem took longer to make than other studies may wait."""
        return self._last is not None

    def postpone(self, free: Callable[[], bool]) -> None:
        """Ask for nothing until ``free`` says that no other study waits, and have all the budget's time then."""
        self._last = free
        self.spent_s = 0.0
        self._unused_s = self.gpu_s

    def ask_again(self, config: Config) -> None:
        """Queue ``config``, which was not tried after all, to be asked for next."""
        self._in_flight.discard(config)
        self._queue_again(config)

    def _queue_again(self, config: Config) -> None:
        """The default comes before all others: a study with time for one trial is to have a row."""
        (self._again.appendleft if config == self.task.default else self._again.append)(config)

    def measure(self) -> None:
        """Start the search again, now that a GPU has replaced the cost model.

        It begins with the best modelled configs; their modelled times are dropped.
        """
        modelled = [r.config for r in leaders(self.completed.values()) if r.result.modelled][:BEST_MODELLED]
        self.completed = {trial_id: r for trial_id, r in self.completed.items() if not r.result.modelled}
        self.best = next(iter(leaders(self.completed.values())), None)
        for config in modelled:
            self._sources.setdefault(config, "transfer")
        if self.renew is not None:
            self._strategy = self.renew(list(dict.fromkeys((*self._sources, *modelled))))
        self._exhausted = False
        self.spent_s = 0.0
        self.on_gpu = True
        for record in list(self.completed.values()):
            self.complete(record.config, record)

    def stop(self, reason: str) -> None:
        """Ask for nothing more."""
        self.stopped = self.stopped or reason

    # ---- knowing --------------------------------------------------------------------------------

    @property
    def default(self) -> TrialRecord | None:
        """The default config's trial, once completed."""
        default = self.task.default
        return next((r for r in self.completed.values() if r.config == default), None)


def leaders(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the good trials, fastest first; measured ones before modelled ones."""
    return sorted((r for r in records if r.time_us is not None), key=_order)


def _order(record: TrialRecord) -> tuple[bool, float, str]:
    """The less the better, of a good trial."""
    assert record.time_us is not None
    return not record.measured, record.time_us, record.trial_id


def gpu_seconds(result: TrialResult) -> float:
    """Return for how many seconds a GPU worked on the result; 0 for a modelled one."""
    return result.phases.device_s if result.device is not None and result.outcome.measured else 0.0
