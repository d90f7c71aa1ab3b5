"""One process in which Triton interprets, for all tests of this folder that want one."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit")]

LIMIT_S = 120.0


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """``interpreter("module:function", *args)``: what the function returns there. What it raises fails the test."""
    pytest.importorskip("triton")
    from tileflow.build.process import Child, Done

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        environment = {"TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}
        child = Child(warm=("torch", "triton", "interpreted"), environment=environment)

    def call(function: str, *args: Any) -> Any:
        # the pipe's own pickler would share tensors' memory, which a killed process leaves behind
        answer = child.call("interpreted:answer", (function, pickle.dumps(args)), limit_s=LIMIT_S)
        if not isinstance(answer, Done):
            pytest.fail(str(answer), pytrace=False)
        return pickle.loads(answer.value)

    yield call
    child.kill()


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, interpreter: Callable[..., Any]) -> dict[tuple[str, str], str]:
    """What is wrong with each of the ``CASES`` of the test module's file of kernels, ``KERNELS``, in each mode; all in
    one call of the other process."""
    from interpreted import load_module

    path: str = request.module.KERNELS
    names = [(name, mode) for name in load_module(path).CASES for mode in ("static", "dynamic")]
    results: list[str] = interpreter("interpreted:run_cases", path, names)
    return dict(zip(names, results, strict=True))
