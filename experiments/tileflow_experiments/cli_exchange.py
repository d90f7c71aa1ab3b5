"""The commands that write and read other projects' formats (:mod:`.exchange`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tileflow.errors import SpecError

from .here import import_from_here, named_path

trials = typer.Typer(help="Hand a sweep's trials to other programs.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option(parser=named_path, help="The folder for the files.")]


def export_table(
    path: Annotated[
        Path, typer.Argument(parser=named_path, help="A table's file, a directory of tables, or a bundle.")
    ],
    out: Folder,
    format_: Annotated[Literal["vllm-moe"], typer.Option("--format", help="vllm-moe: for VLLM_TUNED_CONFIG_FOLDER.")],
) -> None:
    """Write rows as another program's tuned configs, and what it has no word for beside them."""
    from tileflow.runtime import load_tables

    from .exchange import vllm_moe

    exported = vllm_moe.export(load_tables(path)[0], out)
    for file in exported.files:
        typer.echo(str(file))
    for kernel, number in exported.left_out.items():
        typer.echo(f"left out, since they are of no fused experts: {kernel}, {number} row{'s' if number > 1 else ''}")
    typer.echo(f"what each row is, and what {format_} cannot say of it: {out / vllm_moe.NOTES}")


@trials.command("export")
def export_trials(
    sweep: Annotated[Path, typer.Argument(parser=named_path, help="The sweep's folder.")],
    out: Folder,
    format_: Annotated[Literal["t4"], typer.Option("--format", help="t4: what auto-tuners share.")],
) -> None:
    """Write every search of a sweep, finished or not, as a file of results and one of metadata."""
    from . import journal as journals
    from .exchange import t4

    lines = journals.read(sweep / "journal.jsonl")
    journals.whole_header(lines)
    written = t4.export(journals.fold(lines), out)
    for file in written:
        typer.echo(str(file))
    typer.echo(f"{len(written)} searches in {format_}")


def write_spec(
    traces: Annotated[
        Path, typer.Argument(parser=named_path, help="The folder of FLASHINFER_TRACE_DUMP_DIR, or of workloads.")
    ],
    out: Annotated[Path, typer.Option(parser=named_path, help="The spec's YAML file.")],
    device_class: Annotated[list[str], typer.Option(help="A device class; may be repeated.")],
    format_: Annotated[Literal["flashinfer"], typer.Option("--format", help="flashinfer: its trace dumps.")],
    size: Annotated[
        list[str] | None, typer.Option(help="axis=1,64,4096: sizes of an axis that varies; may be repeated.")
    ] = None,
    budget_s: Annotated[float, typer.Option(help="Seconds for each problem and device class.")] = 60,
) -> None:
    """Write a sweep's spec from what another program recorded. What it leaves out is said."""
    import yaml

    from tileflow.runtime.files import write_atomically

    from . import sweep
    from .exchange import flashinfer

    import_from_here()
    spec, left_out = flashinfer.spec_of_traces(traces, _sizes(size or ()), device_class, budget_s)
    sweep.check_spec(spec)
    write_atomically(out, yaml.safe_dump(spec.to_json(), sort_keys=False).encode())
    for line in left_out:
        typer.echo(f"left out: {line}", err=True)
    typer.echo(
        f"{out}: {sum(len(k.problems) for k in spec.kernels)} problems of {len(spec.kernels)} kernels ({format_})"
    )


def _sizes(texts: list[str] | tuple[()]) -> dict[str, list[int]]:
    """``batch_size=1,64``: sizes by axis."""
    found: dict[str, list[int]] = {}
    for text in texts:
        axis, _, numbers = text.partition("=")
        try:
            found.setdefault(axis, []).extend(int(number) for number in numbers.split(","))
        except ValueError:
            raise SpecError(
                "sizes must be an axis and numbers", got=repr(text), where="--size", hint="--size batch_size=1,64"
            ) from None
    return found
