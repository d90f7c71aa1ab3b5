"""How long the compiler's own part takes, of one core in a process of its own: before Triton and its compilers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tile_testing import ROOT

FIRST, FURTHER = 0.120, 0.008  # seconds that a kernel of some 40 operations may take: its first config, each other one
PATIENCE = 3  # for slower machines than the one that the limits are of

PROGRAM = """
import json, random, sys, time
from importlib import import_module
from tileflow.target import target

def lowered(kernel, args):
    start = time.process_time()
    low = kernel.lower(args, target("nvidia-h200"), mode="static")
    low.emit(low.default)
    return low, time.process_time() - start

vector_add = import_module("examples.vector_add")
lowered(vector_add.vector_add, vector_add.inputs(n=1000))  # loads the compiler
module = import_module(sys.argv[1])
low, first = lowered(getattr(module, sys.argv[2]), module.inputs(**json.loads(sys.argv[3])))
configs = [low.space.sample(random.Random(seed)) for seed in range(20)]
start = time.process_time()
for config in configs:
    low.emit(config)
further = (time.process_time() - start) / len(configs)
print(json.dumps([first, further, "torch._dynamo" in sys.modules]))
"""


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("attention", {"batch": 1, "heads": 2, "m": 128, "d": 64}),
        ("layer_norm", {"m": 1024, "n": 1024}),
    ],
)
def test_lowering_and_emitting(name: str, sizes: dict[str, int]) -> None:
    command = [sys.executable, "-c", PROGRAM, f"examples.{name}", name, json.dumps(sizes)]
    root = ROOT
    environment = {name: value for name, value in os.environ.items() if name != "TILEFLOW_VERIFY"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, timeout=120, env=environment)
    output = run.stdout
    first, further, loads_dynamo = json.loads(output.splitlines()[-1])
    print(f"{name}: {first * 1e3:.0f} ms, a further config {further * 1e3:.1f} ms")
    assert first < PATIENCE * FIRST and further < PATIENCE * FURTHER
    assert not loads_dynamo, "a second of imports that no kernel needs"
