"""Every attempt of a sweep as one Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tileflow.runtime.files import write_atomically

from . import fields
from .records import COLUMNS, TrialRecord

_encode = json.JSONEncoder(sort_keys=True).encode
_MAPPINGS = ("problem", "config", "compiled_by", "launched_by")


def write(records: Iterable[TrialRecord], path: Path) -> int:
    """Write one row per attempt, atomically; mappings are JSON text. Returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _type(pa, name)) for name in COLUMNS])
    table = pa.Table.from_pydict(_columns(records), schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes())
    return int(table.num_rows)


def _type(pa: Any, name: str) -> Any:
    types: dict[fields.Holds, Any] = {
        fields.numbers: pa.list_(pa.float64()),
        fields.texts: pa.list_(pa.string()),
        fields.whole: pa.int64(),
        fields.flag: pa.bool_(),
        fields.number: pa.float64(),
        fields.moment: pa.float64(),
    }
    return types.get(fields.TRIAL[name], pa.string())


def _columns(records: Iterable[TrialRecord]) -> dict[str, list[Any]]:
    rows = [record.columns().values() for record in records]
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=bool(rows)):
        columns[name] = list(column)
    for name in _MAPPINGS:
        columns[name] = [_encode(value) if value else "{}" for value in columns[name]]
    for name, holds in fields.TRIAL.items():
        if holds is fields.text:
            columns[name] = [_text(value) for value in columns[name]]
        elif holds in (fields.number, fields.moment):  # a whole number of a journal may be one that no float is
            columns[name] = [None if value is None else float(value) for value in columns[name]]
        elif holds is fields.numbers:
            columns[name] = [list(map(float, value)) for value in columns[name]]
    return columns


def _text(value: str) -> str:
    """Escape lone surrogates, which JSON can hold and Parquet's UTF-8 cannot."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
