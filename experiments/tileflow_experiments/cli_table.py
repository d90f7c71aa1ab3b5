"""``tileflow table``: look at tables, check them, compare and merge them for a review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tileflow.errors import TableError

from .here import import_from_here

if TYPE_CHECKING:
    from tileflow.runtime import Entry, RowChange, Table

WORSE = 1

table = typer.Typer(help="Look at tables and bundles, check, compare and merge them.", no_args_is_help=True)

TablePath = Annotated[Path, typer.Argument(help="A table's file, a directory of tables, or a bundle.")]


@table.command("show")
def show_table(path: TablePath) -> None:
    """Print the rows of tables. Without typer: `python -m tileflow.runtime.show PATH`."""
    from tileflow.runtime.show import lines

    for line in lines(path):
        typer.echo(line)


@table.command("portfolio")
def show_portfolio(out: Annotated[Path, typer.Argument(help="The sweep's folder.")]) -> None:
    """Choose the few configs of each kernel of a sweep that serve unseen shapes, and say how well they do."""
    from . import sweep

    import_from_here()
    for kernel, found in sweep.portfolios(out.absolute()):
        sizes = ", ".join(f"{n}: {regret - 1:.1%}" for n, regret in enumerate(found.regrets, 1))
        typer.echo(
            f"{kernel} on {found.device_class}, {found.problems} problems; held-out regret by size {sizes}; "
            f"by the nearest problem's best {found.nearest - 1:.1%}, "
            f"by the default config {found.default - 1:.1%}"
        )
        for member in found.members:
            typer.echo(f"  at home in {member.home.key}\n    {member.config}")


@table.command("validate")
def validate_table(path: TablePath) -> None:
    """Check tables and bundles: schema, digests, machine code."""
    from tileflow.runtime.bundle import load_tables

    tables, bundle = load_tables(path)
    binaries = 0 if bundle is None else len(bundle.code)
    typer.echo(f"{len(tables)} tables, {sum(len(t.entries) for t in tables)} rows, {binaries} binaries: valid")


@table.command("diff")
def diff_tables(
    old: TablePath,
    new: TablePath,
    equal: Annotated[bool, typer.Option("--equal", help="Print the rows that did not change, too.")] = False,
    fail_on_worse: Annotated[bool, typer.Option(help="End with exit code 1 where a row is worse or gone.")] = False,
) -> None:
    """Say which rows are better, worse, new or gone, with the intervals of their times."""
    from tileflow.runtime import Change, compare

    before, after = _by_kernel(old), _by_kernel(new)
    counts: Counter[Change] = Counter()
    for kernel in sorted(before.keys() | after.keys()):
        pair = [side.get(kernel) for side in (before, after)]
        for line in _heading(kernel, *pair):
            typer.echo(line)
        for change in compare(*(side or _empty(pair) for side in pair)):
            counts[change.kind] += 1
            if equal or change.kind is not Change.EQUAL or change.is_retuned:
                typer.echo(_line(change))
    typer.echo(", ".join(f"{counts[kind]} {kind.value}" for kind in Change if counts[kind]) or "no rows")
    if fail_on_worse and (counts[Change.WORSE] or counts[Change.GONE]):
        raise typer.Exit(WORSE)


@table.command("merge")
def merge_tables(
    tables: Annotated[list[Path], typer.Argument(help="Tables' files and directories of tables.")],
    out: Annotated[Path, typer.Option(help="The directory for the merged tables, one file a kernel.")],
) -> None:
    """Write one table for each kernel: of comparable rows for the same call the better one."""
    from functools import reduce

    from tileflow.runtime import load_tables, merge
    from tileflow.runtime.files import require_folder
    from tileflow.runtime.table import dump_tables

    found: dict[str, list[Table]] = {}
    for path in tables:
        loaded, bundle = load_tables(path)
        if bundle is not None:
            raise TableError(
                "tables are merged without their binaries",
                got="a bundle",
                where=str(path),
                hint="tileflow bundle replace DEST OTHER --merge",
            )
        for one in loaded:
            found.setdefault(one.kernel.ref, []).append(one)
    merged = {kernel: reduce(merge, parts) for kernel, parts in sorted(found.items())}
    files = {kernel: out / name for kernel, name in _file_names(merged).items()}
    require_folder(out, "--out")
    out.mkdir(parents=True, exist_ok=True)
    dump_tables({files[kernel]: (one, None) for kernel, one in merged.items()})
    for kernel, one in merged.items():
        given = sum(len(part.entries) for part in found[kernel])
        typer.echo(f"{files[kernel]}: {len(one.entries)} rows of {given}")


def _file_names(kernels: Iterable[str]) -> dict[str, str]:
    """Return each kernel's file name: ``module.name.json``, or ``module-name.json`` where two kernels would share it,
    as ``a.b:c`` and ``a:b.c`` would."""
    from tileflow.runtime.table import table_file_name

    short = {kernel: table_file_name(kernel.replace(":", ".")) for kernel in kernels}
    shared = Counter(short.values())
    return {kernel: name if shared[name] == 1 else table_file_name(kernel) for kernel, name in short.items()}


def _by_kernel(path: Path) -> dict[str, Table]:
    from tileflow.runtime import load_tables

    return {one.kernel.ref: one for one in load_tables(path)[0]}


def _empty(pair: list[Table | None]) -> Table:
    """Return a table without rows for a kernel that only the other side has."""
    from tileflow.runtime import Table

    return Table.of(next(side.kernel for side in pair if side is not None), ())


def _heading(kernel: str, old: Table | None, new: Table | None) -> Iterator[str]:
    yield kernel
    if old is not None and new is not None and old.kernel.semantic_hash != new.kernel.semantic_hash:
        yield f"  another version of the kernel: {old.kernel.semantic_hash[:12]}, now {new.kernel.semantic_hash[:12]}"


def _line(change: RowChange) -> str:
    times = " -> ".join(_time(row) for row in (change.old, change.new) if row is not None)
    ratio = ""
    if change.old and change.new and change.old.best_us and change.new.best_us:
        ratio = f", {change.old.best_us / change.new.best_us:.2f}x"
    shown = change.new or change.old
    config = f"\n{'':9}{shown.config}" if shown is not None and change.is_retuned else ""
    return f"  {change.kind.value:6} {change.device}  {change.problem}: {times}{ratio}{config}"


def _time(row: Entry) -> str:
    if row.best_us is None:
        return "untimed"
    interval = "" if row.ci95 is None else f" ± {row.ci95:.2f}"
    return f"{row.best_us:.2f}{interval} us" + ("" if row.origin == "measured" else f" ({row.origin})")
