"""Measuring on a real card: right and planted-wrong kernels, in processes that may die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tileflow.build.compile import build
from tileflow.build.resources import occupancy
from tileflow.config import Config
from tileflow.errors import SlowProblem, SpecError
from tileflow.measure.racing import Rules
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.timing import DeviceSampler, Effort, measure
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.describe import device_class
from tileflow.target import Target, target

pytestmark = pytest.mark.gpu

KERNELS = "tile_testing.kernels.measure_kernels"
N = 1 << 24


@pytest.fixture(scope="module")
def kernels() -> Any:
    from tile_testing.kernels import measure_kernels

    return measure_kernels


@pytest.fixture(scope="module")
def device() -> Target:
    return target(device_class(0))


@pytest.fixture(scope="module")
def process(kernels: Any) -> Iterator[MeasureProcess]:
    with MeasureProcess(0) as process:
        yield process


@pytest.fixture
def candidate(kernels: Any, device: Target) -> Callable[[str], Candidate]:
    return lambda variant: Candidate(Config.of({"variant": variant}), (build(kernels.VARIANTS[variant], device),))


def request(found: Candidate, kernel: str = "add", n: int = N) -> MeasureRequest:
    return MeasureRequest(f"{KERNELS}:{kernel}", (("n", n),), (found,), loader=f"{KERNELS}:load")


@pytest.fixture
def ask(candidate: Callable[[str], Candidate], process: MeasureProcess) -> Any:
    def ask(variant: str, kernel: str = "add", n: int = N, **changes: Any) -> Outcome:
        return process.run(replace(request(candidate(variant), kernel, n), **changes))

    return ask


def test_a_right_kernel_is_measured_near_the_bandwidth(ask: Any, device: Target) -> None:
    outcome = ask("right")
    assert outcome.status is Status.OK, outcome.error_digest
    assert outcome.max_err is not None and outcome.max_err < 1
    result = outcome.measurement
    assert result is not None and len(result.samples_us) >= 7
    bound_us = 3 * 4 * N / (device.dram_gbps * 1e3)
    assert 0.95 * bound_us < result.median_us < 10 * bound_us
    assert result.ci95_us < 0.1 * result.median_us


def test_a_process_that_prepared_is_quick_with_its_first_trial(candidate: Callable[[str], Candidate]) -> None:
    """The cold one comes second, so that its files are read already."""
    took = []
    for prepares in (True, False):
        with MeasureProcess() as process:
            process.identity()
            if prepares:
                process.prepare(request(candidate("right")))
            outcome = process.run(request(candidate("right")))
            assert outcome.status is Status.OK, outcome.error_digest
            took.append(outcome.prepare_s + outcome.verify_s)
    assert took[0] < 0.5 * took[1], took


def test_two_measurements_agree(ask: Any) -> None:
    first, second = (ask("right").measurement for _ in range(2))
    assert second.median_us == pytest.approx(first.median_us, rel=0.05)


def test_an_odd_size_and_a_tiny_one(ask: Any) -> None:
    for n in (1, 1000, 12_345_677):
        outcome = ask("right", n=n)
        assert outcome.status is Status.OK, (n, outcome.error_digest)


def test_the_device_says_what_it_is(process: MeasureProcess, ask: Any) -> None:
    info = process.identity()
    assert info.display_name == torch.cuda.get_device_name(0)
    assert info.device_class == device_class(0)
    assert info.uuid == f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    assert ask("right").device.gpu_uuid == info.uuid


def test_a_kernel_that_changes_its_arguments(ask: Any) -> None:
    for _ in range(2):  # the second finds the first one's arguments as they were
        outcome = ask("right", kernel="accumulate")
        assert outcome.status is Status.OK, outcome.error_digest


@pytest.mark.parametrize(
    ("variant", "status"),
    [("wrong", Status.INCORRECT), ("unmasked_tail", Status.NONFINITE), ("nan", Status.NONFINITE)],
)
def test_a_planted_miscompile_is_not_timed(ask: Any, variant: str, status: Status) -> None:
    outcome = ask(variant)
    assert outcome.status is status, outcome.error_digest
    assert outcome.measurement is None and (outcome.max_err is None or outcome.max_err > 1)


def test_an_illegal_access_costs_one_trial(ask: Any) -> None:
    outcome = ask("out_of_bounds")
    assert outcome.status is Status.ILLEGAL_ACCESS, (outcome.status, outcome.error_digest)
    after = ask("right")
    assert after.status is Status.OK, after.error_digest


def test_an_endless_kernel_ends_at_its_limit(ask: Any) -> None:
    started = time.monotonic()
    outcome = ask("endless", incumbent_us=100.0, limits=Limits(floor=3.0))
    assert outcome.status is Status.BENCH_TIMEOUT, (outcome.status, outcome.error_digest)
    assert time.monotonic() - started < 40  # inputs, the limit, and the driver's cleaning up
    after = ask("right")
    assert after.status is Status.OK, after.error_digest


def test_a_hopeless_config_is_given_up_early(ask: Any) -> None:
    steady = ask("right").measurement
    hopeless = ask("right", incumbent_us=steady.median_us / 10).measurement
    assert len(hopeless.samples_us) == Effort().first_samples


def test_a_config_out_of_reach_is_called_once(ask: Any) -> None:
    steady = ask("right").measurement
    found = ask("right", incumbent_us=steady.median_us / 100, effort=Effort(cheap_us=0.0)).measurement
    assert len(found.samples_us) == 1 and found.median_us >= 0.5 * steady.median_us


def test_inputs_that_do_not_fit_the_card_are_the_problems_fault_and_no_configs(ask: Any) -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(SpecError, match="inputs must fit the card"):
        ask("right", n=total // 4)


def test_the_authors_mistakes_are_raised(ask: Any) -> None:
    with pytest.raises(SpecError, match="ValueError: planted: the author's inputs fail"):
        ask("right", kernel="broken")
    with pytest.raises(SpecError, match="importable"):
        ask("right", loader=f"{KERNELS}:no_such_loader")


def test_a_race_ranks_what_is_right(ask: Any, candidate: Callable[[str], Candidate]) -> None:
    candidates = (candidate("right"), candidate("wrong"), candidate("right"))
    # what is the same differs by up to half a percent
    rules = Rules(worthwhile=0.01)
    outcome = ask("right", candidates=candidates, rules=rules, repeats=2, incumbent_us=50.0)
    assert outcome.status is Status.OK, outcome.error_digest
    first, wrong, second = outcome.ranked
    assert wrong.outcome.status is Status.INCORRECT and wrong.outcome.measurement is None and not wrong.tied
    assert first.tied and second.tied
    assert max(first.ratio, second.ratio) < 1.01
    assert len(first.outcome.measurement.samples_us) >= 12


def test_data_is_kept_between_problems(ask: Any) -> None:
    for n in (N, N + 1):
        ask("right", n=n)
    assert ask("right", n=N).prepare_s < 0.01


def test_a_reference_that_never_returns_costs_no_other_problem_its_data(ask: Any) -> None:
    """It cost all of them theirs: its process was ended after 2 s."""
    ask("right", n=N + 1)
    began = time.monotonic()
    with pytest.raises(SlowProblem):
        ask("right", kernel="sleeps", limits=Limits().while_others_wait())
    assert time.monotonic() - began < Limits().prepare_others_waiting
    assert ask("right", n=N + 1).prepare_s < 0.01


def test_a_wrong_config_gets_its_verdict_from_fresh_data(ask: Any) -> None:
    ask("right")
    assert ask("wrong").status is Status.INCORRECT
    assert ask("right").status is Status.OK


def test_races_are_looked_for_where_asked(ask: Any) -> None:
    assert ask("right", repeats=5, seeds=(10, 11, 12)).status is Status.OK


def test_sampling_restores_what_a_call_changes() -> None:
    x = torch.ones(1 << 20, device="cuda")
    sampler = DeviceSampler(lambda t: t.mul_(2), (x,))
    assert sampler.captured
    measure(sampler, Effort())
    assert x.unique().tolist() == [1.0]


def test_twice_the_work_takes_twice_the_time() -> None:
    source = torch.randn(1 << 28, device="cuda")
    half = source[: 1 << 27]
    times = [measure(DeviceSampler(torch.clone, (t,)), Effort()).median_us for t in (half, source)]
    assert times[1] / times[0] == pytest.approx(2, rel=0.1)


def test_the_l2_is_cold() -> None:
    """What fits the L2 whole is still read from memory. A little that is changed in place shows it: a sum waits longer
    for its last programs, and of 16 MiB an H100's halves of the L2 have no room for both copies."""
    x = torch.randn(1 << 20, device="cuda")  # 4 MiB
    sampler = DeviceSampler(lambda x: x.mul_(1.0), (x,))
    cold = measure(sampler, Effort()).median_us
    small, product = torch.randn(768, 768, device="cuda"), torch.empty(768, 768, device="cuda")

    def busy() -> None:
        """Work in a corner of the L2 for longer than a slow host takes to launch it and what is timed."""
        for _ in range(32):
            torch.mm(small, small, out=product)

    sampler._flush = busy
    warm = measure(sampler, Effort()).median_us
    assert warm < 0.95 * cold


