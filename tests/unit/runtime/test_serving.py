"""What serves a call: rows in order, one module each, nothing launched twice, and what takes the place of a row.

Machine code is launched through a stand-in for the driver, on CPU tensors. Numbers are those of issue 13's findings.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.fakes.served import DEVICE, Driver, binary, load, row

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.config import Config
from tileflow.errors import CallError, MissError, VariantError
from tileflow.expr import TRUE, Expr
from tileflow.runtime import (
    launches_of,
)
from tileflow.runtime.call_cache import MOST_FORMS, CallCache
from tileflow.runtime.observe import counters
from tileflow.runtime.table import Fallback


@tileflow.kernel(reference=lambda x: x + 1)
def increased(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape[0]):
        out[tile] = x[tile] + 1
    return out


@tileflow.kernel
def twice(x: torch.Tensor, y: torch.Tensor) -> None:
    """In place, in two launches."""
    for tile in tfl.tile(x.shape[0]):
        x[tile] = x[tile] + 1
    for tile in tfl.tile(y.shape[0]):
        y[tile] = y[tile] + 1


def up_to(n: int, name: str = "x") -> Expr:
    return Expr.sym(f"{name}.shape.0").le(n)


# ---- rows in order ------------------------------------------------------------------------------------------------


def test_the_next_row_is_tried_where_the_first_ones_guards_decline(driver: Driver, tmp_path: Path) -> None:
    """13.10: rows at 1 and 64, a call of 2: the nearest row's static code declined and no other was asked."""
    small, large = binary("small", up_to(1)), binary("large", up_to(64))
    rows = [row(increased, (torch.zeros(1),), [small], 1), row(increased, (torch.zeros(64),), [large], 64)]
    load(tmp_path / "b", increased, rows, [small, large])
    increased(torch.zeros(2))
    increased(torch.zeros(1))
    assert driver.launched == ["region_0 large", "region_0 small"]


def test_a_bundles_default_serves_what_no_row_does(driver: Driver, tmp_path: Path) -> None:
    """13.10: a shape outside the domain compiled, or raised ModuleNotFoundError for triton."""
    fixed, anything = binary("fixed", Expr.sym("x.shape.0").eq(64), mode="static"), binary("anything")
    problem = increased.describe(torch.zeros(64))
    config, launches = Config.of({"block:tile": 8}), launches_of([anything])
    default = Fallback(config, "nvidia", "sm_90a", problem, launches, (), "any shape")
    rows = [row(increased, (torch.zeros(64),), [fixed])]
    load(tmp_path / "b", increased, rows, [fixed, anything], {DEVICE: (default,)})
    for x in (torch.zeros(64), torch.zeros(100_000), torch.zeros(9)[1:], torch.zeros(20)[::2], torch.zeros(0)):
        increased(x)
    assert driver.launched == ["region_0 fixed"] + ["region_0 anything"] * 4
    assert runtime.stats() == {"exact": 1, "default": 4}


@pytest.mark.parametrize("policy", ["default", "reference"])
def test_without_a_compiler_a_miss_runs_as_the_reference(
    policy: Any, driver: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = binary("fixed", mode="static")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(64),), [code])], [code], on_miss=policy)
    x = torch.randn(7, dtype=torch.float64)  # a dtype that the bundle lacks
    for _ in range(3):
        torch.testing.assert_close(increased(x), x + 1)
    assert driver.launched == []
    assert runtime.stats() == {"reference": 3, "miss": 1}
    (missed,) = runtime.misses()
    assert (missed.kernel, missed.problem, missed.calls) == (increased.name, increased.describe(x), 3)
    assert sum("reference" in record.getMessage() for record in caplog.records) == 1


def test_a_miss_may_be_an_error_that_says_what_to_do(driver: Driver, tmp_path: Path) -> None:
    code = binary("fixed", mode="static")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(64),), [code])], [code], on_miss="error")
    increased(torch.zeros(64))
    with pytest.raises(MissError, match=r"float32\[65\] .*on_miss is 'error'(.|\n)*bundle build"):
        increased(torch.zeros(65))
    runtime.set_on_miss("compile")
    runtime.load(tmp_path / "b", as_device=DEVICE, on_miss="compile")
    with pytest.raises(MissError, match="no compiler"):
        increased(torch.zeros(65))


