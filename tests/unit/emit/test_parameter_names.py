"""What an author calls a number is no name that the text has for something else."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.odd_names import übung

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import compile_source
from tileflow.emit.plan import parameter_name
from tileflow.target import target


@tileflow.kernel
def scaled(x: torch.Tensor, run: int, pid: int, first: float, tl: float, t_begin: float, eps: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t] = x[t] * first + run + pid * tl + t_begin + eps
    return out


@pytest.mark.parametrize("walk", ["blocked", "interleaved"])
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_grids_own_names_hide_no_argument(walk: str, mode: str) -> None:
    """Found by a kernel of others (issue 15): the walk's ``first`` hid the author's, and results were wrong."""
    lowered = scaled.lower((torch.empty(101), 3, 4, 2.0, 5.0, 0.5, 0.1), target("nvidia-h200"), mode=mode)
    config = lowered.space.repair(lowered.default.with_({"persistent": 8, "walk": walk}))
    (source,) = lowered.emit(config)
    head, body = source.text.split("):\n", 1)
    taken = [line.strip(" ,") for line in head.splitlines() if line.startswith("    ") and ":" not in line]
    assert {"first_arg", "run_arg", "pid_arg", "tl_arg", "t_begin_arg", "eps"} <= set(taken)
    assigned = {line.partition(" = ")[0].strip() for line in body.splitlines() if " = " in line}
    assert not assigned & set(taken) and "tl" not in taken


def test_no_two_names_become_one() -> None:
    names = ["run", "run_arg", "run_arg_arg", "x", "BLOCK_M", "if", "min", "t_idx"]
    assert len({parameter_name(name) for name in names}) == len(names)
    assert parameter_name("eps") == "eps"


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_letters_that_only_python_has(mode: str) -> None:
    """Triton refused the function's name, and torch's schemas the arguments'."""
    lowered = übung.lower((torch.empty(101),), target("nvidia-h200"), mode=mode)
    (source,) = lowered.emit(lowered.default)
    assert "def ufcbung_0(" in source.text
    assert compile_source(source, target("nvidia-h200")).code[:4] == b"\x7fELF"


def test_letters_that_only_python_has_in_a_graph() -> None:
    x = torch.randn(101)
    compiled = torch.compile(lambda x: übung(x) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), 2 * x + 1)
