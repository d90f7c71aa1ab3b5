"""The benchmark's cells in two versions: those whose code is equal are unchanged, the others are timed in turns.

    python -m tileflow_benchmarks.ratios.versions --old CHECKOUT --out DIR [--drawn N] [--only WORDS] [--device CLASS]
    python -m tileflow_benchmarks.ratios.versions --out DIR --measure [--rounds N]      on a GPU, after the first

The first builds each cell's default config, and ``N`` configs drawn from the old version's space, in both versions,
each in processes of its own that import that checkout. It needs no GPU. The second reads what the first wrote, and runs
the scripts that both versions gave for a changed cell (``Kernel.repro``) in one process, in turns: launches on random
memory of the call's sizes, without host code. Both have the same memory: what a kernel reads may be what it wrote a
launch ago, and how long gathers and atomics take depends on the values. What is equal:

- *equal*: the text without its comments, the launch options and the grid.
- *same code*: another text of the same instructions (names of variables, a ``static_assert``).
- *changed*: other instructions. Only these are timed.
- *new*, *gone*, *failed*: only one version has the cell; or neither builds it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import linecache
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import triton

from tileflow.measure.timing import DeviceSampler, median_interval, sample_in_turn
from tileflow_benchmarks.suite.cells import SUITE, Cell

from . import emitted
from .command import DRY_DEVICE, named

HERE = Path(__file__).resolve().parents[3]
VERSIONS = ("old", "new")
RESULT, TIMES = "versions.json", "versions-times.json"
# by the first word of a cell's title: a script has memory of the same sizes, not the call's values, and no host code
LEFT_OUT = {
    "grouped_matmul_flat": "how long its groups are is in memory, of which a script has ones and zeros",
    "split_k_matmul": "its host code adds up the parts, which a script lacks",
}
Row = dict[str, Any]
Turn = Callable[[Sequence[Any]], Sequence[float]]  # one time of each of these, in this order, in microseconds


# ---- what each version emits ---------------------------------------------------------------------------------


def calls(cells: Sequence[Cell], device: str, drawn: int) -> list[Row]:
    """Return the calls as :mod:`.emitted` reads them."""
    return [{"kernel": c.kernel, "problem": dict(c.problem), "device": device, "drawn": drawn} for c in cells]


def emit_under(checkout: Path, asked: Sequence[Row], folder: Path, name: str) -> list[Row]:
    """Return what a checkout emits for the calls, from a process that imports that checkout alone."""
    path, result = folder / f"{name}-calls.json", folder / f"{name}-emitted.json"
    path.write_text(json.dumps(asked))
    places = (checkout, *(checkout / part for part in ("search", "cluster", "experiments")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-P", str(Path(emitted.__file__)), str(path), str(result)]
    subprocess.run(command, check=True, cwd=checkout, env=environment)
    found: list[Row] = json.loads(result.read_text())
    path.unlink()
    result.unlink()
    return found


def emit_both(old: Path, new: Path, asked: Sequence[Row], folder: Path) -> Iterator[tuple[Row, Row]]:
    """Yield what both versions emit for each call. The new one is given the configs that the old one drew."""
    before = emit_under(old, asked, folder, f"{id(asked)}-old")
    given = []
    for call, found in zip(asked, before, strict=True):
        configs = {n: c["config"] for n, c in found.get("configs", {}).items() if n != emitted.DEFAULT}
        given.append({**call, "drawn": 0, "configs": configs})
    yield from zip(before, emit_under(new, given, folder, f"{id(asked)}-new"), strict=True)


# ---- how they compare ----------------------------------------------------------------------------------------


def compared(cell: str, before: Row, after: Row) -> list[Row]:
    """Return a row for each config of a cell, with what became of it."""
    if "error" in before or "error" in after:
        verdict = {(True, True): "failed", (True, False): "new", (False, True): "gone"}[
            "error" in before, "error" in after
        ]
        why = {v: found["error"] for v, found in zip(VERSIONS, (before, after), strict=True) if "error" in found}
        return [{"cell": cell, "config": emitted.DEFAULT, "verdict": verdict, "why": why}]
    pairs = ((name, found, after["configs"][name]) for name, found in before["configs"].items())
    return [{"cell": cell, "config": name, **_compared(found, now)} for name, found, now in pairs]


def _compared(before: Row, after: Row) -> Row:
    why = {v: found["error"] for v, found in zip(VERSIONS, (before, after), strict=True) if "error" in found}
    if why:
        return {"verdict": "failed" if len(why) == 2 else "new" if "old" in why else "gone", "why": why}
    if [_plain(s) for s in before["sources"]] == [_plain(s) for s in after["sources"]]:
        return {"verdict": "equal"}
    same_launches = [s[1:] for s in before["sources"]] == [s[1:] for s in after["sources"]]
    if same_launches and before["instructions"] == after["instructions"]:
        return {"verdict": "same code"}
    scripts = {v: found.get("script") for v, found in zip(VERSIONS, (before, after), strict=True)}
    missing = {
        v: found["no_script"] for v, found in zip(VERSIONS, (before, after), strict=True) if "no_script" in found
    }
    return {"verdict": "changed", "configs": [before["config"], after["config"]], "scripts": scripts, "why": missing}


def _plain(source: Sequence[Any]) -> list[Any]:
    """A launch without comments and blank lines."""
    return [ast.unparse(ast.parse(source[0])), *source[1:]]


def count(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return how many rows there are of each verdict: of defaults, and of drawn configs."""
    kinds = {"default": [r for r in rows if r["config"] == emitted.DEFAULT]}
    kinds["drawn"] = [r for r in rows if r["config"] != emitted.DEFAULT]
    return {kind: dict(sorted(Counter(r["verdict"] for r in found).items())) for kind, found in kinds.items()}


