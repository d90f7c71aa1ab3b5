"""``kernel.tune(...)``: a sweep over one call on this machine's GPU, whose table is loaded when it is done."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tileflow import runtime
from tileflow.api import Kernel
from tileflow.errors import CallError, SpecError
from tileflow.runtime.describe import device_class
from tileflow.runtime.table import Entry

from . import cli, sweep
from .spec import parse


def tune_call(
    kernel: Kernel,
    args: Sequence[Any],
    *,
    budget_s: float = 60.0,
    problem: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    strategy: str = "default",
    seed: int = 0,
) -> Entry | None:
    """Search for ``budget_s`` seconds on the GPU that holds ``args``; returns the row, None where no config works.

    ``problem``: the keyword arguments of the kernel's ``inputs`` that make such a call; workers make their own.
    ``out``: the sweep's folder, a new temporary one where not given. Raises SpecError and CallError.
    """
    device = next((a.device for a in args if isinstance(a, torch.Tensor) and a.device.type == "cuda"), None)
    if device is None:
        raise CallError("a call is tuned on the GPU that holds its arguments", got="no tensor on a GPU",
                        hint="`tileflow tune` models a device class that is not at hand")  # fmt: skip
    check_problem(kernel, args, problem)
    wanted = parse({
        "name": f"tune-{kernel.name.rpartition(':')[2].replace('.', '-')}",
        "kernels": [{"kernel": kernel.name, "problems": [dict(problem or {})]}],
        "device_classes": [device_class(device)],
        "strategy": {"name": strategy, "seed": seed},
        "budget": {"seconds": budget_s},
        "modes": ["static"],  # who tunes a call has a compiler for other shapes
    })  # fmt: skip
    name = f"tileflow-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    outputs = sweep.Outputs(Path(tempfile.gettempdir()) / name if out is None else Path(out).absolute())
    sweep.run(wanted, outputs.folder, cli.tools())
    (table,) = runtime.load(outputs.bundle if outputs.bundle.exists() else outputs.table(kernel.name))
    return next(iter(table.entries), None)


def check_problem(kernel: Kernel, args: Sequence[Any], problem: Mapping[str, Any] | None) -> None:
    """``problem`` makes a call like ``args``. Raises SpecError."""
    wanted = kernel.describe(*args).key
    if problem is None:
        raise SpecError("tuning needs the keyword arguments of the kernel's inputs function", got="no problem=",
                        hint=f"kernel.tune(..., problem={{...}}) that makes {wanted}")  # fmt: skip
    made = kernel.describe(*kernel.inputs(device="meta", **problem)).key
    if made != wanted:
        raise SpecError(f"the problem must make the call's own arguments, {wanted}", got=made,
                        hint="the sizes and dtype of problem= are those of the tensors")  # fmt: skip
