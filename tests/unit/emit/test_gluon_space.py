"""Whatever config a space holds valid, its warp-specialised kernel is written: constraints say what emission asks."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tile_testing.compiler_gallery import GALLERY, kernel
from tile_testing.runs.gallery_cells import GalleryJob, jobs
from tile_testing.tiers import every_other

from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.space.knobs import SCHEDULE
from tileflow.target import target

H200 = target("nvidia-h200")
SPECIALISED = (
    "examples.attention:attention", "examples.attention:attention_backward",
    "examples.attention:attention_backward_fused", "examples.attention:attention_scored", "examples.bmm:bmm",
    "examples.bmm:bmm_small",
    "examples.fp8_matmul:fp8_matmul", "examples.gated_matmul:gated_matmul", "examples.grouped_matmul:grouped_matmul",
    "examples.grouped_matmul:grouped_matmul_flat", "examples.int4_matmul:int4_matmul", "examples.matmul:matmul",
    "examples.matmul:matmul_epilogue", "examples.matmul_layer_norm:matmul_layer_norm",
    "examples.mixed_matmul:mixed_matmul", "examples.split_k:split_k_matmul",
)  # fmt: skip
DRAWN, KEPT = 60, 4


def specialised(lowered: Lowered) -> Iterator[Config]:
    """Random valid configs with warp-specialised launches."""
    rng, names = random.Random(0), [k.name for k in lowered.space.knobs if SCHEDULE.matches(k.name)]
    for _ in range(DRAWN if names else 0):
        drawn = lowered.space.sample(rng).with_(dict.fromkeys(names, "warp_specialised"))
        config = lowered.space.repair(drawn)
        if "warp_specialised" in {config.to_dict().get(n) for n in names}:
            yield config


def lowered_jobs(name: str) -> Iterator[Lowered]:
    """Each call of the gallery's that is tried on a GPU, once for its sizes, dtypes and layouts."""
    seen = set()
    for job in jobs(name):
        assert isinstance(job, GalleryJob)
        case = job.case
        if (key := (case.sizes, case.dtype, case.mode, case.layout)) not in seen:
            seen.add(key)
            yield kernel(name).lower(job.arguments("cpu"), H200, mode=case.mode)


@pytest.mark.parametrize("name", every_other(SPECIALISED))
def test_every_valid_config_is_written(name: str) -> None:
    """Splits of the inner dimension in packed products were valid, and refused once they were written."""
    written = 0
    for lowered in lowered_jobs(name):
        for _, config in zip(range(KEPT), specialised(lowered), strict=False):
            assert lowered.emit(config)
            written += 1
    assert written


@pytest.mark.slow
def test_no_kernel_of_the_gallery_is_left_out() -> None:
    found = set()
    for name in GALLERY:
        knobs = {k.name for lowered in lowered_jobs(name) for k in lowered.space.knobs}
        if any(map(SCHEDULE.matches, knobs)):
            found.add(name)
    assert found == set(SPECIALISED)
