"""What the interpreting process does for the benchmark's tests: hand-written kernels, and cells of a rehearsal."""

from __future__ import annotations

from typing import Any

import torch
from tileflow_benchmarks.suite import triton_kernels
from tileflow_benchmarks.suite.cells import SUITE
from tileflow_benchmarks.suite.measure import Bench, run_cell
from tileflow_benchmarks.suite.opponent import Opponent, Peer
from tileflow_benchmarks.suite.results import CellResult

from tileflow.api import load_kernel
from tileflow.measure.check import check_call, make_reference

# float16 where there are products: Triton's interpreter multiplies bfloat16 wrongly
WRITTEN: dict[str, list[dict[str, Any]]] = {
    "examples.vector_add:vector_add": [{"n": 1025, "dtype": "float32"}],
    "examples.softmax:softmax": [{"m": 3, "n": 77, "dtype": "bfloat16"}, {"m": 2, "n": 128, "dtype": "float32"}],
    "examples.layer_norm:layer_norm": [{"m": 3, "n": 77, "dtype": "float32"}],
    "examples.matmul:matmul": [{"m": 70, "n": 65, "k": 130, "dtype": "float16"},
                               {"m": 130, "n": 257, "k": 100, "dtype": "float16"}],
    "examples.attention:attention": [{"batch": 1, "heads": 2, "m": 150, "d": 64, "causal": c, "dtype": "float16"}
                                     for c in (False, True)],
}  # fmt: skip


def check_written(name: str, problem: dict[str, Any]) -> str:
    """Why the hand-written kernel is wrong; empty where it is right."""
    kernel = load_kernel(name)
    cell = next(c for c in SUITE if c.kernel == name)
    args = kernel.inputs(**problem)
    opponent = triton_kernels.peer().make(cell, args)
    assert opponent is not None, "the suite's first cell has one"
    return check_call(opponent.call, args, make_reference(kernel.reference, args)).reason


def rehearse(kernel: str, nth: int = 0) -> CellResult:
    """A cell with peers of all kinds: right, a little off, far off, raising, absent, and one that is to be skipped."""
    cell = [c for c in SUITE if c.name == kernel][nth]

    def off_by(factor: float) -> Any:
        function = load_kernel(cell.kernel).reference
        return lambda cell, args: Opponent(lambda *own: function(*own) * factor, note="planted")

    def refuse(cell: Any, args: Any) -> Opponent:
        raise RuntimeError("planted")

    peers = [
        Peer("right", off_by(1.0)), Peer("near", off_by(1.05)), Peer("far", off_by(2.0)),
        Peer("raises", refuse), Peer("absent", lambda cell, args: None), Peer("skipped", off_by(1.0)),
    ]  # fmt: skip
    phases: list[str] = []
    found = run_cell(cell, Bench(peers, compile_s=0.0, is_dry=True), phases.append, {"skipped": "it died"})
    assert phases == ["inputs", "tileflow", "default", "eager", "right", "near", "far", "raises", "absent", "timing"]
    return found


def changes_its_arguments() -> CellResult:
    """A kernel that works in place, so that a contender's calls could spoil the next one's arguments."""
    torch.manual_seed(0)
    cell = next(c for c in SUITE if c.name == "move")
    return run_cell(cell, Bench(compile_s=0.0, is_dry=True), lambda phase: None, {})
