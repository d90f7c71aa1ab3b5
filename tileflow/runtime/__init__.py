"""What production imports: look a call up in a table, launch a binary.

No search, no compiler, no Ray, no MLflow, no Triton. A name is imported when it is first asked for (PEP 562), and torch
when a call is described or launched.
:func:`tileflow.runtime.describe.describe` stays in its module, which needs torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .abi import Binary, LaunchAbi, LaunchArg, Resources
    from .bundle import Bundle, load_bundle, load_tables
    from .defaults import defaults_for
    from .dispatch import HostContext, RuntimeContext, bind
    from .launch import Launcher, cuda_launcher, hip_launcher, launcher_for
    from .loop_bounds import bounds
    from .merging import Change, RowChange, compare, merge
    from .metrics import openmetrics
    from .miss_file import read_misses, record_misses
    from .miss_record import Miss, misses
    from .observe import CallCount, counters, stats
    from .portfolio import choose_portfolio
    from .preload import warmup
    from .problem import CallableSpec, Problem, ScalarSpec, TensorSpec
    from .registry import clear, digest, load, loaded, on_miss, set_on_miss, unload
    from .serving import decisions
    from .snapshots import write_bundle
    from .table import (
        Correct,
        CreatedBy,
        DeviceInfo,
        Entry,
        Fallback,
        KernelId,
        KeyField,
        RegionLaunch,
        Requirement,
        Table,
        Validator,
        Variant,
        launches_of,
        requirements_of,
    )
    from .table_files import dump_table, load_table, parse_table, table_text
    from .table_lookup import Hit, lookup, reject

__all__ = [
    "Binary",
    "Bundle",
    "CallCount",
    "CallableSpec",
    "Change",
    "Correct",
    "CreatedBy",
    "DeviceInfo",
    "Entry",
    "Fallback",
    "Hit",
    "HostContext",
    "KernelId",
    "KeyField",
    "LaunchAbi",
    "LaunchArg",
    "Launcher",
    "Miss",
    "Problem",
    "RegionLaunch",
    "Requirement",
    "Resources",
    "RowChange",
    "RuntimeContext",
    "ScalarSpec",
    "Table",
    "TensorSpec",
    "Validator",
    "Variant",
    "bind",
    "bounds",
    "choose_portfolio",
    "clear",
    "compare",
    "counters",
    "cuda_launcher",
    "decisions",
    "defaults_for",
    "digest",
    "dump_table",
    "hip_launcher",
    "launcher_for",
    "launches_of",
    "load",
    "load_bundle",
    "load_table",
    "load_tables",
    "loaded",
    "lookup",
    "merge",
    "misses",
    "on_miss",
    "openmetrics",
    "parse_table",
    "read_misses",
    "record_misses",
    "reject",
    "requirements_of",
    "set_on_miss",
    "stats",
    "table_text",
    "unload",
    "warmup",
    "write_bundle",
]

_HOMES = {
    "abi": ("Binary", "LaunchAbi", "LaunchArg", "Resources"),
    "bundle": ("Bundle", "load_bundle", "load_tables"),
    "defaults": ("defaults_for",),
    "dispatch": ("HostContext", "RuntimeContext", "bind"),
    "launch": ("Launcher", "cuda_launcher", "hip_launcher", "launcher_for"),
    "loop_bounds": ("bounds",),
    "merging": ("Change", "RowChange", "compare", "merge"),
    "metrics": ("openmetrics",),
    "miss_file": ("read_misses", "record_misses"),
    "miss_record": ("Miss", "misses"),
    "observe": ("CallCount", "counters", "stats"),
    "portfolio": ("choose_portfolio",),
    "preload": ("warmup",),
    "problem": ("CallableSpec", "Problem", "ScalarSpec", "TensorSpec"),
    "registry": ("clear", "digest", "load", "loaded", "on_miss", "set_on_miss", "unload"),
    "serving": ("decisions",),
    "snapshots": ("write_bundle",),
    "table": (
        "Correct",
        "CreatedBy",
        "DeviceInfo",
        "Entry",
        "Fallback",
        "KernelId",
        "KeyField",
        "RegionLaunch",
        "Requirement",
        "Table",
        "Validator",
        "Variant",
        "launches_of",
        "requirements_of",
    ),
    "table_files": ("dump_table", "load_table", "parse_table", "table_text"),
    "table_lookup": ("Hit", "lookup", "reject"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
