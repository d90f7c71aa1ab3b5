"""What an import costs: each layer loads no heavy package that it does not need (asked in fresh processes)."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "triton", "ray", "optuna", "mlflow", "pyarrow", "sklearn", "matplotlib"}


def loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return HEAVY & set(run.stdout.split())


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import tileflow", set()),
        ("import tileflow.config, tileflow.expr, tileflow.target, tileflow.errors", set()),
        ("import tileflow.runtime.abi, tileflow.runtime.problem", set()),
        ("import tileflow.measure.types", set()),
        ("import tileflow_search; tileflow_search.make", {"optuna"}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement: str, allowed: set[str]) -> None:
    assert loaded_by(statement) <= allowed


def test_the_package_s_names_load_on_demand() -> None:
    assert "torch" in loaded_by("import tileflow; tileflow.kernel")
