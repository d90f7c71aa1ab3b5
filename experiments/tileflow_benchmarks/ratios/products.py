"""The two schedules of products beside torch's own product, checked and timed in one run: of plain ones, of ragged
groups, of ones whose inner dimension is in parts, and of ones with a gate or a residual.

It shows what a warp-specialised kernel gains before any default uses it. Packed weights are beside torch's product as
torch.compile has it.

    python -m tileflow_benchmarks.ratios.products --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.products --out DIR --dry-run                     builds only, without one

All configs are built first, several at a time, into Triton's cache. One process then checks and times them. It reports
which config it is about to run, since a protocol fault is a deadlock: that config is recorded with ``bench_timeout``,
and another process continues without it. Within a case all configs and torch are timed in turns, in a new order each
round.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.timing import DeviceSampler
from tileflow.target import Target, target

from .command import Comparison, device_of
from .divided_cases import CASES as DIVIDED
from .divided_cases import Configs, DividedCase, GroupedCase
from .followed_cases import CASES as FOLLOWED
from .followed_cases import FollowedCase
from .in_turns import medians
from .watched import Job, say_about, say_begins, say_found

_ROUNDS = 16
_TORCH = "torch"
Shape = tuple[int, int, int, int, bool, int, int]
# by name: rows and columns of a tile, stages, consumer groups, whether they have tiles of their own, tiles in a band,
# and how many times 128 bytes a turn sums over
_WIDE: Mapping[str, Shape] = {
    "128x256, rows shared, bands of 8": (128, 256, 4, 2, False, 8, 1),
    "128x256, rows shared, bands of 16": (128, 256, 4, 2, False, 16, 1),
    "128x256, rows shared, bands of 16, twice the depth": (128, 256, 2, 2, False, 16, 2),
    "256x128, rows shared, bands of 8": (256, 128, 4, 2, False, 8, 1),
    "128x128, ping-pong, bands of 2": (128, 128, 6, 2, True, 2, 1),
    "128x128, ping-pong, bands of 4": (128, 128, 6, 2, True, 4, 1),
    "128x128, ping-pong, bands of 8": (128, 128, 6, 2, True, 8, 1),
    "128x128, ping-pong, bands of 8, twice the depth": (128, 128, 3, 2, True, 8, 2),
}
_ALONE: Mapping[str, Shape] = {
    "64x64 alone": (64, 64, 6, 1, False, 1, 1),
    "64x64 alone, twice the depth": (64, 64, 6, 1, False, 1, 2),
    "64x64 alone, twice the depth, 4 stages": (64, 64, 4, 1, False, 1, 2),
    "64x128 alone, twice the depth": (64, 128, 4, 1, False, 1, 2),
}
# of fewer tiles than multiprocessors: larger ones leave some idle and read less
_SMALL: Mapping[str, Shape] = {
    "64x128 alone": (64, 128, 6, 1, False, 4, 1),
    "64x128 alone, twice the depth": (64, 128, 4, 1, False, 4, 2),
    "128x128, rows shared": (128, 128, 6, 2, False, 4, 1),
    "64x256 alone": (64, 256, 4, 1, False, 4, 1),
    "128x256, rows shared": (128, 256, 4, 2, False, 4, 1),
}
# the same of the pipelined schedule: what differs from its default
_SMALL_PIPELINED: Configs = {
    "pipelined, 128x128": {
        "block:tile_m": 128,
        "block:tile_n": 128,
        "num_warps": 8,
        "num_stages": 4,
        "block:tile_k": 64,
    },
    "pipelined, 128x128, 6 stages": {
        "block:tile_m": 128,
        "block:tile_n": 128,
        "num_warps": 8,
        "num_stages": 6,
        "block:tile_k": 64,
    },
    "pipelined, 64x128, 6 stages": {
        "block:tile_m": 64,
        "block:tile_n": 128,
        "num_warps": 4,
        "num_stages": 6,
        "block:tile_k": 64,
    },
    "pipelined, 128x64, 6 stages": {
        "block:tile_m": 128,
        "block:tile_n": 64,
        "num_warps": 4,
        "num_stages": 6,
        "block:tile_k": 64,
    },
}
_FEW = 1024  # rows and columns of a product whose tiles are fewer than multiprocessors
# of packed weights: rows of x and columns of weights of a tile, bytes of a column in a turn, stages, consumer groups,
# whether they have tiles of their own, tiles in a band, parts of the inner dimension
Packed = tuple[int, int, int, int, int, bool, int, int]
_WIDE_PACKED: Mapping[str, Packed] = {
    "256x128, columns shared, bands of 8": (256, 128, 32, 4, 2, False, 8, 1),
    "256x128, columns shared, bands of 16": (256, 128, 32, 4, 2, False, 16, 1),
    "256x128, columns shared, bands of 8, twice the depth": (256, 128, 64, 2, 2, False, 8, 1),
    "128x256, columns shared, bands of 8": (128, 256, 32, 4, 2, False, 8, 1),
    "128x128, ping-pong, bands of 8": (128, 128, 32, 6, 2, True, 8, 1),
    "128x128, ping-pong, bands of 16": (128, 128, 32, 6, 2, True, 16, 1),
}
_ALONE_PACKED: Mapping[str, Packed] = {
    "64x64 alone": (64, 64, 64, 6, 1, False, 1, 1),
    "64x64 alone, half the depth": (64, 64, 32, 6, 1, False, 1, 1),
    "64x64 alone, 2 parts": (64, 64, 64, 4, 1, False, 1, 2),
    "64x128, columns shared, 2 parts": (64, 128, 64, 6, 2, False, 1, 2),
    "64x128, columns shared, 4 parts": (64, 128, 64, 6, 2, False, 1, 4),
    "64x256, columns shared, 4 parts": (64, 256, 32, 6, 2, False, 1, 4),
}


@dataclass(frozen=True, slots=True)
class ProductCase:
    """One product. ``kernel``: its name; ``turned``: the second operand is a transposed view, as nn.Linear's is."""

    name: str
    kernel: str
    m: int
    n: int
    k: int
    turned: bool = False

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        return load_kernel(self.kernel)

    def args(self, device: str) -> tuple[Any, ...]:
        """Return the kernel's arguments for the case on ``device``."""
        x, y, *others = self.loaded.inputs(m=self.m, n=self.n, k=self.k, device=device)
        return (x, y.T.contiguous().T if self.turned else y, *others)

    @property
    def is_packed(self) -> bool:
        """Whether the second operand is computed of packed bytes."""
        return self.kernel == _PACKED

    @property
    def peer(self) -> Callable[..., Any]:
        """Return what the kernel is timed beside."""
        reference = self.loaded.reference
        assert reference is not None
        if self.is_packed:
            return torch.compile(reference, mode="max-autotune-no-cudagraphs", dynamic=False)
        return reference

    @property
    def flops(self) -> float:
        """The floating-point operations of the product."""
        return 2.0 * self.m * self.n * self.k

    def tried(self) -> Configs:
        """The configs to try, by name."""
        return self._packed() if self.is_packed else self._boxes()

    def pipelined(self) -> Configs:
        """What differs from the pipelined default in further configs of that schedule, by name."""
        return _SMALL_PIPELINED if self._is_small else {}

    @property
    def _is_small(self) -> bool:
        return 64 < max(self.m, self.n) <= _FEW

    def _boxes(self) -> Configs:
        depth = 128 // self.args("meta")[0].element_size()
        shapes = _SMALL if self._is_small else _ALONE if self.m <= 64 else _WIDE
        return {
            name: {
                "schedule": "warp_specialised",
                "block:tile_m": m,
                "block:tile_n": n,
                "block:tile_k": depth * deep,
                "num_stages": stages,
                "consumers": consumers,
                "ping_pong": ping_pong,
                "group": band,
            }
            for name, (m, n, stages, consumers, ping_pong, band, deep) in shapes.items()
        }

    def _packed(self) -> Configs:
        shapes = _ALONE_PACKED if self.m <= 64 else _WIDE_PACKED
        return {
            name: {
                "schedule": "warp_specialised",
                "block:tile_m": m,
                "block:tile_n": n,
                "block:block_k": depth,
                "num_stages": stages,
                "consumers": consumers,
                "ping_pong": ping_pong,
                "group": band,
                "tunable:split_k": parts,
            }
            for name, (m, n, depth, stages, consumers, ping_pong, band, parts) in shapes.items()
        }


