"""What several files of this folder ask for: a stand-in for the GPU, the native extension, a trap for payloads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tile_testing.fakes import table_mutations as mutations
from tile_testing.fakes.served import Driver

from tileflow import runtime, serve
from tileflow.runtime import build_native, native


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """The stand-in, on a CPU that is taken for an H200."""
    made = Driver()
    monkeypatch.setattr(serve, "runs_code", lambda device: True)
    monkeypatch.setattr(serve, "triton_interprets", lambda: True)
    monkeypatch.setattr(serve, "has_compiler", lambda: False)
    monkeypatch.setattr("tileflow.runtime.preload.lazy_launcher", made.launcher)
    runtime.clear()
    yield made
    runtime.clear()


@pytest.fixture(scope="session")
def extension() -> None:
    try:
        build_native.build()
    except build_native.CannotBuild as error:
        pytest.skip(str(error))
    native.forget()


@pytest.fixture
def canary() -> Iterator[ModuleType]:
    module: Any = ModuleType(mutations.CANARY)
    module.fired = []
    sys.modules[mutations.CANARY] = module
    yield module
    del sys.modules[mutations.CANARY]
