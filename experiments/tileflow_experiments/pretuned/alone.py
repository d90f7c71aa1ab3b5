"""Calls of the installed package's kernels, in a process that has torch, the runtime and no compiler.

:mod:`.dispatch` runs this file, by its path. It reads a line of JSON for each call: the kernel's name, the file of its
arguments, their device, and the file for the result and the arguments afterwards. It answers each with a line: the
dispatch step that served the call, or what was raised.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections import Counter
from typing import Any


def served(kernel: str) -> Counter[str]:
    """Return how often each dispatch step served calls of a kernel."""
    from tileflow.runtime.observe import LOOKUP_EVENTS, counters

    found: Counter[str] = Counter()
    for row in counters():
        if row.kernel.partition(":")[2] == kernel and row.step not in LOOKUP_EVENTS:
            found[row.step] += row.calls
    return found


def called(asked: dict[str, str]) -> dict[str, Any]:
    """Run one call and keep what it gave."""
    import torch

    kernels = importlib.import_module("tileflow_pretuned.serving")
    args = torch.load(asked["args"], map_location=asked["device"], weights_only=False)
    before = served(asked["kernel"])
    result = getattr(kernels, asked["kernel"])(*args)
    step = ", ".join((served(asked["kernel"]) - before).keys())
    torch.save((result, args), asked["into"])
    return {"step": step}


def main() -> None:
    """Say which tileflow was found, and whether it has a compiler; then answer calls until no more are asked for."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # torch may have brought it
    import tileflow

    has_compiler = importlib.util.find_spec("tileflow.emit") is not None
    print(json.dumps({"tileflow": str(tileflow.__file__), "has_compiler": has_compiler}), flush=True)
    for line in sys.stdin:
        try:
            answer = called(json.loads(line))
        except Exception as error:  # every exception of a call is an answer
            answer = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