def test_a_row_that_the_device_has_too_little_for_is_passed_over_for_good(driver: Driver, tmp_path: Path) -> None:
    large, small = binary("large"), binary("small")
    rows = [row(increased, (torch.zeros(64),), [large], 64), row(increased, (torch.zeros(80),), [small], 8)]
    load(tmp_path / "b", increased, rows, [large, small])
    before = runtime.digest()
    driver.exhausted.add(b"large")
    for _ in range(3):
        increased(torch.zeros(64))
    assert driver.launched == ["region_0 small"] * 3
    assert runtime.digest() != before, "ranks that decide differently have different digests"


# ---- once ---------------------------------------------------------------------------------------------------------


def test_no_region_is_launched_twice(driver: Driver, tmp_path: Path) -> None:
    """13.4: with the second region failing, the first one, in place, was applied twice, silently."""
    first = binary("first", TRUE, "x")
    second = binary("second", Expr.sym("y.shape.0").eq(8), "y", region=1)
    x = torch.zeros(8)
    rows = [row(twice, (x, torch.zeros(n)), [first, second]) for n in (8, 64)]
    load(tmp_path / "b", twice, rows, [first, second])
    twice(x, torch.zeros(8))
    assert driver.launched == ["region_0 first", "region_1 second"]
    for _ in range(2):
        driver.launched.clear()
        with pytest.raises(VariantError, match=r"launch 1 .*y\.shape\.0 = 9"):
            twice(torch.zeros(8), torch.zeros(9))
        assert driver.launched == ["region_0 first"]


def test_another_row_goes_on_where_one_declines_in_the_middle(driver: Driver, tmp_path: Path) -> None:
    first, second = binary("first", TRUE, "x"), binary("second", Expr.sym("y.shape.0").eq(8), "y", region=1)
    wide = [binary("wide 0", TRUE, "x"), binary("wide 1", TRUE, "y", region=1)]
    rows = [row(twice, (torch.zeros(8),) * 2, [first, second]), row(twice, (torch.zeros(64),) * 2, wide)]
    load(tmp_path / "b", twice, rows, [first, second, *wide])
    for _ in range(3):
        driver.launched.clear()
        twice(torch.zeros(8), torch.zeros(9))
        assert driver.launched == ["region_0 first", "region_1 wide 1"]


def test_host_code_that_wrote_into_its_arguments_is_not_run_again(driver: Driver, tmp_path: Path) -> None:
    code = binary("small", up_to(1), "x")
    rows = [row(begins_with_a_write, (torch.zeros(n),), [code]) for n in (1, 64)]
    load(tmp_path / "b", begins_with_a_write, rows, [code])
    x = torch.zeros(8)
    with pytest.raises(VariantError):
        begins_with_a_write(x)
    assert x.tolist() == [1.0] * 8


def unknown(x: torch.Tensor) -> None:
    x.add_(1)


@tileflow.kernel
def begins_with_a_write(x: torch.Tensor) -> None:
    unknown(x)
    for tile in tfl.tile(x.shape[0]):
        x[tile] = x[tile] + 1


# ---- bounded ------------------------------------------------------------------------------------------------------


def test_a_new_shape_of_a_known_row_loads_nothing(driver: Driver, tmp_path: Path) -> None:
    """13.13: 10,000 module loads for 5,000 shapes."""
    variants = [binary("divisible", (Expr.sym("x.shape.0") % 16).eq(0)), binary("any")]
    rows = [row(increased, (torch.zeros(n),), variants) for n in (16, 1 << 20)]
    load(tmp_path / "b", increased, rows, variants)
    for n in range(17, 417):
        increased(torch.zeros(n))
    assert len(driver.launched) == 400
    assert len(driver.loads) <= 4, "two rows of two variants"


def test_keys_are_bounded_and_those_that_had_to_go_come_back(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileflow.runtime.call_cache.MOST_KEYS", 16)
    monkeypatch.setattr(increased, "cache", CallCache(increased))
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(n),), [code]) for n in (1, 4096)], [code])
    for _ in range(2):
        for n in range(1, 101):
            increased(torch.zeros(n))
            assert len(increased.cache) <= 16
    assert increased.cache.evicted == 200 - 16
    assert len(driver.launched) == 200


