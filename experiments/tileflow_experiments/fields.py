"""What the fields of a journal's lines hold: each is looked at once, where a line is read.

A field that has no entry here may hold anything: readers pass over it. docs/reference/journal.md says what each means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from tileflow_cluster.protocol import Mode

Holds = Callable[[Any], bool]

_LATEST = 253_402_300_800  # the year 10000, which no calendar writes
_SCALARS = frozenset({str, int, float, bool, type(None)})


def text(value: Any) -> bool:
    """Whether it is a text."""
    return type(value) is str


def whole(value: Any) -> bool:
    """Whether it is an integer of 64 bits."""
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def number(value: Any) -> bool:
    """Whether it is a finite number."""
    return math.isfinite(value) if type(value) is float else whole(value)


def flag(value: Any) -> bool:
    """Whether it is true or false."""
    return type(value) is bool


def numbers(value: Any) -> bool:
    """Whether it is a list of numbers."""
    return type(value) is list and all(map(number, value))


def texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return type(value) is list and all(map(text, value))


def scalars(value: Any) -> bool:
    """Whether it is a mapping without further structure."""
    return type(value) is dict and all(type(one) in _SCALARS for one in value.values())


def moment(value: Any) -> bool:
    """Whether it is a time in seconds since 1970."""
    return number(value) and 0 <= value < _LATEST


def _named_texts(value: Any) -> bool:
    return type(value) is dict and all(map(text, value.values()))


def _named_numbers(value: Any) -> bool:
    return type(value) is dict and all(map(number, value.values()))


def _mapping(value: Any) -> bool:
    return type(value) is dict


def _places(value: Any) -> bool:
    """Whether they are those of a race, as ``RaceEntry`` writes them."""
    return type(value) is list and all(map(_place, value))


def _place(value: Any) -> bool:
    ratios = ("ratio", "low", "high")
    return (
        type(value) is dict
        and scalars(value.get("config"))
        and flag(value.get("tied"))
        and len({name in value for name in ratios}) == 1
        and all(number(value[name]) for name in ratios if name in value)
    )


def _mode(value: Any) -> bool:
    return value in get_args(Mode)


HEADER: Mapping[str, Holds] = {"sweep_id": text, "spec": _mapping, "created_at": moment, "tileflow": text}

# The columns of a trial, by which Parquet has its types too.
TRIAL: Mapping[str, Holds] = {
    **dict.fromkeys(("kind", "sweep_id", "trial_id", "seed_source", "kernel", "semantic_hash", "source_hash"), text),
    **dict.fromkeys(("device_class", "status", "gpu_uuid", "host", "error_class", "error_digest"), text),
    **dict.fromkeys(("blocklisted", "reference"), text),
    "mode": _mode,
    **dict.fromkeys(("problem", "config"), scalars),
    **dict.fromkeys(("compiled_by", "launched_by"), _named_texts),
    **dict.fromkeys(("attempt", "lease_epoch", "registers", "spills", "shared_bytes", "traffic_bytes", "flops"), whole),
    **dict.fromkeys(("sm_clock_mhz", "temp_c", "mem_clock_mhz", "foreign_processes", "noise_retries"), whole),
    **dict.fromkeys(("measured", "retried", "throttled"), flag),
    "started_at": moment,
    **dict.fromkeys(("queue_s", "compile_s", "built_s", "device_s", "prepare_s", "load_s", "verify_s"), number),
    **dict.fromkeys(("bench_s", "median_us", "p20_us", "p80_us", "ci95_us", "max_err", "occupancy"), number),
    **dict.fromkeys(("roofline_us", "roofline_frac", "modelled_us", "power_w", "canary_ratio"), number),
    "samples_us": numbers,
    "throttle_reasons": texts,
}

# What the folds read of an event.
EVENTS: Mapping[str, Mapping[str, Holds]] = {
    "opened": {"epoch": whole},
    "closed": {"epoch": whole, "reason": text},
    "study": {"study": text, "semantic_hash": text, "space_fingerprint": text, "mode": _mode},
    "study_stopped": {"study": text, "reason": text},
    "study_postponed": {"study": text, "reason": text},
    "clock": {"spent_s": _named_numbers},
    "contest": {"study": text, "places": _places, "device_s": number},
    "interpreted": {"study": text, "role": text, "config": scalars, "status": text, "error": text},
    "known": {"study": text, "trial_id": text, "config": scalars},
    "salvaged": {"lines": whole, "kept": text},
    "counters": {
        "epoch": whole,
        **dict.fromkeys(("elapsed_s", "considered_per_s", "measured_per_s", "device_idle"), number),
        **dict.fromkeys(("considered", "measured", "modelled", "duplicates", "retried", "cancelled"), whole),
    },
}

# What an event may lack.
_OF_ANY_EVENT: Mapping[str, Holds] = {
    "at": moment,
    "phase": text,
    **dict.fromkeys(("kernel", "device_class"), text),
    "inputs": scalars,
    **dict.fromkeys(("ask_s", "rank_s", "hear_s", "compile_idle"), number),
}


def wrong_in_trial(line: Mapping[str, Any]) -> str:
    """Return the name of a field that does not hold what it must, of a trial's line; empty where all do."""
    return next((name for name, value in line.items() if name in TRIAL and not TRIAL[name](value)), "")


def wrong_in_event(line: Mapping[str, Any]) -> str:
    """Return the name of a field that is missing or does not hold what it must, of an event's line; empty where none
    is."""
    asked = EVENTS.get(line["event"], {})
    lacks = (name for name, holds in asked.items() if name not in line or not holds(line[name]))
    return next(lacks, "") or next((n for n, holds in _OF_ANY_EVENT.items() if n in line and not holds(line[n])), "")
