"""Attention of any length, under its default config, beside torch's: few heads, and rows that no block divides; the
gallery's text, and another as it is first written (:mod:`.written`).

    python -m tileflow_benchmarks.ratios.lengths --out DIR [--only WORDS]   on a GPU
    python -m tileflow_benchmarks.ratios.lengths --out DIR --dry-run        builds only, without one

Results are checked first. Then the default, the same with its tiles in the author's order where it has another one,
and torch's call are timed in turns in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.measure.timing import DeviceSampler
from tileflow.target import target

from .attention import AttentionCase, built, checked, sdpa
from .command import DefaultsBeside
from .in_turns import medians
from .written import WrittenCase

_ROUNDS = 12
_DEFAULT, _AUTHORS = "default", "author's order"


def _cases(
    d: int, causal: bool, *sizes: tuple[int, int, int], of: type[AttentionCase] = AttentionCase, shared: int = 1
) -> Any:
    what = f"{'as written, ' if of is WrittenCase else ''}D = {d}, {'causal' if causal else 'full'}"
    keys = f", {shared} heads a key's" if shared > 1 else ""
    return [of(f"{what}, {b}x{h}x{m}{keys}", b, h, m, d, causal, shared) for b, h, m in sizes]


CASES = (
    *_cases(64, True, (8, 12, 333), (4, 12, 640), (4, 20, 777), (2, 20, 1370), (1, 32, 2048), (1, 12, 2900)),
    *_cases(64, True, (2, 12, 3333), (1, 20, 4444), (1, 32, 5555), (1, 12, 10000), (2, 32, 4096)),
    *_cases(128, True, (4, 8, 1111), (1, 32, 1777), (1, 24, 2222), (1, 8, 4096), (2, 32, 3001), (1, 32, 5000)),
    *_cases(128, True, (1, 16, 7000), (1, 8, 16384), (2, 32, 4096)),
    *_cases(80, True, (1, 32, 2600)),
    *_cases(256, True, (1, 16, 3333)),
    *_cases(64, False, (8, 12, 197), (8, 16, 577), (4, 20, 1500), (2, 20, 2600), (1, 20, 3333), (1, 12, 4444)),
    *_cases(64, False, (1, 24, 5555), (1, 12, 10000), (2, 16, 3072), (1, 32, 4096)),
    *_cases(128, False, (1, 32, 1777), (1, 16, 3333), (2, 16, 2048)),
    *_cases(64, True, (1, 32, 3000), (3, 16, 2048), (1, 12, 4096), (1, 20, 4444), of=WrittenCase),
    *_cases(128, True, (1, 32, 1777), (1, 16, 7000), (1, 32, 4096), of=WrittenCase),
    *_cases(64, False, (2, 20, 2600), (1, 12, 10000), of=WrittenCase),
    *_cases(128, False, (1, 16, 3333), (1, 32, 4096), of=WrittenCase),
    *_cases(80, True, (1, 32, 2600), of=WrittenCase),
    *(case for d in (64, 128) for causal in (False, True) for case in _cases(d, causal, (4, 32, 4096))),
    *(case for d in (64, 128) for causal in (False, True) for case in _cases(d, causal, (1, 32, 8192), shared=4)),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """Return the default, and the same in the author's order where that is another one."""
    default = lowered.default
    found = {_DEFAULT: default}
    as_written = ",".join(map(str, range(len(lowered.regions[0].grid))))
    if default["order"] != as_written:
        found[_AUTHORS] = lowered.space.normalise(default.with_({"order": as_written}))
    return found


def built_ahead(number: int, name: str, device: str) -> dict[str, Any]:
    """Build one config of one case for a device class in this process; Triton's cache keeps it."""
    case = CASES[number]
    lowered = case.loaded.lower(case.args("meta"), target(device))
    config = configs(lowered)[name]
    return {"case": case.name, "config": name, "choices": config.to_dict(), "status": "built"} | built(lowered, config)


def measured(case: AttentionCase, device: str) -> dict[str, Any]:
    """Check a case's results, then time them beside torch's. Times in microseconds."""
    lowered = case.loaded.lower(case.args("meta"), target(device))
    calls: dict[str, Callable[..., Any]] = {}
    for name, config in configs(lowered).items():
        found, call = checked(case, lowered, config)
        if call is None:
            return {"case": case.name, "config": name} | found
        calls[name] = call
    args = case.args("cuda")
    us = medians({name: DeviceSampler(run, args) for name, run in {**calls, "sdpa": sdpa}.items()}, _ROUNDS)
    said = {"us": us, "of_sdpa": round(us["sdpa"] / us[_DEFAULT], 3), "order": lowered.default["order"]}
    return {"case": case.name, "status": "ok", "config": str(lowered.default)} | said


def _say(right: list[dict[str, Any]]) -> None:
    if ratios := [row["of_sdpa"] for row in right]:
        mean = geometric_mean(ratios)
        print(f"{len(ratios)} right: {mean:.3f}x of torch's speed in the mean, at least {min(ratios)}x")


def main() -> int:
    """Run the comparison. Exit code 1 where a result was wrong."""
    return DefaultsBeside(__doc__, CASES, configs, built_ahead, measured, "lengths_ratio.json", _say).main()


if __name__ == "__main__":
    sys.exit(main())