def test_many_kinds_of_arguments_have_few_forms(driver: Driver) -> None:
    cache = CallCache(many)
    for i in range(3 * MOST_FORMS):
        args = (torch.zeros(2), (1,) * i)
        cache.remember(args, Says())  # type: ignore[arg-type]
    assert len(cache.forms) == MOST_FORMS
    assert len(cache) == 3 * MOST_FORMS


class Says:
    def __init__(self) -> None:
        self.counter, self.calls, self.host_call = self, 0, None


@tileflow.kernel
def many(x: torch.Tensor, other: tuple[int, ...]) -> None:
    for tile in tfl.tile(x.shape[0]):
        x[tile] = x[tile] + 1


# ---- threads ------------------------------------------------------------------------------------------------------


def test_a_first_call_that_tables_overtake_is_not_remembered(driver: Driver, tmp_path: Path) -> None:
    """13.8: a first call under way during load() kept its old binding for good."""
    old, new = binary("old"), binary("new")
    load(tmp_path / "old", overtaken, [row(overtaken, (torch.zeros(4),), [old])], [old])
    OVERTAKE.append(lambda: load(tmp_path / "new", overtaken, [row(overtaken, (torch.zeros(4),), [new])], [new]))
    overtaken(torch.zeros(4))
    overtaken(torch.zeros(4))
    assert driver.launched == ["region_0 old", "region_0 new"]


OVERTAKE: list[Callable[[], None]] = []


@tileflow.kernel
def overtaken(x: torch.Tensor) -> None:
    while OVERTAKE:
        OVERTAKE.pop()()
    out = x
    for tile in tfl.tile(x.shape[0]):
        out[tile] = x[tile] + 1


def test_first_calls_in_many_threads_load_once(driver: Driver, tmp_path: Path) -> None:
    """13.8: eight first calls compiled and loaded eight times."""
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(4),), [code])], [code])
    barrier, errors = threading.Barrier(8), []

    def work() -> None:
        try:
            barrier.wait()
            increased(torch.zeros(4))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (len(driver.launched), len(driver.loads)) == (8, 1)
    assert runtime.stats() == {"exact": 8}


def test_reloading_while_threads_call_loses_no_call(driver: Driver, tmp_path: Path) -> None:
    """13.8: `_forget` against `_quicken` gave AttributeErrors."""
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(4),), [code])], [code])
    stop, errors, calls = threading.Event(), [], [0] * 4

    def work(i: int) -> None:
        try:
            while not stop.is_set():
                increased(torch.zeros(4))
                calls[i] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        runtime.load(tmp_path / "b", as_device=DEVICE)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(driver.launched) == sum(calls) == sum(count.calls for count in counters())


# ---- tables that come and go --------------------------------------------------------------------------------------


def test_a_bundle_that_was_exported_again_takes_the_old_ones_place(driver: Driver, tmp_path: Path) -> None:
    """13.12: after loading the new bundle the old one's exact rows failed too, and nothing could be withdrawn."""
    old, new = binary("old"), binary("new")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(n),), [old]) for n in (4, 8)], [old])
    increased(torch.zeros(8))
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(4),), [new])], [new])
    increased(torch.zeros(4))
    assert len(runtime.loaded()) == 1
    assert driver.launched == ["region_0 old", "region_0 new"]
    runtime.unload(tmp_path / "b")
    assert runtime.loaded() == ()
    torch.testing.assert_close(increased(torch.zeros(4)), torch.ones(4))
    assert runtime.stats()["reference"] == 1


def test_ranks_compare_what_they_decide_from_and_what_they_decided(driver: Driver, tmp_path: Path) -> None:
    """13.14: ranks could disagree, and nothing told."""
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(n),), [code]) for n in (4, 4096)], [code])
    seen = []
    for order in ([4, 5, 6], [6, 4, 5], [4, 5, 7]):
        runtime.serving.forget_decisions()
        runtime.load(tmp_path / "b", as_device=DEVICE)
        for n in order:
            increased(torch.zeros(n))
            increased(torch.zeros(n))
        seen.append((runtime.digest(), runtime.decisions()))
    assert seen[0] == seen[1]
    assert seen[2][0] == seen[0][0] and seen[2][1] != seen[0][1]


# ---- what is seen -------------------------------------------------------------------------------------------------


