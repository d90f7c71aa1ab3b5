"""Many programs, one seed each: what is wrong with each goes to standard output, with its source.

TRITON_INTERPRET=1 PYTHONPATH=tests python -m tile_testing.random_kernels.hunt --first 0 --count 1000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from .calls import check_calls
from .checks import Finding, check, check_builds
from .draws import by_seed
from .kernels import Program, program
from .shrink import smallest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--configs", type=int, default=2)
    parser.add_argument(
        "--build", action="store_true", help="assemble for sm_90a instead, in a process without TRITON_INTERPRET"
    )
    parser.add_argument("--calls", action="store_true", help="several calls of each, one unlike the other")
    parser.add_argument("--refused", action="store_true", help="show what was refused in tileflow's own words, too")
    parser.add_argument("--shrink", type=int, default=0, help="tries to make each failing program smaller")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    if not asked.build and os.environ.get("TRITON_INTERPRET") != "1":
        sys.exit("TRITON_INTERPRET=1 must be set")
    kinds: Counter[str] = Counter()
    until = time.monotonic() + asked.seconds
    for seed in range(asked.first, asked.first + asked.count):
        if time.monotonic() > until:
            break
        found = _check(program(by_seed(seed)), seed, asked)
        kinds.update({f.kind for f in found} or {"right"})
        if seed % 50 == 49:
            print(dict(kinds), f"up to seed {seed}", file=sys.stderr, flush=True)
        shown = [f for f in found if f.kind != "refused" or asked.refused]
        if shown:
            print(f"==== seed {seed}", *shown, _smallest_of(seed, shown[0], asked).script(), sep="\n", flush=True)
    print(dict(kinds), f"of seeds {asked.first} to {seed}")


def _smallest_of(seed: int, found: Finding, asked: argparse.Namespace) -> Program:
    return smallest(seed, found, lambda one: _check(one, seed, asked), asked.shrink)


def _check(one: Program, seed: int, asked: argparse.Namespace) -> list[Finding]:
    if asked.build:
        return check_builds(one)
    if asked.calls:
        return check_calls(one, by_seed(seed))
    return check(one, range(seed, seed + asked.configs), ("static", "dynamic")[seed % 2])


if __name__ == "__main__":
    main()
