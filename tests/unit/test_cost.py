"""The cost model: monotone, deterministic, plausible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileflow.cost import Launch, estimate, model, roofline_us
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Status
from tileflow.runtime.abi import Resources
from tileflow.target import CATALOGUE, target

H200 = target("nvidia-h200")
PLAIN = Resources(32, 0, 0, 128, (("load_global", 4), ("total", 100)))
MATRIX = Resources(168, 0, 96 * 1024, 256, (("total", 500), ("wgmma", 8)))
COPY = Traffic(1 << 30, 0, "float32")
GEMM = Traffic(3 * 2 * 8192**2, 2 * 8192**3, "bfloat16")

traffics = st.builds(
    Traffic, st.integers(1, 1 << 34), st.integers(0, 1 << 44), st.sampled_from(["float32", "bfloat16"])
)
resources = st.builds(
    Resources, st.integers(16, 128), st.integers(0, 512), st.integers(0, 48 * 1024), st.sampled_from([64, 128, 256]),
    st.sampled_from([PLAIN.instructions, MATRIX.instructions]),
)  # fmt: skip
launches = st.builds(Launch, resources, st.integers(1, 1 << 20))
targets = st.sampled_from(sorted(CATALOGUE)).map(target)


def time_us(traffic: Traffic, launch: Launch, name: str = "nvidia-h200") -> float:
    outcome = model(traffic, [launch], target(name))
    assert outcome.status is Status.OK and not outcome.measured and outcome.measurement is not None
    return outcome.measurement.median_us


@given(traffics, launches, targets)
def test_never_below_the_roofline_and_deterministic(traffic: Traffic, launch: Launch, device: object) -> None:
    assert isinstance(device, type(H200))
    parts = estimate(traffic, [launch], device)
    assert parts.total_us >= roofline_us(traffic, device) > 0
    assert parts == estimate(traffic, [launch], device)


@given(traffics, launches, st.integers(1, 1 << 30))
def test_more_work_takes_no_less_time(traffic: Traffic, launch: Launch, more: int) -> None:
    here = time_us(traffic, launch)
    assert time_us(replace(traffic, bytes=traffic.bytes + more), launch) >= here
    assert time_us(replace(traffic, flops=traffic.flops + more), launch) >= here
    spilling = replace(launch.resources, spills=launch.resources.spills + 8)
    assert time_us(traffic, replace(launch, resources=spilling)) >= here


@given(traffics, resources, st.integers(1, 131))
def test_fewer_blocks_than_sms_leave_sms_idle(traffic: Traffic, facts: Resources, blocks: int) -> None:
    assert time_us(traffic, Launch(facts, blocks)) > time_us(traffic, Launch(facts, 132))


def test_a_copy_on_an_h200_is_within_reach_of_the_bandwidth() -> None:
    assert 224 < time_us(COPY, Launch(PLAIN, 1 << 18)) < 300
    assert time_us(COPY, Launch(PLAIN, 1)) > 50 * time_us(COPY, Launch(PLAIN, 132 * 16))


def test_a_last_wave_that_is_nearly_empty_costs() -> None:
    slots = 132  # registers let an SM hold one block of MATRIX
    full = time_us(GEMM, Launch(MATRIX, 2 * slots))
    assert time_us(GEMM, Launch(MATRIX, 2 * slots + 1)) > 1.3 * full


def test_matrix_instructions_are_an_order_faster() -> None:
    with_unit = time_us(GEMM, Launch(MATRIX, 4096))
    without = time_us(GEMM, Launch(replace(MATRIX, instructions=PLAIN.instructions), 4096))
    assert without > 5 * with_unit
    assert 1100 < with_unit < 2500


def test_spills_cost_and_a_second_launch_costs() -> None:
    spilling = replace(PLAIN, spills=256)
    assert time_us(COPY, Launch(spilling, 1 << 18)) > 2 * time_us(COPY, Launch(PLAIN, 1 << 18))
    tiny = Traffic(1024, 0, "float32")
    one, two = (estimate(tiny, [Launch(PLAIN, 132)] * n, H200).total_us for n in (1, 2))
    assert two > 1.5 * one


def test_a_block_that_does_not_fit_is_invalid() -> None:
    outcome = model(COPY, [Launch(replace(PLAIN, shared=1 << 20), 132)], H200)
    assert outcome.status is Status.INVALID_STATIC and "1048576 bytes" in outcome.error_digest


@pytest.mark.parametrize(("faster", "slower"), [("nvidia-b200", "nvidia-h200"), ("nvidia-h200", "nvidia-a100")])
def test_newer_devices_are_modelled_faster(faster: str, slower: str) -> None:
    assert time_us(COPY, Launch(PLAIN, 1 << 18), faster) < time_us(COPY, Launch(PLAIN, 1 << 18), slower)
