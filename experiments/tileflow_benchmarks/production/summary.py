"""The output of the scripts: one JSON file each, and verdicts as a table of Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the table: ``what`` was measured, ``found``, and what it ``must`` be; ``ok`` is None without a
    requirement."""

    what: str
    found: str
    must: str = ""
    ok: bool | None = None


def table(verdicts: Iterable[Verdict]) -> str:
    """Return the verdicts as Markdown."""
    words = {True: "yes", False: "**no**", None: ""}
    rows = [f"| {v.what} | {v.found} | {v.must} | {words[v.ok]} |" for v in verdicts]
    return "\n".join(["| what | found | must | holds |", "|---|---|---|---|", *rows]) + "\n"


def write(path: Path, found: Mapping[str, Any], verdicts: Iterable[Verdict]) -> bool:
    """Write ``found`` and the verdicts as JSON, and print the verdicts. Returns False where a requirement is missed."""
    verdicts = list(verdicts)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {**found, "verdicts": [asdict(v) for v in verdicts]}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(table(verdicts), flush=True)
    return all(v.ok is not False for v in verdicts)


def read_verdicts(path: Path) -> list[Verdict]:
    """Return the verdicts of a file that :func:`write` wrote."""
    return [Verdict(**v) for v in json.loads(path.read_text(encoding="utf-8"))["verdicts"]]


def device_name() -> str:
    """Return the GPU's name, or ``dry run`` on a machine without one."""
    import torch

    count = torch.cuda.device_count()
    return f"{count} x {torch.cuda.get_device_name(0)}" if count else "no GPU: a dry run"