# ---- timing the changed ones ---------------------------------------------------------------------------------


class Memory:
    """Allocations that scripts share: the n-th of a size and type in one script is the n-th in all."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}

    def of_a_script(self, allocate: Callable[..., Any]) -> Callable[..., Any]:
        """Return what allocates in the place of a script's own function."""
        asked = Counter[tuple[Any, ...]]()

        def shared(*args: Any) -> Any:
            asked[args] += 1
            key = (*args, asked[args])
            if key not in self._made:
                self._made[key] = allocate(*args)
            return self._made[key]

        return shared


def launches(script: str, memory: Memory) -> Callable[[], None]:
    """Run a script's definitions and allocations, these in ``memory``; return what repeats its launches."""
    tree = ast.parse(script)
    again = [s for s in tree.body if _calls(s) == "_launch"]
    begin, end = tree.body.index(again[0]), tree.body.index(again[-1])
    namespace: dict[str, Any] = {"__name__": "launched"}
    file = f"<script {hashlib.sha256(script.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(script), None, script.splitlines(keepends=True), file)  # where Triton reads it
    before = [s for s in tree.body[: end + 1] if s not in again]
    assert all(not isinstance(s, ast.If | ast.For) for s in before[begin:]), (
        "what follows the launches looks at results"
    )
    allocations = next((n for n, s in enumerate(before) if _calls(s) == "_memory"), len(before))
    exec(_compiled(before[:allocations], file), namespace)
    if allocations < len(before):
        namespace["_memory"] = memory.of_a_script(namespace["_memory"])
    exec(_compiled(before[allocations:], file), namespace)
    launch = namespace["_launch"]
    namespace["_launch"] = lambda function, grid, arguments, *rest: launch(
        _with_ones(function, *(n for n, v in arguments.items() if type(v) is int and v == 1)), grid, arguments, *rest
    )
    code = _compiled(again, file)
    return lambda: exec(code, namespace)


@cache
def _with_ones(function: Any, *names: str) -> Any:
    """A script's kernel that takes the named arguments, ints that are 1, as it takes other ints; older scripts leave
    it to Triton, which puts a Python number for them."""
    if not names or type(function) is not triton.JITFunction:
        return function
    return triton.jit(function.fn, do_not_specialize=names)


def _calls(statement: ast.stmt) -> str:
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""


def _compiled(statements: list[ast.stmt], file: str) -> CodeType:
    return compile(ast.Module(statements, []), file, "exec")


