"""Production's import is light: in a process of its own, the names that must not be there."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ["torch", "triton", "ray", "optuna", "mlflow", "pyarrow", "numpy", "sklearn"]
COMPILER = ["language", "ir", "frontend", "passes", "space", "emit", "build", "measure", "cost", "default", "api"]


def modules_after(statement: str) -> list[str]:
    script = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    return list(json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout))


def test_the_runtime_imports_neither_torch_nor_the_compiler() -> None:
    loaded = modules_after("import tileflow.runtime")
    assert "tileflow.runtime.registry" in loaded
    assert [m for m in loaded if m in HEAVY] == []
    assert [m for m in COMPILER if f"tileflow.{m}" in loaded] == []


def test_describing_and_launching_need_torch_and_nothing_else() -> None:
    loaded = modules_after("import tileflow.runtime.describe, tileflow.runtime.launch")
    assert "torch" in loaded
    unwanted = [m for m in HEAVY if m not in ("torch", "numpy")]  # numpy is torch's own
    assert [m for m in loaded if m in unwanted] == []
    assert [m for m in COMPILER if f"tileflow.{m}" in loaded] == []


def test_every_public_name_is_there() -> None:
    import tileflow.runtime

    assert sorted(tileflow.runtime.__all__) == tileflow.runtime.__all__
    for name in tileflow.runtime.__all__:
        assert getattr(tileflow.runtime, name) is not None
