"""The command line. Bad input ends with exit code 2 and one message, before anything is written.

What is heavy (torch, Ray, MLflow, pyarrow) is imported by the command that needs it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tileflow.errors import SpecError, TileflowError
from tileflow.streams import own_streams, say

from .cli_bundle import bundles
from .cli_exchange import export_table, trials, write_spec
from .cli_table import table
from .here import import_from_here, named_path
from .ray_job import COPY, in_a_job
from .stops import STOPS

if TYPE_CHECKING:
    from tileflow_cluster.protocol import Evaluator, Ordered

    from .spec import SweepSpec
    from .work import Tools

BAD_INPUT = 2
STOPPED = 3
UNLOGGED = 4
WITHOUT_A_ROW = 5

app = typer.Typer(no_args_is_help=True)
sweeps = typer.Typer(help="Run a sweep, go on with one, look at one.", no_args_is_help=True)
app.add_typer(sweeps, name="sweep")
app.add_typer(table, name="table")
app.add_typer(bundles, name="bundle")
app.add_typer(trials, name="trials")
table.command("export")(export_table)
sweeps.command("spec")(write_spec)

Out = Annotated[Path, typer.Argument(parser=named_path, help="The sweep's folder.")]
Told = Annotated[str, typer.Argument(metavar="SWEEP", help="As `tileflow sweep status` names it, or how that begins.")]
Address = Annotated[str, typer.Option(envvar="RAY_ADDRESS", help="The Ray cluster's address.")]
Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        help="MLflow's tracking URI.",
        show_default="MLFLOW_TRACKING_URI of the environment, else sqlite in the sweep's folder",
    ),
]
MlflowAgain = Annotated[
    str | None,
    typer.Option("--mlflow", help="MLflow's tracking URI.", show_default="where it was logged before, else as for run"),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        import tileflow

        typer.echo(f"tileflow {tileflow.__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Tune tileflow kernels and look at what was found."""


@app.command("doctor")
def doctor() -> None:
    """Say what this machine has for writing, tuning and serving kernels, and what it lacks; 1 where it lacks some."""
    from .doctor import report

    raise typer.Exit(report())


@sweeps.command("run")
def run_sweep(
    spec: Annotated[
        Path, typer.Argument(parser=named_path, help="The sweep's YAML file, or what `tileflow.record` wrote.")
    ],
    out: Annotated[
        Path | None, typer.Option(parser=named_path, help="The sweep's folder; the spec's `output` where not given.")
    ] = None,
    mlflow: Mlflow = None,
    device_class: Annotated[
        list[str] | None, typer.Option(help="For recorded calls: others than those that they were made on.")
    ] = None,
    budget_s: Annotated[
        float | None,
        typer.Option(help="For recorded calls: seconds for each, the often called more.", show_default="60"),
    ] = None,
) -> None:
    """Run a new sweep on the Ray cluster at hand, or on a local one."""
    with _ended_in_words() as start:
        from . import sweep
        from .recorded import SECONDS, is_recorded, spec_of_calls
        from .spec import read

        import_from_here()
        if is_recorded(spec):
            wanted = spec_of_calls(spec, device_class or (), SECONDS if budget_s is None else budget_s)
        else:
            _require_none_of_calls(spec, {"--device-class": device_class, "--budget-s": budget_s})
            wanted = read(spec)
        folder = start.into(_folder(out or wanted.output))
        _require_cluster(wanted)
        sweep.check_spec(wanted)
        finish(sweep.run(wanted, folder, tools(), mlflow), folder)


def _require_none_of_calls(spec: Path, options: dict[str, object]) -> None:
    """Raise SpecError for an option of recorded calls beside a spec, which says the same in its own fields."""
    for name, value in options.items():
        if value is not None:
            raise SpecError(
                f"{name} must go with recorded calls",
                got=f"{value} and the spec {spec}",
                where=name,
                hint="a spec has device_classes and budget: {seconds: S}; recorded calls are a folder or a .jsonl file",
            )


@sweeps.command("resume")
def resume_sweep(out: Out, mlflow: MlflowAgain = None) -> None:
    """Go on with a sweep that was stopped or killed; MLflow is brought up to date."""
    with _ended_in_words() as start:
        folder = start.into(_folder(out))
        from . import sweep

        import_from_here()
        finish(sweep.resume(folder, tools(), mlflow), folder)


@sweeps.command("export")
def export_sweep(out: Out) -> None:
    """Write Parquet, tables and report from a sweep's journal, finished or not."""
    from . import sweep

    import_from_here()
    sweep.export(_folder(out))


