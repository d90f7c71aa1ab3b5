"""Helion's kernels against our references, in Helion's own eager mode; skipped where Helion is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distributions

import pytest

# Asked of the distributions: tests of tileflow.compat may have put a module of this name in Helion's place.
installed = any(it.name == "helion" for it in distributions())
pytestmark = pytest.mark.skipif(not installed, reason="needs helion")

# Helion's eager mode has no products on a CPU (aten.mm.dtype): those kernels are only brought to code.
SCRIPT = """
import json, sys
import torch
from tileflow_benchmarks.suite import helion_peer
helion_peer.prepare()
from tileflow_benchmarks.suite import helion_kernels
from tileflow_benchmarks.suite.cells import SUITE
from tileflow.api import load_kernel
from tileflow.measure.check import check_call, make_reference

SMALL = dict(m=34, n=80, k=64, v=301, d=64, batch=2, heads=2, h=4, hk=2, s=70, b=2, groups=3, w=50, agents=100, size=64)
found, made = {}, helion_kernels.kernels()
for cell in SUITE:
    if cell.kernel not in made or cell.kernel in found:
        continue
    kernel = load_kernel(cell.kernel)
    problem = {k: SMALL[k] if type(v) is int else v for k, v in cell.problem}
    args = kernel.inputs(**problem)
    multiplies = cell.bound == "matrix"
    if sys.argv[1] == "code" and multiplies:
        bound = made[cell.kernel].bind(args)
        code = bound.to_triton_code(bound.config_spec.default_config())
        found[cell.kernel] = "" if "tl.dot(" in code else "no product in " + code
    elif sys.argv[1] == "run" and not multiplies:
        found[cell.kernel] = check_call(made[cell.kernel], args, make_reference(kernel.reference, args)).reason
print(json.dumps(found))
"""


@pytest.mark.parametrize(("what", "count"), [("run", 14), ("code", 7)])
def test_helion_kernels(what: str, count: int) -> None:
    environment = {**os.environ, **({"HELION_INTERPRET": "1"} if what == "run" else {})}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what], capture_output=True, text=True, env=environment, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: why for name, why in found.items() if why} == {}
    assert len(found) == count
