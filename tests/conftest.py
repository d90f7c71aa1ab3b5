"""What every test runs under: a clean environment, a loopback Ray, GPU tests skipped without one, golden files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Process-wide switches of the compilers: a test that needs one starts a process of its own.
SWITCHES = ("TRITON_INTERPRET", "TILEFLOW_INTERPRET")

# Read when Ray starts; a plain local start would listen on every interface, and turn on a token that jobs lack.
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "2",
    "RAY_health_check_initial_delay_ms": "0",
}

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"

# Folders whose tests want the one Ray, or the GPU's time, to themselves.
ALONE = ("tests/cluster/", "tests/gpu/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code gives now")


def pytest_configure(config: pytest.Config) -> None:
    for name in (*SWITCHES, "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("DO_NOT_TRACK", "true")
    # Processes that a test starts, Ray's workers too, find ``tile_testing`` as pytest does (``pythonpath``).
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    os.environ["TILEFLOW_VERIFY"] = "1"  # in every process that a test starts too: each pass gives a region that holds
    os.environ["TILEFLOW_TABLES"] = ""  # what somebody has tuned on this machine is no part of a test
    # A busy machine is no reason to fail, and a run that gates a change draws the same examples each time.
    hypothesis.settings.register_profile("tileflow", deadline=None, derandomize="CI" in os.environ)
    hypothesis.settings.load_profile("tileflow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests go to one process and share what its fixtures make there; so do those of the folders ``ALONE``.
    Another ``--dist`` than what ``-n`` means is taken as it is."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "alone" if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needing = [item for item in items if item.get_closest_marker("gpu")]
    if not needing:
        return
    import torch  # a second of import that a run without GPU tests does not pay

    if not torch.cuda.is_available():
        for item in needing:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture(autouse=True)
def _no_leaked_switches() -> Iterator[None]:
    """Fails the test that leaves a process-wide switch set, rather than the tests after it."""
    yield
    leaked = [name for name in SWITCHES if os.environ.pop(name, None) is not None]
    assert not leaked, f"{leaked} left in this process's environment; use a process of its own"


@pytest.fixture(scope="module", autouse=True)
def _no_shared_workers() -> Iterator[None]:
    """A module's tests leave no local workers: those stay for the process, and count as another test's leftovers."""
    yield
    local_pool = sys.modules.get("tileflow_cluster.local_pool")
    if local_pool is not None:
        local_pool.pool_here().close()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: ``text`` must equal ``tests/golden/<name>``; ``--update-golden`` writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"tests/golden/{name} is missing; write it with --update-golden and review it"
        assert text == path.read_text(), f"tests/golden/{name} differs; --update-golden rewrites it for review"

    return compare