@sweeps.command("log")
def log_sweep(out: Out, mlflow: MlflowAgain = None) -> None:
    """Bring MLflow up to date with a sweep's journal, finished or not. Doing it again changes nothing. Ends with 4
    where MLflow does not take all of it."""
    from . import sweep
    from .tracking.store import MlflowAway, MlflowUnusable

    try:
        state = sweep.to_mlflow(_folder(out), mlflow)
    except (MlflowAway, MlflowUnusable) as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(UNLOGGED) from None
    for line in state.lines():
        typer.echo(line, err=True)
    typer.echo(f"{state.trials} trials are in MLflow at {state.uri}; their page is {state.page}")


@sweeps.command("status")
def sweep_status(
    out: Annotated[
        Path | None, typer.Argument(parser=named_path, help="A sweep's folder; all sweeps of the cluster without one.")
    ] = None,
    address: Address = "auto",
) -> None:
    """Say how far a sweep is from its journal, or how all sweeps of a cluster are doing, from any machine."""
    if out is None:
        _show_cluster(address)
    else:
        _show_journal(out)


@sweeps.command("pause")
def pause_sweep(
    sweep: Told,
    address: Address = "auto",
    off: Annotated[bool, typer.Option("--off", help="Let it go on.")] = False,
) -> None:
    """Let a sweep on a cluster give its CPUs and GPUs back, and wait; `--off` lets it go on."""
    _tell(address, sweep, "" if off else "pause")


@sweeps.command("stop")
def stop_sweep(sweep: Told, address: Address = "auto") -> None:
    """Let a sweep on a cluster end as after Ctrl-C: with the tables of what is known."""
    _tell(address, sweep, "stop")


def _show_cluster(address: str) -> None:
    from tileflow_cluster.sweep_registry import list_sweeps

    from .status import shown

    entries = list_sweeps(address)
    for line in shown(entries):
        typer.echo(line)
    if not entries:
        typer.echo("no sweep works on this cluster")


def _tell(address: str, sweep: str, order: Ordered) -> None:
    from tileflow_cluster.sweep_registry import list_sweeps, send_order

    told = send_order(address, sweep, order)
    if not told:
        known = ", ".join(entry.sweep_id for entry in list_sweeps(address)) or "no sweep works there"
        raise SpecError("a sweep of the cluster must be named, or how its name begins", got=repr(sweep), hint=known)
    for name in told:
        typer.echo(f"{name}: told to {order or 'go on'}")


def _show_journal(out: Path) -> None:
    from . import journal as journals
    from .study import leaders

    lines = journals.read(out / "journal.jsonl")
    typer.echo(journals.whole_header(lines)["sweep_id"])
    folded = journals.fold(lines)
    for key, records in folded.trials.items():
        best = next(iter(leaders(records)), None)
        time_us = "no working config" if best is None else f"best {best.time_us:.2f} us"
        how = "" if best is None or best.measured else " (modelled)"
        typer.echo(f"  {key.title}: {sum(r.completed for r in records)} trials, {time_us}{how}")
    for study, reason in journals.stopped(folded.events).items():
        typer.echo(f"  {study}: stopped: {reason.splitlines()[0]}")
    endings = {line["epoch"]: line["reason"] for line in folded.events if line["event"] == "closed"}
    opened = max((line["epoch"] for line in folded.events if line["event"] == "opened"), default=0)
    if opened not in endings:
        typer.echo("running, or killed: `tileflow sweep resume` goes on if nothing runs")
    else:
        typer.echo(f"stopped: {endings[opened]}" if endings[opened] else "finished")


@app.command("tune")
def tune(
    kernel: Annotated[str, typer.Argument(metavar="MODULE:KERNEL")],
    device_class: Annotated[list[str], typer.Option(help="A device class; may be repeated.")],
    problem: Annotated[list[str], typer.Option(help="key=value ... in one argument; may be repeated.")],
    out: Annotated[Path, typer.Option(parser=named_path, help="The folder for journal, table and report.")],
    budget_s: Annotated[float, typer.Option(help="Seconds for each problem and device class.")] = 60.0,
    strategy: Annotated[str, typer.Option()] = "default",
    seed: Annotated[int, typer.Option()] = 0,
    mlflow: Mlflow = None,
) -> None:
    """Tune one kernel: a sweep without a spec."""
    with _ended_in_words() as start:
        folder = start.into(_folder(out))
        from . import sweep
        from .spec import MOST_NAME, parse

        import_from_here()
        wanted = parse(
            {
                "name": "-".join(["tune", *re.findall(r"\w+", kernel.rpartition(":")[2])])[:MOST_NAME],
                "kernels": [{"kernel": kernel, "problems": [_pairs(text, "--problem") for text in problem]}],
                "device_classes": list(device_class),
                "strategy": {"name": strategy, "seed": seed},
                "budget": {"seconds": budget_s},
            }
        )
        sweep.check_spec(wanted)
        finish(sweep.run(wanted, folder, tools(), mlflow), folder)


