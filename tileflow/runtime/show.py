"""``python -m tileflow.runtime.show PATH``: tables and bundles as text. Needs neither torch nor a compiler."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from os import PathLike

from ..errors import TileflowError
from ..streams import own_streams, say
from .bundle import Bundle, load_tables
from .snapshots import list_snapshots
from .table import Entry, Fallback, Table


def lines(path: str | PathLike[str]) -> Iterator[str]:
    """The rows of a table's file, of a directory of tables, or of a bundle. Raises TableError."""
    tables, bundle = load_tables(path, "lazy")
    if bundle is not None:
        yield f"bundle {bundle.digest[:12]}  {bundle.path}"
    for table in tables:
        yield from _table(table)


def snapshot_lines(path: str | PathLike[str]) -> Iterator[str]:
    """The snapshots of a bundle, the current one first. Raises TableError."""
    for snapshot in list_snapshots(path):
        yield f"{'*' if snapshot.is_current else ' '} {snapshot.digest}"


def summary(bundle: Bundle) -> str:
    """``bundle 0123456789ab: 2 tables, 4 rows, 8 binaries (65536 bytes)``: of one that was read whole."""
    tables, rows = len(bundle.tables), sum(len(t.entries) for t in bundle.tables)
    size = sum(map(len, bundle.code.values()))
    return f"bundle {bundle.digest[:12]}: {tables} tables, {rows} rows, {len(bundle.code)} binaries ({size} bytes)"


def _table(table: Table) -> Iterator[str]:
    yield f"{table.kernel.ref}  version {table.kernel.semantic_hash[:12]}  table {table.table_id[:12]}"
    for entry in table.entries:
        default = "" if entry.default_us is None else f", default {entry.default_us:.2f} us"
        best = "untimed" if entry.best_us is None else f"{entry.best_us:.2f} us"
        yield f"  {entry.device}  {entry.problem.key}"
        yield f"    {best} ({entry.origin}{default}){_code(entry)}  {entry.config}"
    for row in table.portfolio:
        yield f"  {row.arch}: {row.config}{_code(row)}"
        yield f"    {row.reason}"
    for device, rows in table.defaults.items():
        for row in rows:
            kinds = "" if row.problem is None else row.problem.kinds
            yield f"  {device}  any size of {kinds}"
            yield f"    {row.reason}{_code(row)}  {row.config}"
    if table.default is not None:
        yield f"  default: {table.default.config}"
        yield f"    {table.default.reason}"


def _code(row: Entry | Fallback) -> str:
    """``  [2 dynamic, 1 static]``: its binaries; nothing for a config alone."""
    modes = Counter(v.mode for launch in row.launches for v in launch.variants if v.sha256 is not None)
    return f"  [{', '.join(f'{n} {mode}' for mode, n in sorted(modes.items()))}]" if modes else ""


def main(path: str) -> int:
    """Print what lies at ``path``. Returns 2 where it cannot be read, else 0."""
    with own_streams():
        try:
            for line in lines(path):
                print(line)
            sys.stdout.flush()
        except BrokenPipeError:  # who reads it has read enough
            return 0
        except (TileflowError, OSError) as error:
            say(f"{type(error).__name__}: {error}", sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tileflow.runtime.show PATH")
    sys.exit(main(sys.argv[1]))
