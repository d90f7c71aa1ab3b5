"""Configs through Triton's interpreter, in a process of its own, against the reference."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest

pytest.importorskip("triton")

from examples.attention import attention
from tileflow.build.interpret import interpreter_launcher
from tileflow.config import Config
from tileflow.errors import LaunchError
from tileflow.measure.interpret import InterpreterProcess, InterpretRequest
from tileflow.measure.types import Outcome, Status
from tileflow.target import target

KERNELS = "tile_testing.kernels.measure_kernels"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterpreterProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        with InterpreterProcess() as process:
            yield process


def check(process: InterpreterProcess, variant: str, kernel: str = "add", n: int = 777, limit_s: float = 60) -> Outcome:
    return process.check(
        InterpretRequest(
            f"{KERNELS}:{kernel}", (("n", n),), Config.of({"variant": variant}),
            loader=f"{KERNELS}:load", limit_s=limit_s,
        )
    )  # fmt: skip


@pytest.mark.parametrize("kernel", ["add", "accumulate"])
def test_a_right_config_is_ok(process: InterpreterProcess, kernel: str) -> None:
    outcome = check(process, "right", kernel)
    assert outcome.status is Status.OK, outcome.error_digest
    assert outcome.max_err is not None and outcome.max_err < 0.1 and not outcome.measured


@pytest.mark.parametrize(
    ("variant", "status"),
    [
        ("wrong", Status.INCORRECT), ("unmasked_tail", Status.NONFINITE), ("nan", Status.NONFINITE),
        ("unknown", Status.INVALID_STATIC),
    ],
)  # fmt: skip
def test_planted_mistakes_are_caught(process: InterpreterProcess, variant: str, status: Status) -> None:
    outcome = check(process, variant)
    assert outcome.status is status, outcome.error_digest


def test_a_schedule_that_no_interpreter_runs_is_checked_by_its_pipelined_twin(process: InterpreterProcess) -> None:
    problem = (("batch", 1), ("heads", 2), ("m", 4096), ("d", 64), ("dtype", "bfloat16"), ("causal", True))
    args = attention.inputs(device="meta", **dict(problem))
    space = attention.lower(args, target("nvidia-h200")).space
    config = space.complete({"schedule": "warp_specialised", "block:tile_m": 128, "block:block_n": 64, "num_stages": 2})
    assert space.is_valid(config)
    outcome = process.check(InterpretRequest("examples.attention:attention", problem, space.normalise(config)))
    assert outcome.status is Status.OK, outcome.error_digest


def test_what_the_author_raises_at_a_made_up_size_means_not_this_size(process: InterpreterProcess) -> None:
    """Issue 15: such an assertion was an InternalError, which threw the whole study away. 64 and 320 are no multiples
    of its chunk; 896 is."""
    assert check(process, "right", "chunked", n=896).status is Status.OK
    assert check(process, "wrong", "chunked", n=896).status is Status.INCORRECT
    never = check(process, "right", "chunked", n=895)
    assert never.status is Status.CANCELLED and "whole chunks only" in never.error_digest


def test_the_authors_inputs_are_not_the_configs_fault(process: InterpreterProcess) -> None:
    outcome = check(process, "right", "broken")
    assert outcome.status is Status.CANCELLED and "the author's inputs fail" in outcome.error_digest


def test_an_infinite_error_is_no_number(process: InterpreterProcess) -> None:
    """Issue 15: the infinity of a NaN in the output ended the sweep."""
    outcome = check(process, "nan")
    assert (outcome.status, outcome.max_err) == (Status.NONFINITE, None)


def test_an_endless_kernel_is_killed(process: InterpreterProcess) -> None:
    assert check(process, "endless", limit_s=1.5).status is Status.BENCH_TIMEOUT
    assert check(process, "right").status is Status.OK


@pytest.mark.skipif(
    version("triton") < "3.7" and tuple(map(int, version("numpy").split(".")[:2])) >= (2, 4),
    reason="Triton 3.6's interpreter needs numpy < 2.4 for loops to a run-time bound",
)
def test_a_bfloat16_dot_is_mended(process: InterpreterProcess) -> None:
    outcome = process._child.call(f"{KERNELS}:bfloat16_dot_error", (), limit_s=60)
    assert outcome.value < 0.02


def test_this_process_does_not_interpret() -> None:
    from tile_testing.fakes import build_sources as sources

    with pytest.raises(LaunchError, match="process of its own"):
        interpreter_launcher(sources.vector_add())