def test_warm_calls_are_counted_by_kernel_step_and_reason(
    driver: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """13.14: stats() counted first calls only, and near hits warned once a bucket."""
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(n),), [code]) for n in (4, 4096)], [code])
    with caplog.at_level(logging.WARNING, logger="tileflow.runtime"):
        for n in (4, 4, 4, 40, 40, 400):
            increased(torch.zeros(n))
    assert runtime.stats() == {"exact": 3, "near": 3}
    assert {(c.kernel, c.step) for c in counters()} == {(increased.name, "exact"), (increased.name, "near")}
    assert len(caplog.records) == 1, "two buckets, one line"
    assert (
        'tileflow_calls_total{kernel="tests.unit.runtime.test_serving:increased",step="near"' in runtime.openmetrics()
    )


def test_keywords_and_second_kinds_are_warm_too(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """13.14: keywords cost twice, a second kind of argument 1.6 times: neither had a fast key."""
    code = binary("any", TRUE, "x")
    load(tmp_path / "b", many, [row(many, (torch.zeros(4), ()), [code])], [code])
    calls: list[Callable[[], Any]] = [
        lambda: many(torch.zeros(4), ()),
        lambda: many(torch.zeros(4), other=()),
        lambda: many(other=(), x=torch.zeros(4)),
        lambda: many(torch.nn.Parameter(torch.zeros(4)), ()),
    ]
    with torch.no_grad():
        for call in calls:
            call()
        monkeypatch.setattr(many.cache, "run", None)
        for call in calls:
            call()
    assert len(driver.launched) == 8


def test_out_of_resources_of_the_only_server_is_the_callers_to_see(driver: Driver, tmp_path: Path) -> None:
    code = binary("large")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(4),), [code])], [code], on_miss="error")
    driver.exhausted.add(b"large")
    with pytest.raises(MissError, match="on_miss is 'error'"):
        increased(torch.zeros(4))


def test_warming_up_loads_what_calls_will_launch(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileflow.runtime.describe.device_class", lambda device: DEVICE)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    fixed, anything = binary("fixed", Expr.sym("x.shape.0").eq(64), mode="static"), binary("anything")
    default = Fallback(
        Config.of({"block:tile": 8}), "nvidia", "sm_90a", increased.describe(torch.zeros(64)), launches_of([anything])
    )
    rows = [row(increased, (torch.zeros(64),), [fixed])]
    load(tmp_path / "b", increased, rows, [fixed, anything], {DEVICE: (default,)})
    found = runtime.warmup(increased, [(torch.empty(64, device="meta"),), increased.describe(torch.zeros(100))])
    assert found == 2
    assert sorted(driver.loads) == [b"anything", b"fixed"] and driver.launched == []


def test_every_problem_that_is_warmed_up_has_its_own_first_row(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileflow.runtime.describe.device_class", lambda device: DEVICE)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    small, large = binary("small"), binary("large")
    rows = [row(increased, (torch.zeros(64),), [small]), row(increased, (torch.zeros(4096),), [large])]
    load(tmp_path / "b", increased, rows, [small, large])
    near = [(torch.empty(size, device="meta"),) for size in (80, 4000)]  # neither is a row's own problem
    assert runtime.warmup(increased, near) == 2
    assert sorted(driver.loads) == [b"large", b"small"]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, "cpu", torch.device("cpu")])
@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_warmed_up(device: Any) -> None:
    with pytest.raises(CallError, match="a device class is asked of a GPU"):
        runtime.warmup(increased, [(torch.zeros(4),)], device)


def test_a_problem_to_warm_up_is_a_call_s_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileflow.runtime.describe.device_class", lambda device: DEVICE)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    with pytest.raises(CallError, match=r"arguments in a tuple, or a Problem.* got Tensor"):
        runtime.warmup(increased, (torch.zeros(4),))


def test_a_copy_of_a_bundle_is_another_one(driver: Driver, tmp_path: Path) -> None:
    code = binary("any")
    load(tmp_path / "b", increased, [row(increased, (torch.zeros(4),), [code])], [code])
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    runtime.load(tmp_path / "copy", as_device=DEVICE)
    runtime.unload(tmp_path / "copy")
    increased(torch.zeros(4))
    assert driver.launched == ["region_0 any"]
