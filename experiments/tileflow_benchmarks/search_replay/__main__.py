"""``python -m tileflow_benchmarks.search_replay``: record a kernel's space once, try strategies on it without a GPU."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer
from tileflow_experiments.here import import_from_here

from tileflow.errors import TileflowError

app = typer.Typer(help="Record a kernel's space once, try strategies on it without a GPU.", no_args_is_help=True)


@app.command("record")
def record_spaces(
    spec: Annotated[Path, typer.Argument(help="A sweep's YAML file: its kernels, problems, first device class, seed.")],
    out: Annotated[Path, typer.Option(help="The folder for the recordings, one Parquet file a problem.")],
    seconds: Annotated[float, typer.Option(help="Of all problems together, shared out evenly.")] = 240.0,
    cores: Annotated[int, typer.Option(help="Compile processes; 0: as many as there are cores.")] = 0,
) -> None:
    """Measure a large sample of each problem's space on this machine's GPU."""
    from tileflow_cluster.pipeline import TileflowStages
    from tileflow_experiments.spec import read

    import_from_here()
    from .record import record

    record(read(spec), out, seconds, TileflowStages(compile_s=20.0), cores=cores)


@app.command("replay")
def replay_recordings(
    folder: Annotated[Path, typer.Argument(help="A folder of recordings.")],
    strategies: Annotated[str, typer.Option(help="Names of strategies, separated by commas.")] = "default,random",
    seeds: Annotated[int, typer.Option(help="Searches for each strategy and recording.")] = 10,
    seconds: Annotated[float, typer.Option(help="Virtual time of each search.")] = 60.0,
    ablate: Annotated[bool, typer.Option("--ablate", help="The default strategy with parts of it left out.")] = False,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="The default strategy over a kernel's shapes in turn, alone and sharing.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write; `replay` in the folder where not given.")] = None,
) -> None:
    """Run strategies against recordings in virtual time, without a GPU; write plots, JSON and Markdown."""
    from . import compare, report
    from . import transfer as transfers
    from .recording import read_all

    import_from_here()
    if transfer:
        series = transfers.transfer(read_all(folder), range(seeds), seconds)
        paths = transfers.write(series, out or folder / "replay")
        stale = {title: why for found in series for title, why in found.stale.items()}
    else:
        who = list(compare.ABLATIONS) if ablate else compare.variants(strategies.split(","))
        comparisons = compare.compare(read_all(folder), who, range(seeds), seconds)
        paths = report.write(comparisons, out or folder / "replay", "ablation" if ablate else "replay", seconds)
        stale = {comparison.recording.header.title: comparison.stale for comparison in comparisons if comparison.stale}
    for path in paths:
        typer.echo(path)
    for title, why in stale.items():
        typer.echo(f"stale: {title}: {why}", err=True)


def main() -> None:
    """Run the command. Exit code 2 for bad input."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except TileflowError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
