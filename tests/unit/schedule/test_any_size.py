"""Variants for any size of warp-specialised rows: their schedules run on values at sizes that nothing was traced from,
they are tried before the pipelined ones, and each compiles without a spilled register."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import torch
from tile_testing.compiler_gallery import kernel
from tile_testing.runs.any_size import ROWS, row
from tile_testing.runs.scheduled import COPIED, Frame, Scheduled, StandIn

from examples.attention import LOG2_E
from tileflow.emit.source import TritonSource
from tileflow.measure.check import check_call, make_reference
from tileflow.portable import portable_sources
from tileflow.target import target

H200 = target("nvidia-h200")


def _delta(frame: Frame) -> None:
    frame["delta"].copy_((frame["out"].float() * frame["grad_out"].float()).sum(-1))
    frame["lse2"].copy_(frame["lse"] * LOG2_E)


def _gradients_of_keys(frame: Frame) -> None:
    """By torch: the launch of the queries reads none of them."""
    q, k, v, grad_out = (frame[name].float() for name in ("q", "k", "v", "grad_out"))
    scores = q @ k.mT * frame["scale"] * LOG2_E
    if frame["causal"]:
        scores = scores.masked_fill(torch.ones(q.size(-2), k.size(-2)).triu(1).bool(), -torch.inf)
    weights = torch.exp2(scores - frame["lse2"][..., None])
    inner = weights * (grad_out @ v.mT - frame["delta"][..., None])
    frame["grad_v"].copy_(weights.mT @ grad_out)
    frame["grad_k"].copy_(inner.mT @ q * frame["scale"])


def _delta_and_zeros(frame: Frame) -> None:
    _delta(frame)
    frame["sum_q"].zero_()


def _rounded(frame: Frame) -> None:
    frame["grad_q"].copy_(frame["sum_q"] * frame["scale"])


STAND_INS: dict[str, Mapping[int, StandIn]] = {
    "gradients": {0: _delta, 1: _gradients_of_keys},
    "fused_gradients": {0: _delta_and_zeros, 2: _rounded},
}
SCHEDULED = {"gradients": 2, "fused_gradients": 1}  # the launch that is warp-specialised, where it is not the first
# bytes a thread that are spilled where masks of open sizes meet three sums in registers, or a diagonal's two branches
MOST_SPILLS = {"fused_gradients": 224, "causal": 8}


@pytest.mark.parametrize("name", ROWS)
def test_schedules_at_unseen_sizes(name: str) -> None:
    reference, _, calls = ROWS[name]
    subject = kernel(reference)
    lowered, config = row(name, H200)
    launch = SCHEDULED.get(name, 0)
    for problem in calls:
        torch.manual_seed(0)
        args = subject.inputs(**problem)
        context = Scheduled(subject, lowered, config, STAND_INS.get(name, {}))
        verdict = check_call(context, args, make_reference(subject.reference, args))
        assert verdict.ok, f"{problem}: {verdict.reason}"
        assert [s.language for s in context.taken if s.region == launch] == ["gluon"], problem


@pytest.mark.parametrize("name", ["product", "epilogue", "batched", "fp8", "gated", "gated_dealt", "residual"])
def test_copies_at_unseen_sizes(name: str) -> None:
    """Of an example with boxes the variant whose operands are copied, at the same sizes and at odd ones."""
    reference, _, calls = ROWS[name]
    subject, (lowered, _) = kernel(reference), row(name, H200)
    config, worth = lowered.default_copied
    assert list(worth) == [0]
    context = Scheduled(subject, lowered, config, {})
    context.sources = lowered.emit(config, (COPIED,))
    for problem in (*calls, {**calls[-1], "m": 131, "n": 133, "k": 37}):
        torch.manual_seed(0)
        args = subject.inputs(**problem)
        verdict = check_call(context, args, make_reference(subject.reference, args))
        assert verdict.ok, f"{problem}: {verdict.reason}"
    assert all(is_copying(source) for source in context.taken)


@pytest.mark.parametrize("name", ROWS)
def test_the_order_of_variants(name: str) -> None:
    """Warp-specialised, then pipelined by boxes, both in 32 bits; then those that copy operands of an example with
    boxes, those without, and those in 64 bits."""
    lowered, config = row(name, H200)
    for region in {s.region for s in lowered.emit(config) if s.language == "gluon"}:
        ranks = [_rank(s) for s in portable_sources(lowered, config) if s.region == region]
        assert ranks == sorted(ranks)
        assert {0, 1, 4} <= set(ranks)


def is_copying(source: TritonSource) -> bool:
    return any(a.tensor_map is not None and len(a.tensor_map.copied) > 0 for a in source.args)


def _rank(source: TritonSource) -> int:
    is_wide = all(a.type == "i64" for a in source.args if a.kind == "int")
    if source.language == "gluon":
        assert not is_wide
        return 2 if is_copying(source) else 0
    if is_wide:
        return 4
    by_boxes = any(a.kind == "descriptor" for a in source.args) or any(
        a.divisible_by_16 for a in source.args if a.kind == "int"
    )
    return 1 if by_boxes else 3


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("tileflow")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ROWS)
def test_variants_compile_without_spills(name: str) -> None:
    from tileflow.build.compile import build

    lowered, config = row(name, H200)
    found = [s for s in portable_sources(lowered, config) if s.language == "gluon"]
    assert found
    for source in found:
        resources = build(source, H200).resources
        assert resources.spills <= MOST_SPILLS.get(name, 0), (source.name, resources)
        assert resources.shared <= H200.smem_per_block
