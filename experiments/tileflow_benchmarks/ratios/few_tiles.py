"""Launches of few tiles with long sums, under their default configs, beside torch's: products of few rows and columns,
sums and largest numbers of few rows or columns, and more that is found of whole columns.

    python -m tileflow_benchmarks.ratios.few_tiles --out DIR [--only WORDS]   on a GPU
    python -m tileflow_benchmarks.ratios.few_tiles --out DIR --dry-run        builds only, without one

Results are checked against float64 first. Then the default, the same with one block for each program where it has a
cluster of several (:mod:`tileflow.passes.cluster_loops`), and torch's call are timed in turns in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.measure.timing import DeviceSampler
from tileflow.space.knobs import LOOP_CTAS
from tileflow.target import target

from .command import DefaultsBeside
from .in_turns import medians

_ROUNDS = 12
_DEFAULT, _ALONE = "default", "one block"
_WORST = {torch.float32: 1e-5, torch.bfloat16: 1e-2}  # of the largest value, by float64


@tileflow.kernel
def row_sums(x):  # type: ignore[no-untyped-def]
    """(rows, columns): each row's sum."""
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        total = tfl.zeros([rows])
        for columns in tfl.tile(x.size(1)):
            total += x[rows, columns].float().sum(1)
        out[rows] = total
    return out


@tileflow.kernel
def column_sums(x):  # type: ignore[no-untyped-def]
    """(rows, columns): each column's sum."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        total = tfl.zeros([columns])
        for rows in tfl.tile(x.size(0)):
            total += x[rows, columns].float().sum(0)
        out[columns] = total
    return out


@tileflow.kernel
def whole_row_sums(x):  # type: ignore[no-untyped-def]
    """The same of rows, without a loop."""
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = x[rows, :].float().sum(1)
    return out


@tileflow.kernel
def whole_column_sums(x):  # type: ignore[no-untyped-def]
    """The same of columns, without a loop."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = x[:, columns].float().sum(0)
    return out


@tileflow.kernel
def row_peaks(x):  # type: ignore[no-untyped-def]
    """(rows, columns): each row's largest number."""
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        peak = tfl.full([rows], float("-inf"))
        for columns in tfl.tile(x.size(1)):
            peak = torch.maximum(peak, x[rows, columns].float().amax(1))
        out[rows] = peak
    return out


@tileflow.kernel
def column_peaks(x):  # type: ignore[no-untyped-def]
    """(rows, columns): each column's largest number."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        peak = tfl.full([columns], float("-inf"))
        for rows in tfl.tile(x.size(0)):
            peak = torch.maximum(peak, x[rows, columns].float().amax(0))
        out[columns] = peak
    return out


@tileflow.kernel
def whole_column_peaks(x):  # type: ignore[no-untyped-def]
    """The same of columns, without a loop."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = x[:, columns].float().amax(0)
    return out


