"""``python -m tileflow_benchmarks.production``: see ``--help``. Exit code 1: a requirement is missed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

SOAK_S = 240.0
PARTS = ("verify", "calls", "soak")
LIMITS_S = {"build": 240.0, "verify": 120.0, "calls": 150.0}  # a soak has a minute more than its seconds


def main(argv: list[str] | None = None) -> int:
    """Run the command that the arguments name. Returns the exit code."""
    options = _parser().parse_args(argv)
    sys.path.insert(0, str(Path.cwd()))  # where the gallery is
    match options.command:
        case "all":
            return run_all(options)
        case "part":
            from .calls import part

            print(json.dumps(part(options.name, options.bundle, options.as_device, options.dry)))
            return 0
        case "build":
            from .build import build

            return int(not build(options.bundle, options.as_device or _here(), options.processes))
        case "verify":
            from .verify_bundle import verify

            return int(not verify(options.bundle, options.out, options.as_device, options.dry))
        case "calls":
            from .calls import measure

            return int(not measure(options.bundle, options.out, options.as_device, options.dry))
    from .soak import soak

    return int(not soak(options.bundle, options.out, options.seconds, options.as_device, options.dry))


def run_all(options: argparse.Namespace) -> int:
    """Build unless there is a bundle, then run every part in a process of its own, within its time limit.

    Writes OUT/*.json and OUT/summary.md, and the bundle to OUT-bundle unless one is named. Returns the exit code.
    """
    from .summary import read_verdicts, table

    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    bundle = options.bundle or out.with_name(out.name + "-bundle") / "bundle"
    common = ["--as-device", options.as_device, *(["--dry"] if options.dry else [])]
    status: list[tuple[str, int, float]] = []
    if not bundle.exists():
        limit = LIMITS_S["build"]
        status.append(_child("build", ["build", str(bundle), "--as-device", options.as_device], out / "log.txt", limit))
        report = bundle.with_name("build.json")
        if report.exists():
            (out / "build.json").write_text(report.read_text(encoding="utf-8"), encoding="utf-8")
    for name in PARTS:
        limit = LIMITS_S.get(name, options.seconds + 60)
        more = ["--seconds", str(options.seconds)] if name == "soak" else []
        found = out / f"{name}.json"
        status.append(_child(name, [name, str(bundle), "--out", str(found), *more, *common], out / "log.txt", limit))
    lines = ["# What production promises", "", f"`scripts/production {out.name} --seconds {options.seconds:g}`", ""]
    for name, code, seconds in status:
        lines += [f"## {name}", "", f"Exit code {code} after {seconds:.0f} s.", ""]
        if (out / f"{name}.json").exists() and name in PARTS:
            lines += [table(read_verdicts(out / f"{name}.json"))]
    (out / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)
    return int(any(code for _, code, _ in status))


def _child(name: str, arguments: list[str], log: Path, limit_s: float) -> tuple[str, int, float]:
    """Run a part in a process. Returns (the part, its exit code or -1 past its limit, seconds).

    Its output goes to the log and, at its end, to this process's output.
    """
    started = time.monotonic()
    command = [sys.executable, "-m", "tileflow_benchmarks.production", *arguments]
    with log.open("a", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=limit_s).returncode
        except subprocess.TimeoutExpired:
            file.write(f"{name}: killed after {limit_s:.0f} s\n")
            code = -1
    if code:
        print(f"{name}: exit code {code}\n{log.read_text(encoding='utf-8')[-3000:]}", flush=True)
    return name, code, time.monotonic() - started


def _here() -> str:
    from tileflow.runtime.describe import device_class

    return device_class("cuda:0")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tileflow_benchmarks.production", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        if name != "all":
            made.add_argument("bundle", type=Path)
        made.add_argument("--as-device", default="", help="a device class; of the GPU at hand where not given")
        if name != "build":
            made.add_argument("--dry", action="store_true", help="without a GPU: nothing is computed")
        return made

    everything = command("all", "build, verify, time and soak; JSON files and summary.md in OUT")
    everything.add_argument("out", type=Path)
    everything.add_argument("--bundle", type=Path, help="one that `build` made")
    everything.add_argument("--seconds", type=float, default=SOAK_S, help="of the soak")
    command("build", "build the gallery's bundle; needs Triton, no GPU").add_argument(
        "--processes", type=int, default=0
    )
    texts = {
        "verify": "call every gallery kernel in a process without a compiler",
        "calls": "time the host's part of calls",
        "soak": "threads, streams, captures, reloads",
    }
    for name, text in texts.items():
        made = command(name, text)
        made.add_argument("--out", type=Path, default=Path(f"{name}.json"))
        if name == "soak":
            made.add_argument("--seconds", type=float, default=SOAK_S)
    part = commands.add_parser("part")
    part.add_argument("name", choices=("warm", "shapes"))
    part.add_argument("bundle", type=Path)
    part.add_argument("--as-device", default="")
    part.add_argument("--dry", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
