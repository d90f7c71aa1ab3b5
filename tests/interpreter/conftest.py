"""One process in which Triton interprets, for all tests of this folder that want one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

LIMIT_S = 120.0
HELPERS = "tile_testing"


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """``interpreter("module:function", *args)``: what the function of the tests' helpers returns there. What it raises
    fails the test."""
    pytest.importorskip("triton")
    from tileflow.build.process import Child, Done

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        environment = {"TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}
        child = Child(warm=("torch", "triton", f"{HELPERS}.runs.interpreted"), environment=environment)

    def call(function: str, *args: Any) -> Any:
        # the pipe's own pickler would share tensors' memory, which a killed process leaves behind
        asked = (f"{HELPERS}.{function}", pickle.dumps(args))
        answer = child.call(f"{HELPERS}.runs.interpreted:answer", asked, limit_s=LIMIT_S)
        if not isinstance(answer, Done):
            pytest.fail(str(answer), pytrace=False)
        return pickle.loads(answer.value)

    yield call
    child.kill()


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, interpreter: Callable[..., Any]) -> dict[tuple[str, str], str]:
    """What is wrong with each of the ``CASES`` of the test module's file of kernels, ``KERNELS``, in each mode; all in
    one call of the other process."""
    from tile_testing.runs.interpreted import load_module

    path: str = request.module.KERNELS
    names = [(name, mode) for name in load_module(path).CASES for mode in ("static", "dynamic")]
    results: list[str] = interpreter("runs.interpreted:run_cases", path, names)
    return dict(zip(names, results, strict=True))
