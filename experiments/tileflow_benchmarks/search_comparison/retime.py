"""All incumbents of one cell in one interleaved batch: ``... search_comparison.retime FOLDER``.

FOLDER/wanted.json lists them by priority; FOLDER/timed.json gets their times. In one process on one GPU each config is
built, checked against the reference and captured; then all of them are sampled in turn, in a new order each round.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .searches import Rival, SearchResult

ROUNDS = 20
SAMPLES = 5
# Of one config in the whole batch: slow first incumbents must not use up the time of the others.
CONFIG_BUDGET_US = 400_000.0
BUILD_SHARE = 0.6
BUILDERS = 8
COMPILE_LIMIT_S = 30.0
WANTED, TIMED = "wanted.json", "timed.json"


@dataclass(frozen=True, slots=True)
class RivalConfig:
    """A config of one rival. ``config``: canonical JSON; empty for our default config, whatever it is."""

    rival: Rival
    config: str


@dataclass(frozen=True, slots=True)
class Retimed:
    """One candidate's time. ``time_us``: median with a cold L2, None where ``error`` says why.

    ``ci95_us``: half-width of its interval.
    """

    candidate: RivalConfig
    time_us: float | None = None
    ci95_us: float | None = None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the row of timed.json, which calls the candidate ``entrant``."""
        data = asdict(self)
        return {"entrant": data.pop("candidate"), **data}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Retimed:
        """Read :meth:`to_json` back."""
        rest = {name: value for name, value in data.items() if name != "entrant"}
        return Retimed(RivalConfig(**data["entrant"]), **rest)


def configs_to_retime(
    results: Sequence[SearchResult], incumbents: Callable[[SearchResult], Sequence[str]]
) -> list[RivalConfig]:
    """Return the configs to time again, by priority.

    First the default config, then what was picked, then the incumbents, each search's last ones first. ``incumbents``:
    of one search, last first.
    """
    wanted: dict[RivalConfig, None] = {RivalConfig("tileflow", ""): None}
    for result in results:
        if result.picked is not None:
            wanted.setdefault(RivalConfig(result.search.rival, result.picked))
    queues = [(result.search.rival, list(incumbents(result))) for result in results]
    for place in range(max((len(queue) for _, queue in queues), default=0)):
        for rival, queue in queues:
            if place < len(queue):
                wanted.setdefault(RivalConfig(rival, queue[place]))
    return list(wanted)


def main(folder: Path) -> int:
    """Time the configs that the folder asks for, and write the times after every few rounds. Returns the exit code."""
    begun = time.monotonic()
    wanted = json.loads((folder / WANTED).read_text(encoding="utf-8"))
    bench = _Bench(wanted["kernel"], wanted["problem"])
    candidates = [RivalConfig(**data) for data in wanted["entrants"]]
    build_until = begun + BUILD_SHARE * wanted["seconds"]
    timed: list[Retimed] = []
    samplers: dict[RivalConfig, Callable[[int], list[float]]] = {}
    with bench.building(candidates) as built:
        for candidate in candidates:
            try:
                if time.monotonic() > build_until:
                    raise TimeoutError("no time was left to build it")
                samplers[candidate] = bench.sampler(candidate, built)
            except Exception as error:  # one that fails is a line of the report
                timed.append(Retimed(candidate, error=f"{type(error).__name__}: {error}".splitlines()[0][:300]))
                print(candidate, timed[-1].error, flush=True)
    print(f"{len(samplers)} built in {time.monotonic() - begun:.1f} s", flush=True)
    for so_far in sample(samplers, random.Random(0)):  # keep what is timed if a later round fails
        rows = [t.to_json() for t in timed + so_far]
        (folder / TIMED).write_text(json.dumps({"default": bench.default_config, "timed": rows}, indent=1) + "\n")
    return 0


def sample(samplers: Mapping[RivalConfig, Callable[[int], list[float]]], rng: random.Random) -> Iterator[list[Retimed]]:
    """Time all of them in :data:`ROUNDS` rounds; yield the times after some of them, and after all.

    ``samplers``: give that many times of one call, in us.
    """
    from tileflow.measure.timing import summarise

    share = {candidate: _samples(min(sampler(3))) for candidate, sampler in samplers.items()}
    samples: dict[RivalConfig, list[float]] = {candidate: [] for candidate in samplers}
    order = list(samplers)
    for played in range(1, ROUNDS + 1):
        rng.shuffle(order)
        for candidate in order:
            samples[candidate] += samplers[candidate](share[candidate])
        if played % 5 == 0:
            found = {candidate: summarise(times) for candidate, times in samples.items()}
            yield [Retimed(candidate, m.median_us, m.ci95_us) for candidate, m in found.items()]


