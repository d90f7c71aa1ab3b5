"""The host's cost of calls: importing the runtime, warm calls, new shapes, and the memory that many shapes keep.

Each part runs in a process of its own; the warm calls run twice, with the C extension and without it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .summary import Verdict, device_name, write

IMPORTS = 10
MOST_IMPORT_MS = 30.0
CALLS, ROUNDS = 2_000, 40
TIMED_SHAPES, KEPT_SHAPES = 2_000, 10_000
_IMPORT = """
import sys, time
import torch
started = time.perf_counter()
import {module}
print((time.perf_counter() - started) * 1e3)
"""


def measure(bundle: Path, out: Path, device_class: str = "", is_dry: bool = False) -> bool:
    """Run every part and write ``out``. Returns False where a requirement is missed."""
    from .many_shapes import MOST_BYTES, MOST_NEW_SHAPE_US, MOST_REVISIT

    found: dict[str, Any] = {
        "device": device_name(),
        "import_ms": {
            module: import_ms(module, 2 if is_dry else IMPORTS) for module in ("tileflow.runtime", "tileflow.api")
        },
    }
    for name, part, native in (("warm", "warm", ""), ("warm_python", "warm", "0"), ("shapes", "shapes", "")):
        found[name] = _in_child(part, bundle, device_class, is_dry, native)
    shapes = found["shapes"]
    new, kept, unloaded = shapes["new_shape_us"], shapes["kept"], shapes["kept_after_unload"]
    total = sum(kept["bytes"].values())
    runtime_ms = found["import_ms"]["tileflow.runtime"]["median"]
    verdicts = [
        Verdict(
            "import of the runtime beyond torch, ms",
            f"{runtime_ms:.1f}",
            f"{MOST_IMPORT_MS:g}",
            runtime_ms <= MOST_IMPORT_MS,
        ),
        Verdict(
            "import of what defines kernels beyond torch, ms", f"{found['import_ms']['tileflow.api']['median']:.1f}"
        ),
        *warm_verdicts(found["warm"], "C extension" if found["warm"]["has_native"] else "Python: no C extension here"),
        *warm_verdicts(found["warm_python"], "Python", is_asked=False),
        Verdict(
            f"new shape of a known binary, us (median of {new['shapes']})",
            f"{new['median']:.1f} (p99 {new['p99']:.1f})",
            f"{MOST_NEW_SHAPE_US:g}",
            new["median"] <= MOST_NEW_SHAPE_US,
        ),
        Verdict(
            f"{kept['shapes']} shapes keep, MB host + device",
            f"{kept['bytes']['host'] / 1e6:.1f} + {kept['bytes']['device'] / 1e6:.1f}",
            f"under {MOST_BYTES / 1e6:g}",
            total < MOST_BYTES,
        ),
        Verdict("modules that they add", str(kept["modules"]), "0", kept["modules"] == 0),
        Verdict(
            "kept after unload, MB host + device",
            f"{unloaded['bytes']['host'] / 1e6:.1f} + {unloaded['bytes']['device'] / 1e6:.1f}",
        ),
        Verdict("modules after unload", str(unloaded["modules"]), "0", unloaded["modules"] == 0),
        Verdict(
            "a revisit of a warm call",
            f"{shapes['revisit_of_warm']:.2f}x ({shapes['revisit_us']:.2f} us)",
            f"{MOST_REVISIT:g}x",
            shapes["revisit_of_warm"] <= MOST_REVISIT,
        ),
    ]
    return write(out, found, verdicts)


def warm_verdicts(warm: Mapping[str, Any], how: str, is_asked: bool = True) -> list[Verdict]:
    """Return the lines of the warm calls; ``is_asked``: whether they are requirements, or for comparison only."""
    from .warm_calls import MOST_ABOVE_US, MOST_RATIO

    others = {name: spread["median"] for name, spread in warm["others"].items()}
    lines = [Verdict(f"{name}, us ({how})", f"{us:.2f}") for name, us in others.items()]
    for name, ours in warm["ours"].items():
        us, above, of_add = (ours[key] for key in ("us", "above_floor_us", "of_torch_add"))
        holds = above["median"] <= MOST_ABOVE_US and of_add["median"] <= MOST_RATIO
        found = (
            f"{us['median']:.2f} us, {_spread(above)} above the floor, {_spread(of_add)}x of torch.add; "
            f"{ours['above_native_floor_us']['median']:.2f} above the native floor"
        )
        must = f"{MOST_ABOVE_US:g} us above, {MOST_RATIO:g}x" if is_asked else ""
        lines.append(Verdict(f"warm call, {name} ({how})", found, must, holds if is_asked else None))
    return lines


def _spread(found: Mapping[str, float]) -> str:
    return f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def import_ms(module: str, times: int) -> dict[str, float]:
    """Return the milliseconds that importing ``module`` takes after torch, over fresh processes one after another."""
    code = _IMPORT.format(module=module)
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(times + 1)
    ]
    found = [float(run.stdout) for run in runs[1:]]  # the first may have written the bytecode
    return {"median": statistics.median(found), "least": min(found), "most": max(found)}


def part(name: str, bundle: Path, device_class: str, is_dry: bool) -> dict[str, Any]:
    """Run one part in this process and return its figures."""
    import logging
    from contextlib import ExitStack

    from tileflow import runtime

    from . import many_shapes, warm_calls

    logging.getLogger("tileflow").setLevel(logging.ERROR)
    device = "cpu" if is_dry else "cuda"
    with ExitStack() as stack:
        if is_dry:
            from .stand_in import without_gpu

            stack.enter_context(without_gpu())
        runtime.load(bundle, as_device=device_class or None, on_miss="default")
        if name == "warm":
            return warm_calls.measure(bundle, device, *((50, 3) if is_dry else (CALLS, ROUNDS)))
        return many_shapes.measure(bundle, device, *((50, 200) if is_dry else (TIMED_SHAPES, KEPT_SHAPES)))


def _in_child(name: str, bundle: Path, device_class: str, is_dry: bool, native: str) -> dict[str, Any]:
    """Return a part's JSON from a process of its own. ``native``: TILEFLOW_NATIVE there, if not empty."""
    command = [
        sys.executable,
        "-m",
        "tileflow_benchmarks.production",
        "part",
        name,
        str(bundle),
        "--as-device",
        device_class,
    ]
    environment = os.environ | ({"TILEFLOW_NATIVE": native} if native else {})
    run = subprocess.run([*command, *(["--dry"] if is_dry else [])], capture_output=True, text=True, env=environment)
    if run.returncode:
        raise RuntimeError(f"the part {name} failed:\n{run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found