@tileflow.kernel
def whole_column_places(x):  # type: ignore[no-untyped-def]
    """(rows, columns): where each column's largest number is."""
    out = torch.empty(x.size(1), dtype=torch.int64, device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = x[:, columns].argmax(0)
    return out


@tileflow.kernel
def whole_column_truths(x):  # type: ignore[no-untyped-def]
    """(rows, columns): whether each column has a number above 4."""
    out = torch.empty(x.size(1), dtype=torch.bool, device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = (x[:, columns] > 4).any(0)
    return out


@tileflow.kernel
def whole_column_logs(x):  # type: ignore[no-untyped-def]
    """(rows, columns): the logarithm of each column's sum of exponentials."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = torch.logsumexp(x[:, columns].float(), 0)
    return out


@tileflow.kernel
def whole_column_variances(x):  # type: ignore[no-untyped-def]
    """(rows, columns): each column's variance."""
    out = torch.empty(x.size(1), device=x.device)
    for columns in tfl.tile(x.size(1)):
        out[columns] = x[:, columns].float().var(0)
    return out


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype is torch.float64 else x.float()


# what torch finds along an axis, by the last word of a kernel's name
_PEERS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "sums": lambda x, axis: x.sum(axis, dtype=_wide(x[:0]).dtype),
    "peaks": lambda x, axis: _wide(x.amax(axis)),
    "places": lambda x, axis: x.argmax(axis),
    "truths": lambda x, axis: (x > 4).any(axis),
    "logs": lambda x, axis: torch.logsumexp(_wide(x), axis),
    "variances": lambda x, axis: _wide(x).var(axis),
}


@dataclass(frozen=True, slots=True)
class FewTiles:
    """One call. ``sizes``: rows, columns and what a product sums over. ``layout``: of a product's operands, as in
    :mod:`.layouts`."""

    kernel: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    layout: str = ""

    @property
    def name(self) -> str:
        """The kernel, the dtype, the layouts and the sizes as text."""
        words = self.kernel.rpartition(":")[2], str(self.dtype).removeprefix("torch."), self.layout
        return " ".join(w for w in (*words, "x".join(map(str, self.sizes))) if w)

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        return load_kernel(self.kernel)

    @property
    def peer(self) -> Callable[..., Any]:
        """Return what the kernel is timed beside."""
        if self.layout:
            return torch.matmul
        name = self.kernel.rpartition(":")[2]
        find, axis = _PEERS[name.rpartition("_")[2]], int("row_" in name)
        return lambda x: find(x, axis)

    def args(self, device: str) -> tuple[torch.Tensor, ...]:
        """Return random arguments on ``device``."""

        def matrix(rows: int, columns: int, turned: bool = False) -> torch.Tensor:
            shape = (columns, rows) if turned else (rows, columns)
            made = torch.randn(shape, dtype=self.dtype, device=device)
            return made.t() if turned else made

        if not self.layout:
            rows, columns = self.sizes
            return (matrix(rows, columns),)
        m, n, k = self.sizes
        return matrix(m, k, self.layout[0] == "T"), matrix(k, n, self.layout[1] == "T")


_PRODUCT, _HERE = "examples.matmul:matmul", "tileflow_benchmarks.ratios.few_tiles:"
_PRODUCTS = (
    *((128, 512, 4096), (256, 256, 8192), (512, 512, 4096), (64, 1024, 4096), (128, 1024, 8192), (16, 1024, 8192)),
    *((96, 1536, 6144), (384, 384, 6000), (48, 2048, 4096), (300, 300, 30000), (512, 64, 16384), (2048, 32, 2048)),
    *((200, 1001, 2049), (641, 640, 5001), (33, 333, 3333), (130, 1030, 4100), (500, 777, 3001)),
)
_LONG = ((8, 1 << 22), (32, 100003), (64, 1 << 16))
_TALL = ((1 << 20, 32), (100000, 256), (8192, 1024), (4096, 3000), (32768, 768), (60000, 10))
_SUMS = [(f"{whole}row_sums", size) for whole in ("", "whole_") for size in _LONG]
_SUMS += [(f"{whole}column_sums", size) for whole in ("", "whole_") for size in _TALL]
_PEAKS = [("row_peaks", size) for size in _LONG]
_PEAKS += [(f"{whole}column_peaks", size) for whole in ("", "whole_") for size in _TALL]
_FOUND = [(f"whole_column_{what}", size) for what in ("places", "truths", "logs", "variances") for size in _TALL]
CASES = (
    *(FewTiles(_PRODUCT, dtype, s, layout) for dtype in _WORST for s in _PRODUCTS for layout in ("NN", "NT", "TN")),
    *(FewTiles(f"{_HERE}{name}", dtype, size) for dtype in _WORST for name, size in (*_SUMS, *_PEAKS)),
    *(
        FewTiles(f"{_HERE}{name}", dtype, size)
        for dtype in _WORST
        for name, size in _FOUND
        if dtype is torch.float32 or not name.endswith("places")  # halves have the largest number in several places
    ),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """Return the default, and the same with one block for each program where it has several."""
    default = lowered.default
    several = {name: 1 for name, choice in default.items if LOOP_CTAS.matches(name) and choice != 1}
    return {_DEFAULT: default} | ({_ALONE: lowered.space.normalise(default.with_(several))} if several else {})


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """Build one config of one case for a device class in this process; Triton's cache keeps it."""
    case = CASES[number]
    lowered = case.loaded.lower(case.args("meta"), target(device))
    config = configs(lowered)[name]
    (binary,) = (build(source, lowered.target) for source in lowered.emit(config)[:1])
    taken = binary.resources
    return {"case": case.name, "config": name, "choices": config.to_dict(), "status": "built", "spills": taken.spills}


def measured(case: FewTiles, device: str) -> dict[str, Any]:
    """Check a case's results, then time them beside torch's. Times in microseconds."""
    args = case.args("cuda")
    wanted = case.peer(*(x.double() for x in args)).double()
    lowered = case.loaded.lower(args, target(device))
    calls = {name: case.loaded.compile(lowered, config, "cuda") for name, config in configs(lowered).items()}
    for name, call in calls.items():
        error = float((call(*args).double() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
        if not error <= _WORST[case.dtype]:
            return {"case": case.name, "config": name, "status": "incorrect", "error": error}
    contenders: dict[str, Callable[..., Any]] = {**calls, "torch": case.peer}
    us = medians({name: DeviceSampler(run, args) for name, run in contenders.items()}, _ROUNDS)
    found = {"us": us, "of_torch": round(us["torch"] / us[_DEFAULT], 3)}
    return {"case": case.name, "status": "ok", "config": str(lowered.default)} | found


def _say(right: list[dict[str, Any]]) -> None:
    for dtype in (str(dtype).removeprefix("torch.") for dtype in _WORST):
        of_dtype = [row for row in right if f" {dtype} " in row["case"]]
        if of_dtype:
            alone = [row["us"]["torch"] / row["us"].get(_ALONE, row["us"][_DEFAULT]) for row in of_dtype]
            now = [row["of_torch"] for row in of_dtype]
            mean = f"{geometric_mean(now):.3f}x of torch's speed in the mean of {len(now)}, at least {min(now)}x"
            print(f"{dtype}: {mean}; by one block each {geometric_mean(alone):.3f}x")


def main() -> int:
    """Run the comparison. Exit code 1 where a result was wrong."""
    return DefaultsBeside(__doc__, CASES, configs, built, measured, "few_tiles.json", _say).main()


if __name__ == "__main__":
    sys.exit(main())
