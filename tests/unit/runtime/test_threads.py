"""Threads that call kernels first, load and unload at once, where Python switches between them as often as it can."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tile_testing.fakes.served import DEVICE, Driver, binary, row

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.config import Config
from tileflow.runtime import KernelId, Table, launches_of, write_bundle
from tileflow.runtime.table import Fallback

CROWD = 16
LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def kernels(count: int) -> list[tileflow.Kernel]:
    """New ones, that nobody has called."""

    @tileflow.kernel
    def increased(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.shape[0]):
            out[tile] = x[tile] + 1
        return out

    return [increased.alias(f"threads:increased{number}") for number in range(count)]


def write(folder: Path, made: list[tileflow.Kernel], block: int) -> None:
    """A bundle with a row of 64 elements for each kernel, and a default for any number of them."""
    code = binary(f"block {block}")
    tables = []
    for kernel in made:
        problem = kernel.describe(torch.zeros(64))
        config = Config.of({"block:tile": 8})
        default = Fallback(config, "nvidia", "sm_90a", problem, launches_of([code]), (), "any shape")
        rows = [row(kernel, (torch.zeros(64),), [code], block)]
        tables.append(Table.of(KernelId.of(kernel.name, kernel.semantic_hash), rows, defaults={DEVICE: (default,)}))
    write_bundle(tables, [code], folder)


def crowd(work: Callable[[int], None]) -> None:
    """Let threads do ``work`` at once; fails where one raises or does not end."""
    wrong: list[str] = []
    gate = threading.Barrier(CROWD)

    def one(number: int) -> None:
        gate.wait()
        try:
            work(number)
        except Exception as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not wrong and not any(thread.is_alive() for thread in threads), wrong


@pytest.mark.parametrize("count", [1, 8])
def test_first_calls_at_once_are_each_served_and_counted_and_load_each_binary_once(
    count: int, driver: Driver, tmp_path: Path
) -> None:
    for attempt in range(5):
        runtime.clear()
        driver.launched.clear()
        driver.loads.clear()
        made = kernels(count)
        write(tmp_path / str(attempt), made, 64)
        runtime.load(tmp_path / str(attempt), as_device=DEVICE)

        def work(number: int, made: list[tileflow.Kernel] = made) -> None:
            for n in range(8):
                made[(number + n) % count](torch.zeros(64))

        crowd(work)
        assert len(driver.launched) == 8 * CROWD and runtime.stats() == {"exact": 8 * CROWD}
        assert len(driver.loads) == count


def test_calls_go_on_while_bundles_are_loaded_over_and_over(driver: Driver, tmp_path: Path) -> None:
    (kernel,) = kernels(1)
    for name, block in (("old", 64), ("new", 32)):
        write(tmp_path / name, [kernel], block)
    runtime.load(tmp_path / "old", as_device=DEVICE)
    ended = threading.Event()
    calls = [0] * CROWD

    def work(number: int) -> None:
        if number:
            while not ended.is_set():
                kernel(torch.zeros(60 + calls[number] % 9))
                calls[number] += 1
            return
        for turn in range(12):
            runtime.load(tmp_path / "new", as_device=DEVICE)
            runtime.digest(), runtime.decisions(), runtime.openmetrics()
            runtime.unload(tmp_path / "new")
            write(tmp_path / "old", [kernel], 64 if turn % 2 else 16)
            runtime.load(tmp_path / "old", as_device=DEVICE)
        ended.set()

    crowd(work)
    assert min(calls[1:]) > 0 and len(driver.launched) == sum(calls) == sum(runtime.stats().values())
    driver.launched.clear()
    kernel(torch.zeros(64))
    assert driver.launched == ["region_0 block 64"]  # what was loaded last
