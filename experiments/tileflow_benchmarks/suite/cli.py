"""The command line: run the suite on the GPUs at hand; also ``tune-peers``, ``report``, ``misses`` and ``binaries``."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path

from . import helion_peer
from .commands import misses, read_binaries, report, run, tune_peers
from .slot_work import PEERS

# Processes that Helion spawns import this module first, and Helion after.
if helion_peer.available():
    helion_peer.prepare()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command and its subcommands."""
    top = argparse.ArgumentParser(
        prog="scripts/bench", description="Time the gallery beside its peers on the GPUs at hand."
    )
    commands = top.add_subparsers(dest="command", required=True)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--out", type=Path, required=True, help="folder for what is found (tune-peers: a JSON file)")
    shared.add_argument("--only", default="", help="cells whose title holds one of these words, by commas")
    shared.add_argument("--gpus", type=int, help="how many of the visible devices, one process each; default: all")
    shared.add_argument("--dry-run", action="store_true", help="try it on the CPU, at small sizes")

    timing = commands.add_parser("run", parents=[shared], help="check and time (the default command)")
    timing.add_argument("--tables", type=Path, help="tables or a bundle to dispatch from; without, the defaults run")
    timing.add_argument(
        "--peers", default=",".join(PEERS), help=f"of {','.join(PEERS)}; those that are not there are named"
    )
    timing.add_argument("--peer-configs", type=Path, help="what tune-peers wrote; without, Helion is not timed")
    timing.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    timing.add_argument(
        "--compile-seconds", type=float, default=90.0, help="the longest that torch.compile may take a cell"
    )
    timing.add_argument("--cell-seconds", type=float, default=240.0, help="the longest that a cell may take")
    timing.add_argument("--seconds", type=float, default=float("inf"), help="end by then with what there is")
    timing.add_argument("--docs", type=Path, help="a page between whose marks the figures go too")
    timing.set_defaults(call=run)

    searching = commands.add_parser("tune-peers", parents=[shared], help="let Helion search, and keep what it finds")
    searching.add_argument("--peers", default="helion", choices=["helion"], help="peers that search")
    searching.add_argument("--kernels", default="", help="kernels by name, by commas; default: all that it has")
    searching.add_argument("--seconds", type=float, default=60.0, help="Helion's budget a cell")
    searching.add_argument("--effort", choices=["quick", "full"], default="quick", help="how thorough Helion calls it")
    searching.add_argument("--total-seconds", type=float, default=float("inf"), help="end by then with what there is")
    searching.set_defaults(call=tune_peers)

    reading = commands.add_parser("binaries", help="cross-compile the suite and tell what its machine code holds")
    reading.add_argument("--out", type=Path, required=True, help="the page to write")
    reading.add_argument("--only", default="", help="cells whose title holds one of these words, by commas")
    reading.add_argument("--device", default="nvidia-h200", help="the device class to compile for")
    reading.add_argument("--tables", type=Path, help="whose rows' configs are compiled; without, the defaults")
    reading.set_defaults(call=read_binaries)

    telling = commands.add_parser("report", help="write the page and the plots again from a run's bench.json")
    telling.add_argument("json", type=Path)
    telling.add_argument("--out", type=Path, required=True)
    telling.add_argument("--peer-configs", type=Path)
    telling.add_argument("--docs", type=Path)
    telling.set_defaults(call=report)

    missing = commands.add_parser("misses", help="put the cells of a run that miss their target into a page")
    missing.add_argument("json", type=Path, help="a run's bench.json")
    missing.add_argument("--docs", type=Path, required=True, help="the page, between its marks")
    missing.set_defaults(call=misses)
    return top


def main() -> int:
    """Run the command. Exit code 1 where one of our cells was wrong, failed or not measured, 2 without a GPU."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["run", *arguments]
    options = parser().parse_args(arguments)
    options.told = "scripts/bench " + shlex.join(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the slots' processes end too
    code: int = options.call(options)
    return code


if __name__ == "__main__":
    if "--dry-run" in sys.argv:
        os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton
    sys.exit(main())