def _samples(time_us: float) -> int:
    return max(min(SAMPLES, int(CONFIG_BUDGET_US / time_us / ROUNDS)), 1)


class _Bench:
    """The cell's arguments on the GPU, its reference, and how each rival's config becomes a call."""

    def __init__(self, kernel: str, problem: Mapping[str, Any]) -> None:
        from tileflow_experiments.records import StudyKey
        from tileflow_experiments.tuning_task import prepare

        from tileflow.api import load_kernel
        from tileflow.measure.check import reference_of
        from tileflow.runtime.describe import device_class

        key = StudyKey(kernel, tuple(sorted(problem.items())), device_class("cuda"))
        self._task = prepare(key, "static")
        self._kernel = load_kernel(kernel)
        self._args = self._kernel.inputs(device="cuda", **problem)
        self._reference = reference_of(self._kernel, self._args)
        self._bound: Any = None
        self.default_config = self._task.default.to_dict()

    @contextmanager
    def building(self, candidates: Sequence[RivalConfig]) -> Iterator[Mapping[RivalConfig, Future[Any]]]:
        """Build the machine code of our configs with several compilers at once while the caller continues."""
        from tileflow_cluster.pipeline import TileflowCompiler

        ours = [candidate for candidate in candidates if candidate.rival == "tileflow"]
        count = max(min(BUILDERS, len(os.sched_getaffinity(0)), len(ours)), 1)
        compilers: list[TileflowCompiler] = []
        mine = threading.local()

        def open_compiler() -> None:  # in the pool's threads, so that all start at once
            mine.compiler = TileflowCompiler(COMPILE_LIMIT_S)
            compilers.append(mine.compiler)

        def build(candidate: RivalConfig) -> Any:
            return mine.compiler.compile(self._request(candidate))

        pool = ThreadPoolExecutor(count, initializer=open_compiler)
        try:
            yield {candidate: pool.submit(build, candidate) for candidate in ours}
        finally:
            pool.shutdown(cancel_futures=True)
            for compiler in compilers:
                compiler.close()

    def sampler(self, candidate: RivalConfig, built: Mapping[RivalConfig, Future[Any]]) -> Callable[[int], list[float]]:
        """Return the sampler of a config that is built, checked and captured. Raises whatever goes wrong."""
        from tileflow.measure.check import check_call
        from tileflow.measure.timing import DeviceSampler

        call = self._ours(candidate, built) if candidate.rival == "tileflow" else self._theirs(candidate)
        verdict = check_call(call, self._args, self._reference)
        if not verdict.ok:
            raise ValueError(f"{verdict.status}: {verdict.reason}")
        return DeviceSampler(call, self._args)

    def _ours(self, candidate: RivalConfig, built: Mapping[RivalConfig, Future[Any]]) -> Callable[..., Any]:
        from tileflow.runtime.launch import Launcher, launcher_for

        compiled, binaries = built[candidate].result()
        if compiled.rejected is not None:
            raise ValueError(f"{compiled.rejected.status}: {compiled.rejected.error_digest}")
        launchers: dict[int, list[Launcher]] = {}
        for binary in binaries:
            launchers.setdefault(binary.region, []).append(launcher_for(binary, "cuda", self._kernel.scope))
        return self._kernel.bind(self._request(candidate).config, launchers)

    def _theirs(self, candidate: RivalConfig) -> Callable[..., Any]:
        from . import search_helion

        if self._bound is None:
            self._bound = search_helion.bind(self._kernel.name, self._args)
        call = self._bound.compile_config(json.loads(candidate.config))
        complete = self._bound.kernel.normalize_args
        return lambda *args: call(*complete(*args))

    def _request(self, candidate: RivalConfig) -> Any:
        from tileflow_cluster.protocol import TrialRequest

        from tileflow.config import Config

        config = Config.of(json.loads(candidate.config) if candidate.config else self.default_config)
        key = self._task.key
        return TrialRequest("retime", self._task.kernel, key.problem, key.device_class, config)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
