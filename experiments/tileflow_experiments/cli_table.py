"""``tileflow table``: look at tables, check them, compare and merge them for a review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tileflow.errors import TableError

from .here import import_from_here, named_path

if TYPE_CHECKING:
    from tileflow.runtime import Entry, RowChange, Table

WORSE = 1

Version = tuple[str, str]  # a kernel's name and semantic hash

table = typer.Typer(help="Look at tables and bundles, check, compare and merge them.", no_args_is_help=True)

TablePath = Annotated[
    Path, typer.Argument(parser=named_path, help="A table's file, a directory of tables, or a bundle.")
]


@table.command("show")
def show_table(path: TablePath) -> None:
    """Print the rows of tables. Without typer: `python -m tileflow.runtime.show PATH`."""
    from tileflow.runtime.show import lines

    for line in lines(path):
        typer.echo(line)


@table.command("portfolio")
def show_portfolio(out: Annotated[Path, typer.Argument(parser=named_path, help="The sweep's folder.")]) -> None:
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

    counts: Counter[Change] = Counter()
    for kernel, was, now in _pairs(_by_version([old]), _by_version([new])):
        for line in _heading(kernel, was, now):
            typer.echo(line)
        pair = [was, now]
        for change in compare(*(side or _empty(pair) for side in pair)):
            counts[change.kind] += 1
            if equal or change.kind is not Change.EQUAL or change.is_retuned:
                typer.echo(_line(change))
    typer.echo(", ".join(f"{counts[kind]} {kind.value}" for kind in Change if counts[kind]) or "no rows")
    if fail_on_worse and (counts[Change.WORSE] or counts[Change.GONE]):
        raise typer.Exit(WORSE)


@table.command("merge")
def merge_tables(
    tables: Annotated[list[Path], typer.Argument(parser=named_path, help="Tables' files and directories of tables.")],
    out: Annotated[
        Path, typer.Option(parser=named_path, help="The directory for the merged tables, one file a kernel.")
    ],
) -> None:
    """Write one table for each version of a kernel: of comparable rows for the same call the better one.

    A table in --out is replaced where it is among those that are merged.
    """
    from functools import reduce

    from tileflow.runtime import merge
    from tileflow.runtime.files import require_folder
    from tileflow.runtime.table_files import dump_tables

    found = _by_version(tables, bundles=False)
    merged = {version: reduce(merge, parts) for version, parts in sorted(found.items())}
    files = {version: out / name for version, name in _file_names(merged).items()}
    require_folder(out, "--out")
    _require_no_other(out, files)
    out.mkdir(parents=True, exist_ok=True)
    dump_tables(
        {files[version]: (one, _replaced(files[version], one, found[version])) for version, one in merged.items()}
    )
    for version, one in merged.items():
        given = sum(len(part.entries) for part in found[version])
        typer.echo(f"{files[version]}: {len(one.entries)} rows of {given}")


def _require_no_other(out: Path, files: Mapping[Version, Path]) -> None:
    """Raise TableError where the folder has a table of a version under another name than the one that is written: who
    loads the folder would have the rows from before the merge, too."""
    from tileflow.runtime import load_table
    from tileflow.runtime.bundle import MANIFEST

    for name, what, step in (
        (MANIFEST, "a bundle", "tileflow bundle replace DEST OTHER --merge"),
        ("journal.jsonl", "a sweep's folder", "its tables are in its folder tables"),
    ):
        if (out / name).exists():
            raise TableError("tables are merged into a folder of tables", got=what, where=str(out), hint=step)
    for path in sorted(out.glob("*.json")):
        if path.name.startswith(".") or path in files.values():
            continue
        kernel = load_table(path).kernel
        if (kernel.ref, kernel.semantic_hash) in files:
            raise TableError(
                "a folder must have one table for each version of a kernel",
                got=f"{path.name}, beside which {files[kernel.ref, kernel.semantic_hash].name} would be written",
                where=str(out),
                hint="name another folder with --out",
            )


def _replaced(path: Path, merged: Table, parts: Iterable[Table]) -> str | None:
    """Return the id of the table that ``merged`` takes the place of, None for no file. Raises TableError for a table
    that is none of its ``parts``, whose rows would be lost."""
    from tileflow.runtime import load_table

    if not path.exists():
        return None
    there = load_table(path).table_id
    if there not in {merged.table_id, *(part.table_id for part in parts)}:
        raise TableError(
            "a merge must replace no table but those that it merges",
            got=f"table {there[:12]}, which is none of them",
            where=str(path),
            hint=f"tileflow table merge {quote(str(path))} TABLES --out {quote(str(path.parent))} keeps its rows too",
        )
    return there


def _file_names(versions: Iterable[Version]) -> dict[Version, str]:
    """Return each version's file name: ``module.name.json``; ``module-name.json`` where two kernels would share it, as
    ``a.b:c`` and ``a:b.c`` would; with digits of its hash where a kernel has several."""
    from tileflow.runtime.table_files import table_file_name

    versions = tuple(versions)
    kernels = Counter(kernel for kernel, _ in versions)
    shared = Counter(table_file_name(kernel.replace(":", ".")) for kernel in kernels)
    names = {}
    for kernel, semantic_hash in versions:
        short = kernel.replace(":", ".")
        stem = short if shared[table_file_name(short)] == 1 else kernel
        names[kernel, semantic_hash] = table_file_name(stem + f"-{semantic_hash[:16]}" * (kernels[kernel] > 1))
    return names


def _by_version(paths: Iterable[Path], bundles: bool = True) -> dict[Version, list[Table]]:
    """Return the tables of files and folders by the version of a kernel that they are of. Raises TableError for a
    bundle, unless ``bundles`` are read too."""
    from tileflow.runtime import load_tables

    found: dict[Version, list[Table]] = {}
    for path in paths:
        loaded, bundle = load_tables(path)
        if bundle is not None and not bundles:
            raise TableError(
                "tables are merged without their binaries",
                got="a bundle",
                where=str(path),
                hint="tileflow bundle replace DEST OTHER --merge",
            )
        for one in loaded:
            found.setdefault((one.kernel.ref, one.kernel.semantic_hash), []).append(one)
    return found


def _pairs(
    old: dict[Version, list[Table]], new: dict[Version, list[Table]]
) -> Iterator[tuple[str, Table | None, Table | None]]:
    """Yield each kernel with its tables before and after: those of one version, and the one version that each side has
    alone. A folder may hold several, of closures or from before an edit."""
    from functools import reduce

    from tileflow.runtime import merge

    before, after = ({key: reduce(merge, parts) for key, parts in side.items()} for side in (old, new))
    for kernel in sorted({ref for ref, _ in before.keys() | after.keys()}):
        gone = [key for key in sorted(before) if key[0] == kernel and key not in after]
        come = [key for key in sorted(after) if key[0] == kernel and key not in before]
        if len(gone) == len(come) == 1:
            yield kernel, before[gone[0]], after[come[0]]
        else:
            yield from ((kernel, before[key], None) for key in gone)
            yield from ((kernel, None, after[key]) for key in come)
        yield from ((kernel, before[key], after[key]) for key in sorted(before) if key[0] == kernel and key in after)


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
