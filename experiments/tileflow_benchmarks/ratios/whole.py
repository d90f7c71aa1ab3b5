"""Kernels whose author wrote no loop over what a product sums over, under their default configs, beside torch's calls.

    python -m tileflow_benchmarks.ratios.whole --out DIR [--only WORDS]   on a GPU
    python -m tileflow_benchmarks.ratios.whole --out DIR --dry-run        default configs only, without one

Results are checked against float64 first; then kernel and call are timed in turns in one process. Float32 is without
TF32, as torch has it by default.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tileflow
import tileflow.language as tfl
from tileflow.measure.device import identity
from tileflow.measure.timing import DeviceSampler
from tileflow.target import target

from .command import DRY_DEVICE, chosen
from .in_turns import medians

WINDOW = 1024  # keys
_ROUNDS = 8
_WORST = {"float32": 1e-5, "bfloat16": 2e-2}  # of the largest value, by float64


@tileflow.kernel
def projection(x: Any, w: Any) -> Any:
    """Rows by columns."""
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t, n in tfl.tile([x.size(0), w.size(1)]):
        out[t, n] = x[t, :] @ w[:, n]
    return out


@tileflow.kernel
def layer(x: Any, w: Any) -> Any:
    """Rows by the whole of a matrix."""
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.relu(x[t, :]) @ w[:, :]
    return out


@tileflow.kernel
def batched(x: Any, y: Any) -> Any:
    """Whole matrices of a batch."""
    out = torch.empty(x.size(0), x.size(1), y.size(2), dtype=x.dtype, device=x.device)
    for b in tfl.tile(x.size(0), block_size=1):
        out[b, :, :] = torch.bmm(x[b, :, :], y[b, :, :])
    return out


@tileflow.kernel
def normed(x: Any, w: Any) -> Any:
    """Rows by columns, after a norm of the rows."""
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t, n in tfl.tile([x.size(0), w.size(1)]):
        row = x[t, :].float()
        scaled = row * torch.rsqrt((row * row).mean(-1, keepdim=True) + 1e-6)
        out[t, n] = scaled.to(x.dtype) @ w[:, n]
    return out


@tileflow.kernel
def attended(q: Any, k: Any, v: Any) -> Any:
    """Attention to all keys at once."""
    out = torch.empty_like(q)
    for b, t in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        scores = torch.softmax((q[b.begin, t, :] @ k[b.begin, :, :].T).float() * 0.1, -1)
        out[b.begin, t, :] = scores.to(v.dtype) @ v[b.begin, :, :]
    return out


@tileflow.kernel
def attended_before(q: Any, k: Any, v: Any) -> Any:
    """Attention to the keys up to each query's own."""
    out = torch.empty_like(q)
    for b, t in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        scores = (q[b.begin, t, :] @ k[b.begin, :, :].T).float() * 0.1
        is_before = t.index[:, None] >= tfl.arange(k.size(1))[None, :]
        shares = torch.softmax(torch.where(is_before, scores, float("-inf")), -1)
        out[b.begin, t, :] = shares.to(v.dtype) @ v[b.begin, :, :]
    return out


@tileflow.kernel
def attended_near(q: Any, k: Any, v: Any) -> Any:
    """Attention to the WINDOW keys up to each query's own."""
    out = torch.empty_like(q)
    for b, t in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        scores = (q[b.begin, t, :] @ k[b.begin, :, :].T).float() * 0.1
        ago = t.index[:, None] - tfl.arange(k.size(1))[None, :]
        shares = torch.softmax(scores.masked_fill((ago < 0) | (ago >= WINDOW), float("-inf")), -1)
        out[b.begin, t, :] = shares.to(v.dtype) @ v[b.begin, :, :]
    return out


@tileflow.kernel
def best_word(x: Any) -> Any:
    """The place of the largest of each row."""
    out = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t] = x[t, :].argmax(-1)
    return out


@tileflow.kernel
def pooled(x: Any) -> Any:
    """The mean of each square."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t] = x[t, :, :].mean((1, 2))
    return out


def _normed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x.float(), (x.size(1),), eps=1e-6).to(x.dtype) @ w


def _by_torch(ago: range | None) -> Callable[..., torch.Tensor]:
    """Attention to the keys as far back from each query's own as ``ago`` has it, all if None, by the fastest of torch's
    calls that can do it; in float64 as it is written down."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if q.dtype is torch.float64:
            return _written(q, k, v, ago)
        one_head = q[:, None], k[:, None], v[:, None]
        if ago is None or ago.stop >= q.size(1):
            return F.scaled_dot_product_attention(*one_head, scale=0.1, is_causal=ago is not None)[:, 0]
        mask = _blocks(q.size(1), ago.stop)
        return _flex()(*one_head, block_mask=mask, scale=0.1)[:, 0]  # type: ignore[no-any-return]

    return attend


