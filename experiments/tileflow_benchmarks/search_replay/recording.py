"""A recording: every config that was measured of one problem, in one Parquet file with the versions that made it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tileflow.config import Choice, Config, Knob
from tileflow.cost import StaticFacts
from tileflow.errors import SpecError
from tileflow.measure.types import Status
from tileflow.runtime.files import write_atomically

SCHEMA = 1
_KNOB, _FACT = "knob:", "fact:"


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording is of.

    ``knobs``: the space's, in order, without their activity conditions: recorded configs are normalised.
    ``roofline_us``: of the call's traffic. ``prepare_s``: of a problem's inputs and references, spent once. ``cores``:
    how many compiled at once. ``versions``: of what compiled and launched.
    """

    kernel: str
    problem: dict[str, Any]
    device_class: str
    semantic_hash: str
    space_fingerprint: str
    space_size: int
    knobs: tuple[Knob, ...]
    default: Config
    traffic_bytes: int
    flops: int
    roofline_us: float
    seed: int
    cores: int
    seconds: float
    prepare_s: float
    versions: dict[str, str]
    recorded_on: str

    @property
    def title(self) -> str:
        """The kernel, the sizes and the device class as text."""
        sizes = ", ".join(f"{name}={value}" for name, value in sorted(self.problem.items()))
        return f"{self.kernel.rpartition(':')[2]} {sizes} on {self.device_class}"


@dataclass(frozen=True, slots=True)
class Row:
    """One config.

    ``part``: which part of the plan asked for it. ``trial``: the same for configs that gave the same binary.
    ``median_us``, ``ci95_us``: NaN unless ``status`` is ok. ``samples``: launches timed; few where the config was
    clearly slow. ``compile_s``: of lowering, emitting and building, while as many cores did so. ``measure_s``: of all
    its time on the device, checking (``verify_s``) and timing (``bench_s``) included. ``facts``: None where nothing was
    built.
    """

    config: Config
    part: str
    trial: int
    status: Status
    median_us: float = math.nan
    ci95_us: float = math.nan
    samples: int = 0
    compile_s: float = 0.0
    verify_s: float = 0.0
    bench_s: float = 0.0
    measure_s: float = 0.0
    facts: StaticFacts | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A header and its rows."""

    header: Header
    rows: tuple[Row, ...]

    @property
    def best_us(self) -> float:
        """The best time of all rows. Raises SpecError where nothing worked."""
        times = [row.median_us for row in self.rows if row.status is Status.OK]
        if not times:
            raise SpecError("a recording must hold a config that works", got="none", where=self.header.title)
        return min(times)


_PLAIN = ("part", "trial", "median_us", "ci95_us", "samples", "compile_s", "verify_s", "bench_s", "measure_s")
_BOUNDS = ("least_us", "spilled", "fits")


def write(recording: Recording, path: Path) -> None:
    """Write one column per knob and fact, compressed; seconds to a tenth of a millisecond, times to five digits."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, header = recording.rows, recording.header
    columns: dict[str, list[Any]] = {name: [_rounded(getattr(row, name)) for row in rows] for name in _PLAIN}
    columns["status"] = [row.status.value for row in rows]
    for knob in header.knobs:
        columns[_KNOB + knob.name] = [row.config[knob.name] for row in rows]
    values = [dict(row.facts.values) if row.facts else {} for row in rows]
    for name in sorted({name for found in values for name in found}):
        columns[_FACT + name] = [
            None if row.facts is None else _rounded(found.get(name, 0.0))
            for row, found in zip(rows, values, strict=True)
        ]
    for name in _BOUNDS:
        columns[name] = [_rounded(getattr(row.facts, name)) if row.facts else None for row in rows]
    data = asdict(header) | {"knobs": [_knob_json(k) for k in header.knobs], "default": header.default.to_dict()}
    table = pa.table(columns).replace_schema_metadata({"tileflow.lab": json.dumps({"schema": SCHEMA, **data})})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=19, write_statistics=False)
    write_atomically(path, sink.getvalue().to_pybytes())


def read(path: Path) -> Recording:
    """Read a recording. Raises SpecError for a file that is no recording of this schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise SpecError("a recording must be a readable Parquet file", got=error, where=str(path)) from None
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    data = json.loads(metadata.get(b"tileflow.lab", b"{}"))
    if data.pop("schema", None) != SCHEMA:
        raise SpecError(
            f"a recording must be of schema {SCHEMA}",
            got="another or none",
            where=str(path),
            hint="make it anew: python -m tileflow_benchmarks.search_replay record",
        )
    data["knobs"] = tuple(_knob(k) for k in data["knobs"])
    data["default"] = Config.of(data["default"])
    header = Header(**{f.name: data[f.name] for f in fields(Header)})
    return Recording(header, tuple(_row(header.knobs, found) for found in table.to_pylist()))


def read_all(folder: Path) -> list[Recording]:
    """Return every recording in ``folder``, by file name. Raises SpecError where there is none."""
    found = sorted(folder.glob("*.parquet"))
    if not found:
        raise SpecError("a folder of recordings must hold *.parquet files", got="none", where=str(folder))
    return [read(path) for path in found]


def _row(knobs: Sequence[Knob], found: dict[str, Any]) -> Row:
    config = Config.of({k.name: _choice(k, found[_KNOB + k.name]) for k in knobs})
    facts = None
    if found["fits"] is not None:
        values = tuple(sorted((n.removeprefix(_FACT), v) for n, v in found.items() if n.startswith(_FACT)))
        facts = StaticFacts(values, found["least_us"], found["spilled"], found["fits"])
    return Row(config=config, status=Status(found["status"]), facts=facts, **{name: found[name] for name in _PLAIN})


def _choice(knob: Knob, value: Any) -> Choice:
    return next(c for c in knob.choices if c == value and type(c) is type(value))


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _knob_json(knob: Knob) -> dict[str, Any]:
    return {
        "name": knob.name,
        "site": knob.site,
        "choices": list(knob.choices),
        "role": knob.role,
        "default": knob.default,
    }


def _knob(data: dict[str, Any]) -> Knob:
    return Knob(data["name"], data["site"], tuple(data["choices"]), data["role"], data["default"])