@app.command("show")
def show_kernel(
    kernel: Annotated[str, typer.Argument(metavar="MODULE:KERNEL")],
    problem: Annotated[str, typer.Option(help="key=value ... in one argument: of the kernel's `inputs`.")],
    device_class: Annotated[str, typer.Option(help="The device class to compile for.")] = "nvidia-h200",
    config: Annotated[str, typer.Option(help="knob=choice ...; what is not named is the default's.")] = "",
    source: Annotated[bool, typer.Option("--source", help="Only the generated Triton.")] = False,
) -> None:
    """Print what bounds a kernel, its knobs, its operations line by line, and the Triton that is made of it."""
    from tileflow.api import load_kernel
    from tileflow.config import Config
    from tileflow.explain import explain
    from tileflow.target import target

    from .spec_check import problem_inputs

    import_from_here()
    loaded, device = load_kernel(kernel), target(device_class)
    lowered = loaded.lower(problem_inputs(loaded, _pairs(problem, "--problem"), "--problem"), device)
    chosen = Config.of(lowered.default.to_dict() | (_pairs(config, "--config") if config else {}))
    regions = lowered.emit(chosen)  # before anything is printed: it refuses a config
    if not source:
        typer.echo(explain(lowered) + "\n")
    for region in regions:
        typer.echo(f"# {chosen}\n{region.text}")


def main() -> None:
    """Run the ``tileflow`` command."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("alembic", "mlflow", "matplotlib", "git"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with own_streams():
        try:
            app()
        except (TileflowError, OSError) as error:
            said = _in_words(error) if isinstance(error, OSError) else error
            say(f"{type(error).__name__}: {said}", sys.stderr)
            sys.exit(BAD_INPUT)


def _in_words(error: OSError) -> TileflowError:
    """The system's error of a file, with what to do."""
    steps = {
        errno.ENOSPC: "make room there, or name another place",
        errno.EDQUOT: "make room there, or name another place",
        errno.EFBIG: "raise the limit of a file's size (ulimit -f), or name another place",
        errno.EROFS: "name a place that can be written to",
        errno.EACCES: "let this user read and write there, or name another place",
        errno.EPERM: "let this user read and write there, or name another place",
        errno.ENAMETOOLONG: "name a shorter path",
    }
    return TileflowError(
        "a command's files must be readable and writable",
        got=error.strerror or str(error),
        where=error.filename and str(error.filename),
        hint=steps.get(error.errno or 0, "look at the path, and at what is there"),
    )


@dataclass(slots=True)
class _Start:
    """The start of a sweep. ``folder``: the sweep's, once it is known; ``written``: bytes of its journal then."""

    folder: Path | None = None
    written: int = 0

    def into(self, folder: Path) -> Path:
        """Note the folder, and return it."""
        self.folder, self.written = folder, _journalled(folder)
        return folder

    def ended(self, name: str) -> str:
        """Return what a signal left; empty where the search had begun, which has said it."""
        if self.folder is None:
            return f"{name} ended the sweep while its spec was read: nothing was written"
        if _journalled(self.folder) != self.written:
            return ""
        kept = f"{self.folder} is as it was" if self.written else f"no trial was made, and {self.folder} has no journal"
        return f"{name} ended the sweep before its search began: {kept}; the same command begins again"


def _journalled(folder: Path) -> int:
    journal = folder / "journal.jsonl"
    return journal.stat().st_size if journal.is_file() else 0


