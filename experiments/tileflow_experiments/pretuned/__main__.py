"""The pretuned tables, from problems to a wheel; runs in the tree's root, as ``scripts/pretuned``.

scripts/pretuned tune OUT [--seconds N] [--only WORDS]   on a GPU: a sweep, then its rows into configs/pretuned/tables
scripts/pretuned model [--only WORDS] [--stale]          without one: default configs with modelled times
scripts/pretuned check [--json]                          which kernels the rows are still rows of; 1 where one is not
scripts/pretuned wheel DEST [--only WORDS]               binaries from the tables, and the wheel tileflow-pretuned
scripts/pretuned dispatch WHEEL... [--out FILE] [--most N]
                                                         on a GPU: that wheel and the runtime's installed by themselves,
                                                         called from a process without a compiler; 1 where no row serves
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tileflow.errors import SpecError, TileflowError
from tileflow.streams import own_streams, say

from ..here import import_from_here
from ..spec import Budget, KernelSpec, SweepSpec, read
from ..work import Tools
from . import tables as stored
from .package import write_wheel

BAD_INPUT, STALE, STOPPED = 2, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 where a table is stale, 2 for bad input, 3 for a sweep that stopped before its end."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with own_streams():
        options = _parser().parse_args(arguments)
        import_from_here()
        try:
            return int(options.run(options))
        except (TileflowError, OSError) as error:
            say(f"{type(error).__name__}: {error}", sys.stderr)
            return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("tune", tune), ("model", model), ("check", check), ("wheel", wheel), ("dispatch", dispatch)):
        command = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        command.set_defaults(run=run)
        command.add_argument("--only", default="", help="kernels whose name holds one of these words, by commas")
        command.add_argument("--processes", type=_count, default=0, help="that compile; 0: one a core")
        match name:
            case "tune":
                command.add_argument("out", type=Path, help="the sweep's folder")
                command.add_argument("--seconds", type=float, help="for each problem; the spec's where not given")
            case "model":
                command.add_argument("--stale", action="store_true", help="only kernels that changed or have no table")
            case "check":
                command.add_argument("--json", action="store_true")
            case "wheel":
                command.add_argument("dest", type=Path, help="the folder for the wheel")
            case "dispatch":
                command.add_argument("wheels", type=Path, nargs="+", help="of tileflow-runtime and tileflow-pretuned")
                command.add_argument("--out", type=Path, help="a file for the calls, JSON")
                command.add_argument("--most", type=_count, default=0, help="problems of each kernel; 0: all")
    return parser


def _count(text: str) -> int:
    """Return a number of things. Raises ArgumentTypeError below 0, which would leave some out at the end."""
    try:
        found = int(text)
    except ValueError:
        found = -1
    if found < 0:
        raise argparse.ArgumentTypeError(f"a count must be a number from 0, but got {text!r}")
    return found


def tune(options: argparse.Namespace) -> int:
    """Run the sweep on this host's cards, and write its rows."""
    from tileflow.measure.device import identity
    from tileflow.runtime import load_tables

    from .. import sweep

    found = read(stored.PROBLEMS)
    budget = found.budget if options.seconds is None else Budget(seconds=options.seconds)
    here = identity().device_class
    wanted = replace(found, kernels=_named(found, options.only), device_classes=(here,), budget=budget)
    sweep.check_spec(wanted)
    stopped = sweep.run(wanted, options.out.absolute(), replace(tools(), to_mlflow=False))
    measured = [stored.without_code(table) for table in load_tables(options.out / "tables")[0]]
    _say(stored.update(measured, stored.TABLES))
    if stopped:
        say(f"stopped before its end: {stopped}", sys.stderr)
    return STOPPED if stopped else 0


def tools() -> Tools:
    """Workers of this machine, which need no Ray; those of the Ray that ``RAY_ADDRESS`` names, where it does."""
    if os.environ.get("RAY_ADDRESS"):
        from ..cli import tools as on_ray

        return on_ray()
    from tileflow_cluster.local_evaluator import LocalEvaluator
    from tileflow_cluster.pipeline import TileflowStages

    return Tools(lambda wanted: LocalEvaluator(TileflowStages(), wanted.device_classes))


def model(options: argparse.Namespace) -> int:
    """Write rows of default configs, with modelled times, where nothing was measured."""
    found = read(stored.PROBLEMS)
    kernels = _named(found, options.only)
    if options.stale:
        known = stored.states(stored.TABLES) if any(stored.TABLES.glob("*.json")) else []
        current = {state.kernel for state in known if not state.why_stale}
        kernels = tuple(kernel for kernel in kernels if kernel.kernel not in current)
    for kernel in kernels:  # one at a time: what is done stays done
        rows = stored.modelled([kernel], found.device_classes, options.processes)
        _say(stored.update(rows, stored.TABLES))
    return 0


def check(options: argparse.Namespace) -> int:
    """Say which kernels the rows are still rows of."""
    found = [state for state in stored.states(stored.TABLES) if _is_named(state.kernel, options.only)]
    print(stored.as_json(found) if options.json else "\n".join(state.line for state in found))
    return STALE if any(state.why_stale for state in found) else 0


def wheel(options: argparse.Namespace) -> int:
    """Build the binaries and the wheel."""
    found = [table for _, table in stored.read(stored.TABLES) if _is_named(table.kernel.ref, options.only)]
    if not found:
        raise SpecError("a wheel must have kernels", got=f"none with {options.only}", where="--only")
    print(write_wheel(found, options.dest, options.processes))
    return 0


def dispatch(options: argparse.Namespace) -> int:
    """Call the wheel's kernels from a process without a compiler."""
    from . import dispatch as installed

    specs, found = _named(read(stored.PROBLEMS), options.only), []
    with tempfile.TemporaryDirectory(prefix="tileflow-pretuned-") as folder:
        packages = Path(folder) / "packages"
        installed.installed([wheel.absolute() for wheel in options.wheels], packages)
        with installed.started(packages, Path(folder)) as there:
            for call in installed.dispatched(there, specs, options.most):
                found.append(call)
                print(call, flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(call) for call in found], indent=1))
    print(f"{sum(call.is_ok for call in found)} of {len(found)} calls by a row of their problem, and right")
    return int(not all(call.is_ok for call in found))


def _named(spec: SweepSpec, words: str) -> tuple[KernelSpec, ...]:
    kernels = tuple(kernel for kernel in spec.kernels if _is_named(kernel.kernel, words))
    if not kernels:
        raise SpecError("the problems must have a kernel of that name", got=words, where="--only")
    return kernels


def _is_named(kernel: str, words: str) -> bool:
    return not words or any(word in kernel for word in words.split(","))


def _say(changed: Sequence[Path]) -> None:
    for path in changed:
        print(path, flush=True)


if __name__ == "__main__":
    sys.exit(main())