_PLAIN, _SCALED = "examples.matmul:matmul", "examples.fp8_matmul:fp8_matmul"
_EPILOGUE, _PACKED = "examples.matmul:matmul_epilogue", "examples.int4_matmul:int4_matmul"
_MIXED = "examples.mixed_matmul:mixed_matmul"
Case = ProductCase | GroupedCase | DividedCase | FollowedCase
CASES: tuple[Case, ...] = (
    ProductCase("4096^3", _PLAIN, 4096, 4096, 4096),
    ProductCase("4096^3 as nn.Linear", _PLAIN, 4096, 4096, 4096, turned=True),
    ProductCase("8192^3", _PLAIN, 8192, 8192, 8192),
    ProductCase("1024x12288x1024", _PLAIN, 1024, 12288, 1024),
    ProductCase("4224x4352x4096", _PLAIN, 4224, 4352, 4096),
    ProductCase("5120x5120x512", _PLAIN, 5120, 5120, 512),
    ProductCase("16384x2048x1024", _PLAIN, 16384, 2048, 1024),
    ProductCase("with an epilogue 8192x4096x1024", _EPILOGUE, 8192, 4096, 1024),
    ProductCase("64x8192x8192", _PLAIN, 64, 8192, 8192),
    ProductCase("1000^3", _PLAIN, 1000, 1000, 1000),
    ProductCase("1000^3 as nn.Linear", _PLAIN, 1000, 1000, 1000, turned=True),
    ProductCase("1024^3", _PLAIN, 1024, 1024, 1024),
    ProductCase("fp8 4096^3", _SCALED, 4096, 4096, 4096),
    ProductCase("fp8 8192^3", _SCALED, 8192, 8192, 8192),
    ProductCase("fp8 64x8192x8192", _SCALED, 64, 8192, 8192),
    ProductCase("int4 4096x8192x7168", _PACKED, 4096, 8192, 7168),
    ProductCase("int4 64x8192x7168", _PACKED, 64, 8192, 7168),
    ProductCase("mixed 4096x8192x4096", _MIXED, 4096, 8192, 4096),
    *DIVIDED,
    *FOLLOWED,
)


