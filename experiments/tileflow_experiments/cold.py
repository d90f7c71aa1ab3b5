"""``python -m tileflow_experiments.cold BUNDLE MODULE:KERNEL key=value ...``: a fresh process calls from a bundle.

Says which row served the call, whether the result is right, and what of a compiler was imported: nothing may be.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tileflow import runtime
from tileflow.api import load_kernel

COMPILER = ("triton", "tileflow.lowered", "tileflow.emit", "tileflow.build", "ray", "optuna", "mlflow", "pyarrow")


def main(bundle: str, name: str, *items: str) -> int:
    """Exit code 1 where the result is wrong or a compiler was imported."""
    pairs = [item.partition("=") for item in items]
    problem: dict[str, Any] = {key: int(value) if value.isdigit() else value for key, _, value in pairs}
    sys.path.insert(0, str(Path.cwd()))
    kernel = load_kernel(name)
    args = kernel.inputs(device="cuda", **problem)
    started = time.perf_counter()
    runtime.load(bundle)
    result = kernel(*args)
    elapsed = time.perf_counter() - started
    imported = [m for m in COMPILER if m in sys.modules]
    steps = {step: n for step, n in runtime.stats().items() if n}
    from tileflow.measure.check import compare, make_reference

    verdict = compare(result, make_reference(kernel.reference, args).result, path="out")
    right = "right" if verdict.ok else f"WRONG: {verdict.reason}"
    print(f"{name} {' '.join(items)}: {right}; steps {steps}; load and first call {elapsed * 1e3:.0f} ms; "
          f"compiler imported: {imported or 'nothing'}")  # fmt: skip
    return int(not verdict.ok or bool(imported))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
