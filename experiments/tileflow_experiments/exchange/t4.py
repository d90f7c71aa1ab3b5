"""A sweep's trials in T4, the format of results that auto-tuners share (Kernel Tuner writes it; its community's
benchmarks of searches read it).

Each search of a sweep is a pair of files, ``NAME-results.json`` and ``NAME-metadata.json``. Times are in milliseconds,
as the results' own metadata say. What only the cost model timed has ``modelled_time`` as its objective, never ``time``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError
from tileflow.measure.types import Status
from tileflow.runtime.files import require_folder, write_atomically

from ..journal import Folded
from ..records import StudyKey, TrialRecord

SCHEMA_VERSION = "1.0.0"
LONGEST_NAME = 120

# T4's word for each end of a trial that says something about its config.
INVALIDITY: Mapping[Status, str] = {
    Status.OK: "correct",
    Status.INVALID_STATIC: "constraints",
    Status.COMPILE_ERROR: "compile",
    Status.COMPILE_TIMEOUT: "timeout",
    Status.OUT_OF_RESOURCES: "runtime",
    Status.OOM: "runtime",
    Status.ILLEGAL_ACCESS: "runtime",
    Status.INCORRECT: "correctness",
    Status.NONFINITE: "correctness",
    Status.BENCH_TIMEOUT: "timeout",
    Status.WORKER_LOST: "runtime",  # again and again, until its config was blamed
    Status.DEVICE_LOST: "runtime",
}
_MEASURED = {
    "registers": "",
    "spills": "bytes",
    "shared_bytes": "bytes",
    "occupancy": "",
    "max_err": "",
    "roofline_us": "us",
    "power_w": "W",
    "sm_clock_mhz": "MHz",
}


def export(folded: Folded, folder: Path) -> list[Path]:
    """Write the files of every search of a journal. Returns those with results.

    Raises SpecError where the journal has no trial that says anything about a config.
    """
    searches = {key: [r for r in records if r.completed] for key, records in folded.trials.items()}
    searches = {key: records for key, records in searches.items() if records}
    if not searches:
        raise SpecError("a sweep must have trials to export", got="none that ended", where=folded.header["sweep_id"])
    contents: dict[Path, str] = {}
    for key, records in searches.items():
        name = file_name(key)
        for kind, data in (("results", results(records)), ("metadata", metadata(key, records, folded.header))):
            contents[folder / f"{name}-{kind}.json"] = json.dumps(data, indent=1, allow_nan=False) + "\n"
    require_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        write_atomically(path, content.encode())
    return [path for path in contents if path.name.endswith("-results.json")]


def file_name(key: StudyKey) -> str:
    """A search's name for people, and eight digits that no other search has."""
    text = re.sub(r"[^A-Za-z0-9_.=-]+", "-", f"{key.kernel}-{key.shown}-{key.device_class}")
    return f"{text[:LONGEST_NAME]}-{hashlib.sha256(key.id.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def results(records: Sequence[TrialRecord]) -> dict[str, Any]:
    """T4's results of one search, in the order that its trials began in."""
    ordered = sorted(records, key=lambda record: record.started_at)
    usual = "modelled_time" if _is_modelled(records) else "time"
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds"},
        "results": [result(record, usual) for record in ordered],
    }


def _is_modelled(records: Sequence[TrialRecord]) -> bool:
    """The search's times are the cost model's, but for those after a GPU joined."""
    return any(not record.measured for record in records if record.time_us is not None)


def result(record: TrialRecord, usual: str = "time") -> dict[str, Any]:
    """T4's result of one trial. Its ``correctness`` is 1 where it was right (or nothing was compared), else 0.

    ``usual``: the objective of its search, for a trial that has no time.
    """
    columns = record.columns()
    objective = usual if record.time_us is None else "time" if record.measured else "modelled_time"
    measurements = [{"name": name, "value": columns[name], "unit": unit} for name, unit in _MEASURED.items()]
    if record.time_us is not None:
        measurements.insert(0, {"name": objective, "value": record.time_us / 1000, "unit": "ms"})
    return {
        "timestamp": datetime.fromtimestamp(record.started_at, UTC).isoformat(),
        "configuration": record.config.to_dict(),
        "objectives": [objective],
        "times": {
            "compilation_time": _ms(columns["compile_s"]),
            "framework": _ms(columns["queue_s"] + columns["built_s"] + columns["prepare_s"] + columns["load_s"]),
            "search_algorithm": 0.0,  # strategies propose while trials run: none waits for it
            "validation": _ms(columns["verify_s"]),
            "benchmark": _ms(columns["bench_s"]),
            "runtimes": [us / 1000 for us in columns["samples_us"]],
        },
        "invalidity": INVALIDITY[record.status],
        "correctness": float(INVALIDITY[record.status] != "correctness"),
        "measurements": [m for m in measurements if m["value"] is not None],
    }


def metadata(key: StudyKey, records: Sequence[TrialRecord], header: Mapping[str, Any]) -> dict[str, Any]:
    """T4's metadata of one search: what was tuned, on which cards, with which versions."""
    builds = [record.result.build for record in records]
    versions = {version for build in builds if build is not None for version in build.compiled_by}
    devices = {record.result.device for record in records if record.result.device is not None}
    versions |= {version for device in devices for version in device.launched_by}
    cards = sorted({(d.device_class, d.host, d.gpu_uuid) for d in devices})
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": {
            "hardware": {
                "hardware_description": [dict(zip(("device", "host", "gpu"), card, strict=True)) for card in cards]
            },
            "environment": {
                "device_query": {},
                "requirements": [f"{name}=={value}" for name, value in sorted(versions)],
            },
            "tuned": {
                "kernel": key.kernel,
                "problem": key.shown,
                "device_class": key.device_class,
                "measured": not _is_modelled(records),
                "sweep_id": header["sweep_id"],
                "tileflow": header.get("tileflow", ""),
            },
        },
    }


def _ms(seconds: float) -> float:
    return seconds * 1000