def in_turns(contenders: Mapping[str, Any], rounds: int, turn: Turn) -> Row:
    """Time both versions in a new order each round. A cell is ``slower`` or ``faster`` where the 95 % interval of the
    median ratio, of the new time to the old one's of the same round, does not hold 1."""
    shuffled, found = random.Random(0), {name: list[float]() for name in contenders}
    for _ in range(rounds):
        order = shuffled.sample(list(contenders), len(contenders))
        for name, us in zip(order, turn([contenders[name] for name in order]), strict=True):
            found[name].append(us)
    ratios = sorted(new / old for old, new in zip(found["old"], found["new"], strict=True))
    low, high = median_interval(ratios)
    verdict = "slower" if low > 1 else "faster" if high < 1 else "equal"
    times = {f"{name}_us": round(sorted(us)[len(us) // 2], 2) for name, us in found.items()}
    return {
        **times,
        "ratio": round(ratios[len(ratios) // 2], 4),
        "interval": [round(low, 4), round(high, 4)],
        "time": verdict,
    }


def measure(rows: Sequence[Row], rounds: int, keep: Callable[[Row], None]) -> None:
    """Time the changed rows; hand each to ``keep``, with the reason where it is left out."""
    for row in rows:
        if row["verdict"] != "changed":
            continue
        why = LEFT_OUT.get(row["cell"].split()[0]) or row["why"]
        if why:
            keep({"cell": row["cell"], "config": row["config"], "time": "left out", "why": why})
        else:
            keep({"cell": row["cell"], "config": row["config"], **_timed(row["scripts"], rounds)})


def _timed(scripts: Mapping[str, str], rounds: int) -> Row:
    """Both versions' times; why there are none where a script does not run, which is no reason to end the others."""
    samplers, memory = {}, Memory()
    for version in VERSIONS:
        try:
            samplers[version] = DeviceSampler(launches(scripts[version], memory), ())
        except Exception as error:
            return {"time": "failed", "why": f"{version}: {type(error).__name__}: {error}"}
    return in_turns(samplers, rounds, sample_in_turn)


# ---- the command ---------------------------------------------------------------------------------------------


def main() -> int:
    """Run the comparison. Exit code 1 where a cell is gone, slower, or fails."""
    parser = argparse.ArgumentParser(prog="python -m tileflow_benchmarks.ratios.versions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--old", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--drawn", type=int, default=0, help="configs of each cell besides its default")
    parser.add_argument("--only", default="", help="cells whose title holds one of these words, by semicolons")
    parser.add_argument("--device", default=DRY_DEVICE, help=f"the class to build for; {DRY_DEVICE} unless said")
    parser.add_argument("--processes", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--measure", action="store_true", help="time what changed")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.measure:
        return _measured(options.out, options.rounds)
    if options.old is None:
        parser.error("--old is needed, or --measure")
    return _built(options)


def _built(options: argparse.Namespace) -> int:
    cells = [SUITE[n] for n in named([cell.title for cell in SUITE], options.only)]
    parts = [cells[n :: options.processes] for n in range(options.processes) if cells[n :: options.processes]]

    def run(part: Sequence[Cell]) -> list[Row]:
        asked = calls(part, options.device, options.drawn)
        both = emit_both(options.old.resolve(), HERE, asked, options.out.resolve())
        return [row for cell, pair in zip(part, both, strict=True) for row in compared(cell.title, *pair)]

    with ThreadPoolExecutor(len(parts)) as pool:
        rows = [row for found in pool.map(run, parts) for row in found]
    counted = count(rows)
    (options.out / RESULT).write_text(json.dumps({"count": counted, "rows": rows}, indent=1))
    print(json.dumps(counted, indent=1))
    return int(any(row["verdict"] == "gone" for row in rows))


def _measured(folder: Path, rounds: int) -> int:
    rows, found = json.loads((folder / RESULT).read_text())["rows"], list[Row]()

    def keep(row: Row) -> None:
        found.append(row)
        print(json.dumps(row), flush=True)
        (folder / TIMES).write_text(json.dumps(found, indent=1))

    measure(rows, rounds, keep)
    return int(any(row["time"] in ("slower", "failed") for row in found))


if __name__ == "__main__":
    sys.exit(main())