def configs(case: Case, lowered: Lowered) -> dict[str, Config]:
    """Return the default, the pipelined one where that is another, and the valid warp-specialised configs by name."""
    found = {"default": lowered.default}
    if lowered.default_pipelined != lowered.default:
        found["pipelined"] = lowered.default_pipelined
    if isinstance(case, ProductCase):
        for name, changes in case.pipelined().items():
            found[name] = lowered.space.repair(lowered.default_pipelined.with_(changes))
    known = {k.name for k in lowered.space.knobs}
    for name, choices in case.tried().items():
        config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
        if "schedule" in known and lowered.space.is_valid(config):
            found[name] = lowered.space.normalise(config)
    return found


def _lowered(case: Case, device: Target) -> Lowered:
    return case.loaded.lower(case.args("meta"), device)


# ---- building ------------------------------------------------------------------------------------------------


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """Build a config and return what its binary takes of the device."""
    case, start = CASES[number], time.monotonic()
    found: dict[str, Any] = {"case": case.name, "config": name, "device": device}
    try:
        lowered = _lowered(case, target(device))
        binary, *_ = [build(source, lowered.target) for source in lowered.emit(configs(case, lowered)[name])]
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}
    taken = binary.resources
    return found | {
        "status": "built",
        "registers": taken.registers,
        "spills": taken.spills,
        "shared": taken.shared,
        "threads": taken.threads,
        "seconds": round(time.monotonic() - start, 1),
    }


# ---- measuring, in a process of its own ----------------------------------------------------------------------


def measure(jobs: list[Job]) -> None:
    """Check the configs, then time each case's in turns. Prints a line per result, and before each config that runs."""
    say_begins("device")
    device = device_of(is_dry=False)
    for number in dict.fromkeys(n for n, _ in jobs):
        case = CASES[number]
        say_begins(case.name)
        args, lowered = case.args("cuda"), _lowered(case, device)
        known, samplers = configs(case, lowered), dict[str, DeviceSampler]()
        reference = make_reference(case.loaded.reference, args)
        for name in (name for n, name in jobs if n == number):
            say_about((number, name))
            call = case.loaded.compile(lowered, known[name], "cuda")
            verdict = check_call(call, args, reference, repeats=3)
            if verdict.ok:
                samplers[name] = DeviceSampler(call, args)
            found = {
                "status": "ok" if verdict.ok else verdict.status.value,
                "max_err": verdict.max_err,
                "reason": verdict.reason,
            }
            say_found((number, name), found)
        say_about((number, _TORCH))
        samplers[_TORCH] = DeviceSampler(case.peer, args)
        times = medians(samplers, _ROUNDS)
        for name in samplers:
            found = {
                "us": times[name],
                "tflops": round(case.flops / times[name] / 1e6, 1),
                "of_torch": round(times[_TORCH] / times[name], 3),
            }
            say_found((number, name), found)


def _is_right(row: Mapping[str, Any]) -> bool:
    return row["status"] in ("ok", "built") and not row.get("spills")


def main() -> int:
    """Run the comparison. Exit code 1 where a config was wrong, hung or spilled."""
    return Comparison(
        "tileflow_benchmarks.ratios.products",
        __doc__,
        CASES,
        lambda number, device: configs(CASES[number], _lowered(CASES[number], device)),
        built,
        measure,
        frozenset({_TORCH}),
        "product_ratio.json",
        seconds=90.0,  # as long as torch.compile may take
        is_right=_is_right,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
