"""MeasureRequest: what a measuring process is asked, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ..config import Config
from ..runtime.abi import Binary
from ..runtime.problem import Scalar
from .kernel import API_LOADER
from .racing import Rules
from .timing import Effort

# Where what a result must be comes from, in the order in which it is tried: see :mod:`.input_cache`.
ReferenceOn = Literal["device", "cpu", "witnesses"]


EARLIER_S = 0.5  # an author's functions are interrupted before their process is ended
TIMES_THE_SLOWEST = 4.0
LEAST_S = 1.0  # that a problem has: what a function loads at its first call takes a part of it
PROBLEMS = ("prepare", "noise")  # phases in which a problem's data is made or judged, whatever the config


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that each phase of a measurement may take. Waiting in a queue counts nowhere.

    ``device``: opening a context. ``load``: importing the kernel's module. ``prepare``: a seed's inputs and its
    reference, the kernel's author's own code, which is interrupted a little earlier (:meth:`author_s`): after that the
    process is ended. ``prepare_others_waiting``: the same while other problems wait for the device, as they do where
    ``others_wait``;
    ``prepare_at_least``: the same where a search has less than that in all. ``noise``: measuring the problem's rounding
    noise, which calls the author's functions a few times; ``noise_others_waiting``: the same while others wait.
    ``text``: a kernel's own text as plain Python, which stands for a reference where nobody wrote one.
    Running the kernel may take ``floor`` and ``factor`` times the incumbent; ``unknown`` where there is no incumbent.
    """

    device: float = 60.0
    load: float = 180.0
    prepare: float = 180.0
    prepare_others_waiting: float = 2.0
    prepare_at_least: float = 20.0
    noise: float = 180.0
    noise_others_waiting: float = 20.0
    text: float = 4.0
    floor: float = 4.0
    factor: float = 2000.0
    unknown: float = 30.0
    others_wait: bool = False

    def within(self, budget_s: float | None) -> Limits:
        """These limits in a search of so many seconds. Its reference takes no longer than that, or than
        ``prepare_at_least``; beyond that there are witnesses."""
        if budget_s is None:
            return self
        return replace(self, prepare=min(self.prepare, max(budget_s, self.prepare_at_least)))

    def while_others_wait(self) -> Limits:
        """These limits while other problems wait."""
        return replace(
            self,
            prepare=min(self.prepare, self.prepare_others_waiting),
            noise=min(self.noise, self.noise_others_waiting),
            others_wait=True,
        )

    def author_s(self, slowest_s: float | None) -> float:
        """Seconds after which a seed's inputs and its reference are interrupted, in all. ``slowest_s``: those of the
        slowest problem that the process has made. While others wait, no problem has many times as long: it can go
        last, at a small price."""
        most = self.prepare - min(EARLIER_S, self.prepare / 4)
        if slowest_s is None or not self.others_wait:
            return most
        return min(most, max(TIMES_THE_SLOWEST * slowest_s, LEAST_S))

    def phases(self, incumbent_us: float | None) -> dict[str, float]:
        """The limit of each phase that a measuring child reports."""
        run = self.unknown if incumbent_us is None else self.floor + self.factor * incumbent_us * 1e-6
        text = 2 * self.text  # it ends by itself after once as long, but for a call of torch that takes long
        authors = {"load": self.load, "prepare": self.prepare, "noise": self.noise, "text": text}
        return {"device": self.device, **authors, "check": run, "time": run}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A config, built."""

    config: Config
    binaries: tuple[Binary, ...]


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """One problem and its candidates. Pickles. A single one is measured; with ``rules`` they meet in a race.

    ``kernel``: ``module:qualname``; ``loader`` makes a MeasurableKernel of it, which must have the
    ``semantic_hash`` where there is one. ``problem``: keyword arguments of
    ``kernel.inputs``. ``seeds``: of the inputs that are checked; the first one's are timed. ``repeats``: runs checked
    per seed (more than one shows races). ``tolerance`` multiplies every tolerance of :mod:`.check`. ``effort``: of
    measuring one. ``reference_on``: where references are made: on the CPU where the card has no room for them, by
    ``witnesses`` (:mod:`.witnesses`) where the CPU has none either.
    """

    kernel: str
    problem: tuple[tuple[str, Scalar], ...]
    candidates: tuple[Candidate, ...]
    sys_path: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1)
    repeats: int = 1
    tolerance: float = 1.0
    incumbent_us: float | None = None
    limits: Limits = field(default_factory=Limits)
    effort: Effort = field(default_factory=Effort)
    rules: Rules | None = None
    loader: str = API_LOADER
    semantic_hash: str = ""
    reference_on: ReferenceOn = "device"
