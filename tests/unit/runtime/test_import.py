"""Production's import is light: in a process of its own, the names that must not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = ["torch", "triton", "ray", "optuna", "mlflow", "pyarrow", "numpy", "sklearn"]
COMPILER = ["language", "ir", "frontend", "passes", "space", "emit", "build", "measure", "cost", "default", "api"]


def modules_after(statement: str) -> list[str]:
    script = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    return list(json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout))


# Costly to import, and for none of what a warm server does.
NOT_AT_IMPORT = {
    "asyncio", "concurrent.futures.process", "ctypes.util", "email", "http", "importlib.metadata", "inspect", "libcst",
    "multiprocessing", "numpy", "pdb", "pickletools", "sqlite3", "subprocess", "tempfile", "torch", "unittest",
    "urllib.request",
}  # fmt: skip


def test_the_runtime_imports_neither_torch_nor_the_compiler() -> None:
    loaded = modules_after("from tileflow.runtime import load, lookup, stats")
    assert "tileflow.runtime.registry" in loaded
    assert [m for m in loaded if m in HEAVY] == []
    assert [m for m in COMPILER if f"tileflow.{m}" in loaded] == []


def test_describing_and_launching_need_torch_and_nothing_else() -> None:
    loaded = modules_after("import tileflow.runtime.describe, tileflow.runtime.launch")
    assert "torch" in loaded
    unwanted = [m for m in HEAVY if m not in ("torch", "numpy")]  # numpy is torch's own
    assert [m for m in loaded if m in unwanted] == []
    assert [m for m in COMPILER if f"tileflow.{m}" in loaded] == []


def test_the_runtime_s_import_loads_nothing_that_a_name_of_it_does_not_need() -> None:
    plain = {*modules_after("import __future__, importlib, typing")}
    assert {*modules_after("import tileflow.runtime")} - plain == {"tileflow", "tileflow.runtime"}
    loading = {*modules_after("from tileflow.runtime import load")}
    assert not {m for m in loading if m in NOT_AT_IMPORT - {"inspect"}}  # dataclasses import that
    assert not {f"tileflow.runtime.{m}" for m in ("miss_file", "portfolio", "snapshots", "show")} & loading


def test_beyond_torch_a_kernel_s_module_imports_the_project_only() -> None:
    """All of the standard library that is needed is there once torch is: 30 ms are for our own modules."""
    there = {*modules_after("import torch")}
    loaded = {*modules_after("import torch, tileflow; tileflow.kernel; from tileflow.runtime import load")} - there
    assert "tileflow.api" in loaded
    assert [name for name in loaded if name.partition(".")[0] != "tileflow"] == []


def test_the_import_beyond_torch_is_quick() -> None:
    """Processor time, the least of four: two thirds of it was generating the methods of dataclasses."""
    script = (
        "import torch, time; begin = time.process_time(); import tileflow; tileflow.kernel\n"
        "from tileflow.runtime import load, lookup; print(time.process_time() - begin)"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", script]  # whose first run may write the bytecode of the others
    runs = [subprocess.run(command, env=environment, capture_output=True, check=True) for _ in range(4)]
    assert min(float(run.stdout) for run in runs) < 0.6


def test_every_public_name_is_there() -> None:
    import tileflow.runtime

    assert sorted(tileflow.runtime.__all__) == tileflow.runtime.__all__
    assert {*tileflow.runtime.__all__} <= {*dir(tileflow.runtime)}
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = tileflow.runtime.absent  # type: ignore[attr-defined]
    for name in tileflow.runtime.__all__:
        assert getattr(tileflow.runtime, name) is not None
