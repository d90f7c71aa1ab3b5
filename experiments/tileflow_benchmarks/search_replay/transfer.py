"""A kernel's recordings one after another, searched alone and with the earlier results: ``replay --transfer``.

Every seed has an order of its own, so that the number of a shape does not depend on its difficulty.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tileflow_experiments.pictures import style
from tileflow_experiments.tuning_task import Prepare, prepare
from tileflow_search.default import DefaultStrategy
from tileflow_search.transfer import ProblemFeatures, TransferGroup

from tileflow.config import ConfigSpace
from tileflow.errors import SpecError

from .compare import NEAR, quartiles
from .recording import Recording
from .simulate import Replayed, simulate
from .staleness import stale

ALONE, SHARING = "alone", "sharing"


@dataclass(frozen=True, slots=True)
class Turn:
    """One search.

    ``number``: its position in the order, from 1. ``way``: alone or sharing. ``near``: (seconds, measurements) to
    within 2 % of the recording's best, infinite where it was not reached.
    """

    shape: str
    number: int
    way: str
    run: Replayed
    near: tuple[float, float]
    regret: float


@dataclass(frozen=True, slots=True)
class Series:
    """All searches over one kernel's recordings of one device class.

    ``stale``: by title, what has changed since a recording was made, where something has.
    """

    kernel: str
    device_class: str
    shapes: int
    stale: dict[str, str]
    turns: tuple[Turn, ...]

    def of(self, way: str, number: int) -> list[Turn]:
        """Return the searches of one way at one position."""
        return [turn for turn in self.turns if (turn.way, turn.number) == (way, number)]


def transfer(
    recordings: Iterable[Recording],
    seeds: Iterable[int],
    seconds: float,
    *,
    prepare: Prepare = prepare,
    clock: Callable[[], float] = time.thread_time,
) -> list[Series]:
    """Run the default strategy on every kernel that was recorded at two shapes or more.

    ``seconds``: of virtual time for each search. Raises SpecError where there is no such kernel.
    """
    groups: dict[tuple[str, str], list[Recording]] = {}
    for recording in recordings:
        groups.setdefault((recording.header.kernel, recording.header.device_class), []).append(recording)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    if not several:
        raise SpecError(
            "transfer needs recordings of one kernel at several shapes",
            got=f"{len(groups)} of one each",
            hint="python -m tileflow_benchmarks.search_replay record configs/lab_shapes.yaml makes some",
        )
    seeds = tuple(seeds)
    return [
        Series(
            *key,
            len(group),
            {r.header.title: why for r in group if (why := stale(r.header, prepare))},
            tuple(turn for seed in seeds for turn in _turns(group, seed, seconds, clock)),
        )
        for key, group in several.items()
    ]


def _turns(group: Sequence[Recording], seed: int, seconds: float, clock: Callable[[], float]) -> list[Turn]:
    searches, turns = TransferGroup(seed), []
    for number, recording in enumerate(random.Random(seed).sample(group, len(group)), 1):
        for way, make in ((ALONE, DefaultStrategy), (SHARING, partial(_sharing, recording, searches))):
            run = simulate(recording, make, seed, seconds=seconds, clock=clock)
            near = run.first_below(NEAR * recording.best_us) or (math.inf, math.inf)
            regret = run.best_at(math.inf) / recording.best_us - 1
            turns.append(Turn(recording.header.title, number, way, run, near, regret))
    return turns


def _sharing(recording: Recording, searches: TransferGroup, space: ConfigSpace, seed: int) -> DefaultStrategy:
    header = recording.header
    problem = ProblemFeatures.of(header.problem, bytes=header.traffic_bytes, flops=header.flops)
    return DefaultStrategy(space, seed, peers=searches.join(problem, space, header.default))


# ---- what is written ------------------------------------------------------------------------------------------------


def write(found: Sequence[Series], folder: Path) -> list[Path]:
    """Write transfer.json, transfer.md and a plot per kernel. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "transfer.json", folder / "transfer.md"]
    paths[0].write_text(json.dumps([asdict(series) for series in found], indent=1, sort_keys=True) + "\n", "utf-8")
    paths[1].write_text("\n\n".join(map(markdown, found)) + "\n", "utf-8")
    for series in found:
        paths.append(folder / f"transfer-{series.kernel.rpartition(':')[2]}-{series.device_class}.png")
        figure(series).savefig(paths[-1], dpi=110)
    return paths


def markdown(series: Series) -> str:
    """Return the median over seeds, and the quartiles, by shape number."""
    runs = len(series.of(ALONE, 1))
    head = [
        "shape",
        "search",
        f"s to {NEAR - 1:.0%}",
        f"trials to {NEAR - 1:.0%}",
        "got there",
        "s until it ended",
        "measured",
        "worst regret",
    ]
    lines = [
        f"## {series.kernel} on {series.device_class}: {series.shapes} shapes, {runs} orders",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
    ]
    for number in range(1, series.shapes + 1):
        for way in (ALONE, SHARING):
            turns = series.of(way, number)
            seconds, trials = ([turn.near[i] for turn in turns] for i in (0, 1))
            cells = [str(number), way, _spread(seconds, 1), _spread(trials, 0)]
            cells.append(f"{sum(map(math.isfinite, seconds))} of {len(turns)}")
            cells.append(_spread([turn.run.seconds for turn in turns], 1))
            cells.append(_spread([float(turn.run.measured) for turn in turns], 0))
            lines.append(f"| {' | '.join([*cells, f'{max(turn.regret for turn in turns):.1%}'])} |")
    for title, why in series.stale.items():
        lines += ["", f"**Stale**: {title}: {why}; `python -m tileflow_benchmarks.search_replay record` makes it anew."]
    return "\n".join(lines)


def figure(series: Series) -> Any:
    """Plot seconds and measurements to within 2 %, and all measurements, by shape number: medians and quartiles."""
    with style():
        return _figure(series)


def _figure(series: Series) -> Any:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(12, 4), layout="constrained")
    numbers = list(range(1, series.shapes + 1))
    axes: list[tuple[str, Callable[[Turn], float]]] = [
        (f"seconds to within {NEAR - 1:.0%}", lambda turn: turn.near[0]),
        (f"measurements to within {NEAR - 1:.0%}", lambda turn: turn.near[1]),
        ("measurements until it ended", lambda turn: float(turn.run.measured)),
    ]
    for place, (label, value) in enumerate(axes, 1):
        axis = drawn.add_subplot(1, len(axes), place)
        for way in (ALONE, SHARING):
            found = [quartiles([value(turn) for turn in series.of(way, number)]) for number in numbers]
            lows, middles, highs = zip(
                *([v if math.isfinite(v) else math.nan for v in row] for row in found), strict=True
            )
            (line,) = axis.plot(numbers, middles, marker="o", label=way)
            axis.fill_between(numbers, lows, highs, alpha=0.15, color=line.get_color())
        axis.set_xticks(numbers)
        axis.set_xlabel("shape number")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axis.legend()
    drawn.suptitle(f"{series.kernel} on {series.device_class}")
    return drawn


def _spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = (f"{v:.{digits}f}" if math.isfinite(v) else "never" for v in quartiles(values))
    return f"{middle} ({low} to {high})"
