"""Counts by cause of what is right in an older version and in this one: :mod:`.cases`, run under both.

    python -m tileflow_benchmarks.language --old CHECKOUT --out DIR

Writes every outcome (``language.json``) and the table of docs/measurements/language.md (``language.md``). Needs no GPU.
Exit code 1 where a case that was right no longer is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[3]
CASES = Path(__file__).with_name("cases.py")
Outcome = dict[str, Any]

# the findings of :mod:`.cases`, in order, in words
FINDINGS = {
    "1": "sums and softmax without `dim`",
    "2": "views that alias, sizes of 1 and of 0",
    "3": "what is stale after the first call",
    "4": "host views that do not start on 16 bytes",
    "5": "arithmetic at its edges",
    "6": "running sums, float64 arguments",
    "7": "launches without an effect, torch's settings",
    "refused": "refused, and people write it",
    "mistakes": "accepted, and should be refused",
}


def outcomes(checkout: Path, folder: Path, name: str) -> list[Outcome]:
    """Return the cases' outcomes under a checkout."""
    result = folder / f"{name}.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(checkout), str(checkout / "search")))}
    with (folder / f"{name}.log").open("w") as log:  # of cases that print
        command = [sys.executable, "-P", str(CASES), str(result)]
        subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=log, stderr=log)
    found: list[Outcome] = json.loads(result.read_text())
    return found


def verdict(found: Outcome) -> str:
    """``right`` where every meaning is; else the worst of what the others are."""
    said = {kind for kind, _ in found["outcomes"].values()}
    return next(kind for kind in ("crashed", "hung", "wrong", "raised", "refused", "right") if kind in said)


def table(old: Sequence[Outcome], new: Sequence[Outcome], name: str) -> list[str]:
    """Return the lines of a table: a row for each finding, the cases that it has, how many are right in both versions,
    and what the others are."""
    lines = [
        f"| finding | cause | cases | right at {name} | right now | not right now |",
        "|---|---|---:|---:|---:|---|",
    ]
    for finding, cause in FINDINGS.items():
        pairs = [(o, n) for o, n in zip(old, new, strict=True) if n["finding"] == finding]
        before, after = ([verdict(pair[side]) for pair in pairs] for side in (0, 1))
        left = [f"{n['cause']}: {verdict(n)}" for _, n in pairs if verdict(n) != "right"]
        others = _others(before)
        lines.append(
            f"| {finding} | {cause} | {len(pairs)} | {before.count('right')}{others} | {after.count('right')} | "
            f"{'; '.join(left) or '-'} |"
        )
    return lines


def _others(verdicts: Sequence[str]) -> str:
    kinds = {kind: verdicts.count(kind) for kind in dict.fromkeys(sorted(verdicts)) if kind != "right"}
    return f" ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})" if kinds else ""


def main() -> int:
    """Run the cases in both checkouts."""
    parser = argparse.ArgumentParser(prog="python -m tileflow_benchmarks.language", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--old", type=Path, required=True, help="a checkout of the version to compare with")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="1d0fe62", help="what the older version is called in the table")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        checkouts = ((options.old.resolve(), "old"), (HERE, "new"))
        old, new = pool.map(lambda pair: outcomes(pair[0], options.out.resolve(), pair[1]), checkouts)
    lines = table(old, new, options.name)
    (options.out / "language.md").write_text("\n".join(lines) + "\n")
    rows = [{**n, "old": verdict(o), "new": verdict(n), "was": o["outcomes"]} for o, n in zip(old, new, strict=True)]
    (options.out / "language.json").write_text(json.dumps(rows, indent=1))
    print("\n".join(lines))
    return int(any(row["old"] == "right" != row["new"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