@contextmanager
def _ended_in_words() -> Iterator[_Start]:
    """Let the signals that stop a sweep end its start in words. While it searches they drain it; later they interrupt
    it, and it says what it left.

    The process ends by the signal itself: an exception may come up in the midst of an import, which does not let it
    through, and what ends with the process is all that there is.
    """
    start = _Start()

    def end(number: int, frame: FrameType | None) -> None:
        said = start.ended(signal.Signals(number).name)
        if not said:
            raise KeyboardInterrupt(number)
        with suppress(OSError):  # who read it has gone
            os.write(2, f"{said}\n".encode("utf-8", "backslashreplace"))
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = {number: signal.getsignal(number) for number in STOPS}
    ours = [n for n, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    for number in ours:
        signal.signal(number, end)
    try:
        yield start
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(128 + next(iter(interrupt.args), signal.SIGINT)) from None
    except SystemExit:  # by Ray's own handler, while it starts
        say(start.ended("a signal") or "a signal ended the sweep", sys.stderr)
        raise typer.Exit(128 + signal.SIGTERM) from None
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _folder(out: Path | None) -> Path:
    if out is None:
        raise SpecError("a sweep must have a folder", got="no --out and no `output` in the spec", where="output")
    if not out.is_absolute() and in_a_job():
        raise SpecError(
            "a job's folder must be absolute",
            got=repr(str(out)),
            where="--out",
            hint=COPY,
        )
    return out.absolute()


_EXAMPLES = {"--problem": "m=4096 n=8192 dtype=bfloat16", "--config": "num_warps=8 block:tile=128"}


def _pairs(text: str, option: str) -> dict[str, Any]:
    """Parse ``m=4096 n=8192 dtype=bfloat16``, values as YAML reads them."""
    import yaml

    from .strict_yaml import read_yaml

    pairs = [item.partition("=") for item in text.replace(",", " ").split()]
    names = [key for key, _, _ in pairs]
    if not pairs or not all(key and sign and value for key, sign, value in pairs) or len({*names}) < len(names):
        raise SpecError(
            f"{option} must be key=value pairs, each key once",
            got=repr(text),
            where=option,
            hint=f'for example {option} "{_EXAMPLES[option]}"',
        )
    try:
        return {key: read_yaml(value) for key, _, value in pairs}
    except (yaml.YAMLError, ValueError) as error:
        raise SpecError(
            f"the values of {option} must be YAML",
            got=str(error)[:500],
            where=option,
            hint=f'for example {option} "{_EXAMPLES[option]}"',
        ) from None


def tools() -> Tools:
    """Return the real tools: Ray, the compiler, a process that interprets."""
    from .work import Tools

    return Tools(evaluator=_ray)


def _ray(wanted: SweepSpec) -> Evaluator:
    """Return workers on the Ray cluster that ``RAY_ADDRESS`` names, else on a local Ray of this process, on loopback
    alone."""
    address = os.environ.get("RAY_ADDRESS", "local")
    _require_cluster(wanted)
    if address == "local":
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from tileflow_cluster.pipeline import TileflowStages
    from tileflow_cluster.ray_evaluator import RayEvaluator, Timeouts

    return RayEvaluator(
        TileflowStages(),
        wanted.device_classes,
        address=address,
        name=wanted.name,
        priority=wanted.priority,
        part=wanted.part,
        timeouts=Timeouts(away_s=wanted.budget.wait_seconds),
    )


def _require_cluster(wanted: SweepSpec) -> None:
    """Raise SpecError where each scheduler would start a Ray of its own with all of this machine's GPUs, ClusterError
    where none answers at the address that they would join: this process joins none, and would note it as their end."""
    if wanted.schedulers == 1:
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    if address == "local":
        raise SpecError(
            "several schedulers must share a Ray cluster",
            got=f"{wanted.schedulers}, and no RAY_ADDRESS",
            where="schedulers",
            hint="ray start --head, then set RAY_ADDRESS",
        )
    from tileflow_cluster.ray_connection import require_reachable

    require_reachable(address)


def finish(stopped: str, out: Path) -> None:
    """Print the closing table and the last line, and end with the exit code.

    A stop takes precedence over searches without a row, which a resume does not give one, and those over the log. The
    code tells as much where nobody reads the lines any more.
    """
    from . import closing
    from .tracking import state as states

    ending = closing.of_sweep(out / "journal.jsonl", out / "tables")
    for line in ending.lines:
        say(line, sys.stdout)
    logged = states.read(out)
    for line in logged.lines() if logged is not None else ():
        say(line, sys.stderr)
    if stopped:
        report, again = out / "report.md", shlex.join(["tileflow", "sweep", "resume", str(out)])
        see = f"see {report}; " if report.exists() else ""  # a full disk took none
        say(f"stopped before its end ({stopped}): {see}`{again}` goes on", sys.stderr)
        if "ray" in sys.modules:
            from tileflow_cluster.ray_connection import exit_where_the_head_has_gone

            exit_where_the_head_has_gone(STOPPED)
        raise typer.Exit(STOPPED)
    say(f"{time.strftime('%H:%M:%S')} done: {out / 'report.md'}", sys.stdout)
    if ending.without:
        missing = f"{len(ending.without)} of {ending.searches} tuning tasks have no row: {', '.join(ending.without)}"
        say(f"{missing}; {out / 'report.md'} says how their trials ended", sys.stderr)
        raise typer.Exit(WITHOUT_A_ROW)
    if logged is not None and not logged.complete:
        raise typer.Exit(UNLOGGED)


if __name__ == "__main__":
    main()