def _written(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ago: range | None) -> torch.Tensor:
    scores = (q @ k.mT).mul_(0.1)
    if ago is not None:
        kept = torch.ones(q.size(1), k.size(1), dtype=torch.bool, device=q.device).tril().triu(1 - ago.stop)
        scores.masked_fill_(~kept, float("-inf"))
    return torch.softmax(scores, -1) @ v


@functools.cache
def _flex() -> Any:
    return torch.compile(flex_attention)


@functools.cache
def _blocks(length: int, window: int) -> Any:
    """Which blocks of keys a window has, found once, as a model does."""

    def is_near(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return (query >= key) & (query - key < window)

    return create_block_mask(is_near, 1, 1, length, length, device="cuda")


def _squares(x: torch.Tensor) -> torch.Tensor:
    return x.mean((1, 2))


CALLS: dict[str, tuple[Any, Callable[..., torch.Tensor]]] = {
    "projection": (projection, torch.matmul),
    "layer": (layer, lambda x, w: torch.relu(x) @ w),
    "batched": (batched, torch.bmm),
    "normed": (normed, _normed),
    "attended": (attended, _by_torch(None)),
    "attended_before": (attended_before, _by_torch(range(2**31))),
    "attended_near": (attended_near, _by_torch(range(WINDOW))),
    "best_word": (best_word, lambda x: x.argmax(-1)),
    "pooled": (pooled, _squares),
}


@dataclass(frozen=True, slots=True)
class WholeCase:
    """One call. ``shapes``: of the arguments."""

    call: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The call, the dtype and the sizes as text."""
        return f"{self.call} {self.dtype} {' '.join('x'.join(map(str, shape)) for shape in self.shapes)}"

    def args(self, device: str) -> tuple[torch.Tensor, ...]:
        """Return random arguments; matrices after the first are smaller, so that sums stay near 1."""
        made = (torch.randn(shape, device=device) for shape in self.shapes)
        return tuple((x * 0.1 if n else x).to(getattr(torch, self.dtype)) for n, x in enumerate(made))


def _products(call: str, sizes: tuple[tuple[int, int], ...]) -> list[WholeCase]:
    return [WholeCase(call, dtype, ((4096, k), (k, n))) for dtype in _WORST for k, n in sizes]


CASES = (
    *_products("projection", ((512, 2048), (4096, 4096), (14336, 4096), (3000, 1111))),
    *_products("layer", ((512, 1024), (1024, 1024), (4096, 1024))),
    *(
        WholeCase("batched", dtype, ((64, m, k), (64, k, n)))
        for dtype in _WORST
        for m, k, n in ((256, 256, 256), (512, 1024, 512))
    ),
    *(WholeCase("normed", "bfloat16", ((4096, k), (k, n))) for k, n in ((512, 2048), (4096, 14336))),
    *(WholeCase("attended", "bfloat16", ((32, s, d),) * 3) for s, d in ((1024, 64), (4096, 128))),
    *(WholeCase("attended_before", "bfloat16", ((32, s, d),) * 3) for s, d in ((1024, 64), (4096, 128))),
    *(WholeCase("attended_near", "bfloat16", ((16, s, d),) * 3) for s, d in ((8192, 128), (16384, 128), (16384, 64))),
    WholeCase("best_word", "bfloat16", ((64, 128256),)),
    *(WholeCase("pooled", "float32", ((512, n, n),)) for n in (224, 1024)),
)


def measured(case: WholeCase) -> dict[str, Any]:
    """Check a case's result, then time it beside torch's."""
    torch.manual_seed(0)
    args, (kernel, call) = case.args("cuda"), CALLS[case.call]
    wanted = call(*(x.double() for x in args)).double()
    errors = {
        name: float((run(*args).double() - wanted).abs().max() / wanted.abs().max())
        for name, run in (("ours", kernel), ("torch", call))
    }
    if not errors["ours"] <= _WORST[case.dtype]:
        return {"status": "incorrect", "errors": errors}
    us = medians({"ours": DeviceSampler(kernel, args), "torch": DeviceSampler(call, args)}, _ROUNDS)
    return {"status": "ok", "errors": errors, "us": us, "of_torch": round(us["torch"] / us["ours"], 3)}


def main() -> int:
    """Run the comparison. Exit code 1 where a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for whole_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--dry-run", action="store_true", help=f"first configs for {DRY_DEVICE}; needs no GPU")
    options = parser.parse_args()
    device = DRY_DEVICE if options.dry_run else identity().device_class
    found: dict[str, dict[str, Any]] = {}
    for case in (CASES[number] for number in chosen(CASES, options.only)):
        lowered = CALLS[case.call][0].lower(case.args("meta"), target(device))
        found[case.name] = {"config": lowered.default.to_dict()}
        found[case.name] |= {"status": "lowered"} if options.dry_run else measured(case)
        print(case.name, {n: v for n, v in found[case.name].items() if n != "config"}, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    said = {"device": device, "torch": torch.__version__, "cases": found}
    (options.out / "whole_ratio.json").write_text(json.dumps(said, indent=1))
    return int(any(row["status"] == "incorrect" for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
