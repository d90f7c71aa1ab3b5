"""One process in which Triton interprets, for all tests of this folder that want one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tileflow.build.process import Done
from tileflow.build.warm_process import WarmProcess

LIMIT_S = 280.0  # a little less than pytest gives a test
IN_ONE_CALL = 40  # cases
MAX_RSS_BYTES = 3 << 30  # kept from one call to the next: another such process may run beside it
HELPERS = "tile_testing"


class Interpreter(WarmProcess):
    """A process in which Triton interprets; another takes over where a call ended it, or left much memory behind."""

    def __init__(self, cache: Path) -> None:
        environment = {
            "TILEFLOW_CACHE": str(cache),
            "TRITON_INTERPRET": "1",
            "PYTHONWARNINGS": "ignore::RuntimeWarning",
        }
        warm = ("torch", "triton", f"{HELPERS}.runs.interpreted")
        super().__init__(warm=warm, environment=environment, max_rss_bytes=MAX_RSS_BYTES)

    def call(self, function: str, *args: Any) -> Any:
        """What ``module:function`` of the tests' helpers returns there. What it raises fails the test."""
        # the pipe's own pickler would share tensors' memory, which a killed process leaves behind
        asked = (f"{HELPERS}.{function}", pickle.dumps(args))
        answer = self._ask(f"{HELPERS}.runs.interpreted:answer", asked, LIMIT_S)
        if not isinstance(answer, Done):
            pytest.fail(str(answer), pytrace=False)
        self._count(answer.rss_bytes)
        return pickle.loads(answer.value)


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """``interpreter("module:function", *args)``: see :meth:`Interpreter.call`."""
    pytest.importorskip("triton")
    with Interpreter(tmp_path_factory.mktemp("cache")) as process:
        yield process.call


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of ``tile_testing.runs.constructs``, for each of the ``CASES`` of the module that imports them."""
    if "construct" in metafunc.fixturenames:
        metafunc.parametrize("construct", list(metafunc.module.CASES))


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The ``CASES`` of the test module's file of kernels."""
    found: dict[str, Any] = request.module.CASES
    return found


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, interpreter: Callable[..., Any]) -> dict[tuple[str, str], str]:
    """What is wrong with each of the ``CASES`` of the test module's file of kernels, ``KERNELS``, in each mode; few
    enough in one call of the other process for its limit."""
    from tile_testing.runs.interpreted import load_module

    path: str = request.module.KERNELS
    names = [(name, mode) for name in load_module(path).CASES for mode in ("static", "dynamic")]
    groups = [names[n : n + IN_ONE_CALL] for n in range(0, len(names), IN_ONE_CALL)]
    results = [wrong for group in groups for wrong in interpreter("runs.interpreted:run_cases", path, group)]
    return dict(zip(names, results, strict=True))
