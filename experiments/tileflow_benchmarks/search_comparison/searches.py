"""What is searched: a kernel at a problem, by a rival, with a seed and a limit; and the result of one search."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tileflow.errors import SpecError

from ..suite.cells import SUITE, Cell
from .series import Timed, of_notes, of_trace, read_lines

Rival = Literal["tileflow", "helion"]

RIVALS: tuple[Rival, ...] = get_args(Rival)
# Beginnings of the suite's titles: two products, rows that fit a block and rows that do not, a sum over columns.
DEFAULT_CELLS = (
    "softmax m=8192 n=8192",
    "matmul m=4096",
    "attention batch=4 heads=32 m=4096 d=128 causal=F",
    "cross_entropy m=8192 v=131072",
    "layer_norm m=8192 n=8192",
    "rms_norm_bwd m=8192",
    "kl_div m=4096 n=32768",
)
TASK, NOTES, TRACE, RESULT = "task.json", "notes.jsonl", "helion.trace.jsonl", "result.json"


@dataclass(frozen=True, slots=True)
class Search:
    """One search of one rival. ``limit_s``: seconds that its own tuner is given."""

    cell: Cell
    rival: Rival
    seed: int
    limit_s: float

    @property
    def name(self) -> str:
        """The search as part of a file name: ``softmax-m-8192-n-8192-bfloat16.helion.0``."""
        return f"{slug(self.cell)}.{self.rival}.{self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_json` reads back."""
        return {
            "kernel": self.cell.kernel,
            "problem": dict(self.cell.problem),
            "rival": self.rival,
            "seed": self.seed,
            "limit_s": self.limit_s,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Search:
        """Read :meth:`to_json` back. Raises SpecError where the suite has no such cell."""
        return Search(cell_of(data), data["rival"], data["seed"], data["limit_s"])


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of one search.

    ``ending``: why the search did not end by itself, empty where it did. Seconds count from the moment its workers were
    ready with empty caches (``startup_s`` after its process was started), to ``done_s`` when it had picked a config.
    ``picked``: as canonical JSON, None where it named none.
    """

    search: Search
    ending: str
    gpu: str
    wall_s: float
    startup_s: float | None
    done_s: float | None
    picked: str | None
    series: tuple[Timed, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_json` reads back."""
        return asdict(self) | {"search": self.search.to_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SearchResult:
        """Read :meth:`to_json` back. Raises SpecError where the suite has no such cell."""
        series = tuple(Timed(**point) for point in data["series"])
        return SearchResult(**{**data, "search": Search.from_json(data["search"]), "series": series})


def cells(titles: Iterable[str]) -> list[Cell]:
    """Return the suite's cells whose titles begin so, one for each title. Raises SpecError."""
    found = []
    for title in titles:
        matching = [cell for cell in SUITE if cell.title.startswith(title)]
        if len(matching) != 1:
            raise SpecError(
                "a title must begin exactly one cell of the suite",
                got=title,
                hint=f"it begins {[cell.title for cell in matching or SUITE]}",
            )
        found += matching
    return found


def cell_of(data: Mapping[str, Any]) -> Cell:
    """Return the suite's cell with the ``kernel`` and ``problem`` of ``data``. Raises SpecError."""
    for cell in SUITE:
        if cell.kernel == data["kernel"] and dict(cell.problem) == data["problem"]:
            return cell
    raise SpecError("a search must be about a cell of the suite", got=f"{data['kernel']} {data['problem']}")


def slug(cell: Cell) -> str:
    """Return the cell's title with other characters than letters, digits and ``_`` replaced by ``-``."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", cell.title)


def plan(
    wanted: Sequence[Cell], rivals: Sequence[Rival], seeds: int, limits: Mapping[str, float], limit_s: float
) -> list[Search]:
    """Return every search, longest first, so that no slot is left with a long one at the end.

    All cells have their first seed before any has its second: what the time does not suffice for is missing everywhere
    alike. ``limits``: seconds by the beginning of a cell's title, ``limit_s`` for the others.
    """
    searches = [
        Search(cell, rival, seed, next((s for title, s in limits.items() if cell.title.startswith(title)), limit_s))
        for seed in range(seeds)
        for cell in wanted
        for rival in rivals
    ]
    return sorted(searches, key=lambda search: -search.limit_s)


def collect(folder: Path, search: Search, started_at: float, wall_s: float, ending: str, gpu: str) -> SearchResult:
    """Read what a search left in its folder, whether it ended or was ended. ``started_at``: seconds since 1970."""
    notes = read_lines(folder / NOTES)
    marks = {note["mark"]: note for note in notes if "mark" in note}
    ready = marks["ready"]["at"] if "ready" in marks else None
    picked = marks.get("picked", {"config": None})
    series: list[Timed] = []
    if ready is not None:
        series = of_notes(notes, ready) if search.rival == "tileflow" else of_trace(read_lines(folder / TRACE), ready)
    return SearchResult(
        search,
        ending,
        gpu,
        wall_s,
        startup_s=None if ready is None else ready - started_at,
        done_s=None if ready is None or "at" not in picked else picked["at"] - ready,
        picked=picked["config"],
        series=tuple(series),
    )


def results(out: Path) -> list[SearchResult]:
    """Return every search that has ended in the comparison's folder ``out``, by name."""
    paths = sorted((out / "searches").glob(f"*/{RESULT}"))
    return [SearchResult.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
