"""The calls of the gallery's kernels to try on a GPU: every dtype and layout, odd sizes and a large one, both modes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tileflow
from tile_testing.compiler_gallery import GALLERY, Gallery, kernel
from tile_testing.runs.cells import live_target
from tile_testing.runs.interpreted import Case, arguments
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference

MODES = ("static", "dynamic")
LARGE = (1024, 4096, 512, 16, 4)  # by the order of a kernel's sizes, each brought to what the kernel allows
# Where that is not a size of the kernel's own kind; what its ``fit`` keeps small is for the interpreter's sake.
LARGE_OF: Mapping[str, tuple[int, ...]] = {
    "examples.attention:attention": (1024, 128, 8, 2),
    "examples.attention:attention_backward": (1024, 64, 8, 2),
    "examples.attention:attention_backward_fused": (1024, 64, 16, 2),
    "examples.attention:attention_scored": (1000, 1024, 128, 4, 2),
    "examples.bmm:bmm": (1024, 512, 512, 16),
    "examples.bmm:bmm_small": (48, 40, 72, 4096),
    "examples.jagged:jagged_mean": (900, 512, 64),
    # few agents: one that stands within rounding of a cell's edge leaves its trail in the next cell
    "examples.physarum:move": (1 << 12, 512),
    "examples.rope:rope": (1024, 128, 32, 8, 2),
    "examples.rope:rope_bwd": (1024, 128, 32, 8, 2),
    "examples.split_k:split_k_matmul": (64, 512, 1 << 14),
    "examples.vector_add:vector_add": ((1 << 22) + 3,),
}
# Random configs of each of the two kinds of sizes, half of them in each mode.
ODD_SEEDS, LARGE_SEEDS = 4, 8
# A config of these compiles for long: each is a job of its own, so that none waits for the others of its call.
COMPILES_LONG = ("examples.attention:attention_backward", "examples.attention:attention_backward_fused")
EAGER_BLOCK = 16


@dataclass(frozen=True, slots=True)
class GalleryJob:
    """A call under the default config, if it ``has_default``, and a random one for each of ``case.seeds``."""

    case: Case
    has_default: bool = True

    @property
    def mode(self) -> str:
        return self.case.mode

    @property
    def subject(self) -> Kernel:
        return kernel(self.case.kernel)

    def arguments(self, device: str) -> tuple[Any, ...]:
        return arguments(self.case, device)

    def configs(self, lowered: Lowered) -> Sequence[Config]:
        drawn = (lowered.space.normalise(lowered.space.sample(random.Random(seed))) for seed in self.case.seeds)
        return tuple(dict.fromkeys((lowered.default, *drawn) if self.has_default else drawn))

    def judge(self, args: tuple[Any, ...], device: str) -> Callable[[Callable[..., Any]], str]:
        reference = make_reference(self.subject.reference, args)
        return lambda call: check_call(call, args, reference).reason

    def __str__(self) -> str:
        case = self.case
        return f"{case.kernel} {case.sizes} {case.dtype} {case.mode} {case.layout} option {case.option}"


def large(name: str, it: Gallery) -> tuple[int, ...]:
    """A problem of the size that the kernel is for."""
    if name in LARGE_OF:
        return LARGE_OF[name]
    names = it.sizes.split()
    return tuple(it.fit.get(n, int)(size) for n, size in zip(names, LARGE, strict=False))


def jobs(name: str) -> Iterator[GalleryJob]:
    """Every call of a kernel that is tried. Options go round, so that each dtype meets others."""
    it = GALLERY[name]
    for way, (dtype, mode) in enumerate((dtype, mode) for dtype in it.dtypes for mode in MODES):
        seeds = iter(range(100 * way, 100 * way + 100))
        counts = [*((sizes, ODD_SEEDS // 2) for sizes in it.rows("odd")), (large(name, it), LARGE_SEEDS // 2)]
        for n, (sizes, count) in enumerate(counts):
            drawn = tuple(next(seeds) for _ in range(count))
            yield from parts(Case(name, sizes, dtype, mode, seeds=drawn, option=n + way))
        for sizes in it.rows("empty"):
            yield GalleryJob(Case(name, sizes, dtype, mode, option=way))
        for n, layout in enumerate(it.layouts):
            for sizes in it.rows("layout"):
                yield GalleryJob(Case(name, sizes, dtype, mode, layout, option=n + way))


def parts(case: Case) -> Iterator[GalleryJob]:
    """The jobs that a call under all its configs is cut into."""
    if case.kernel not in COMPILES_LONG:
        yield GalleryJob(case)
        return
    yield GalleryJob(replace(case, seeds=()))
    yield from (GalleryJob(replace(case, seeds=(seed,)), has_default=False) for seed in case.seeds)


def eager_case(name: str) -> Case:
    """A call of a few tiles, which the eager meaning runs one after another."""
    return Case(name, GALLERY[name].rows("layout")[0], GALLERY[name].dtypes[0])


def check_eagerly(name: str, device: str) -> str:
    """What is wrong with the kernel run as Python on the device; empty where nothing is."""
    subject, args = kernel(name), arguments(eager_case(name), device)
    knobs = subject.lower(args, live_target(device)).space.knobs
    blocks = {k.name: min(k.choices, key=lambda c: abs(c - EAGER_BLOCK)) for k in knobs if k.role == "block"}
    reference = make_reference(subject.reference, args)
    with tileflow.interpret(blocks):
        return check_call(subject, args, reference).reason