def test_host_code_that_waits_for_the_device_is_timed_without_a_graph() -> None:
    x = torch.randn(1 << 20, device="cuda")
    sampler = DeviceSampler(lambda t: t * t.sum().item(), (x,))
    assert not sampler.captured
    assert measure(sampler, Effort()).median_us > 0
    assert torch.rand(64, device="cuda").unique().numel() > 1  # the failed capture left the random generator as it was


def test_static_facts_agree_with_the_driver(kernels: Any, device: Target) -> None:
    """Registers and local memory, read from the cubin, are the driver's own."""
    driver = pytest.importorskip("cuda.bindings.driver")
    binary = build(kernels.VARIANTS["right"], device)
    torch.cuda.synchronize()
    _, module = driver.cuModuleLoadData(binary.code)
    _, function = driver.cuModuleGetFunction(module, binary.abi.symbol.encode())
    attributes = driver.CUfunction_attribute

    def ask_driver(attribute: Any) -> int:
        return int(driver.cuFuncGetAttribute(attribute, function)[1])

    facts = binary.resources
    assert facts.registers == ask_driver(attributes.CU_FUNC_ATTRIBUTE_NUM_REGS)
    assert facts.spills == ask_driver(attributes.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    threads = facts.threads
    blocks = int(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, binary.abi.shared)[1])
    assert occupancy(facts, device) == pytest.approx(blocks * threads / device.max_threads_per_sm)
    driver.cuModuleUnload(module)
