"""What clusters are worth for softmaxes that are written block by block: few rows, many keys.

    python -m tileflow_benchmarks.clusters.running --out DIR      on a GPU with clusters
    python -m tileflow_benchmarks.clusters.running --only decode  those cases alone
    python -m tileflow_benchmarks.clusters.running --dry-run      compiles only, without a GPU

A case is a kernel and sizes. Each number of blocks that share a program's loop is checked against torch first. What was
right is timed in turns, torch beside it; a star marks what the default config is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.target import Target

from ..ratios.command import device_of
from ..ratios.in_turns import medians

BLOCKS = (1, 2, 4, 8)
LOSSES = ((512, 32000, 256), (1024, 32000, 512), (1024, 32000, 1024), (4096, 32000, 2048), (64, 128256, 2048))
ROUNDS = 9
TOLERANCE = 2e-2  # of bfloat16 results beside torch's, by the largest


@tileflow.kernel
def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of one query for each head, over keys [batch, n, heads, d] that several heads share."""
    b, heads, group, d = q.shape
    out = torch.empty_like(q)
    for i, h in tfl.grid([b, heads]):
        mine = q[i, h, :, :]
        top, total, acc = tfl.full([group], float("-inf")), tfl.zeros([group]), tfl.zeros([group, d])
        for keys in tfl.tile(k.size(1)):
            score = (mine @ k[i, keys, h, :].T).float() * d**-0.5
            new = torch.maximum(top, score.amax(1))
            weight, fade = torch.exp(score - new[:, None]), torch.exp(top - new)
            total = total * fade + weight.sum(1)
            acc = acc * fade[:, None] + weight.to(v.dtype) @ v[i, keys, h, :]
            top = new
        out[i, h, :, :] = (acc / total[:, None]).to(q.dtype)
    return out


@tileflow.kernel
def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of few queries over many keys, one head."""
    m, d = q.shape
    out = torch.empty_like(q)
    for rows in tfl.tile(m):
        top, total, acc = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows, d])
        for keys in tfl.tile(k.size(0)):
            score = (q[rows, :] @ k[keys, :].T).float() * d**-0.5
            new = torch.maximum(top, score.amax(1))
            weight, fade = torch.exp(score - new[:, None]), torch.exp(top - new)
            total = total * fade + weight.sum(1)
            acc = acc * fade[:, None] + weight.to(v.dtype) @ v[keys, :]
            top = new
        out[rows, :] = (acc / total[:, None]).to(q.dtype)
    return out


@tileflow.kernel
def log_sums(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of each row's sum of exponentials."""
    out = x.new_empty(x.size(0), dtype=torch.float32)
    for rows in tfl.tile(x.size(0)):
        top, total = tfl.full([rows], float("-inf")), tfl.zeros([rows])
        for columns in tfl.tile(x.size(1)):
            score = x[rows, columns].float()
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[rows] = top + torch.log(total)
    return out


@tileflow.kernel
def class_losses(x: torch.Tensor, w: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of scores over many classes that are never stored."""
    loss = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        top, total, own = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows])
        for classes in tfl.tile(w.size(0)):
            score = (x[rows, :] @ w[classes, :].T).float()
            own += torch.where(classes.index[None, :] == label[rows][:, None], score, 0).sum(1)
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        loss[rows] = top + torch.log(total) - own
    return loss


def _decoded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads = q.flatten(1, 2)[:, :, None]
    found = scaled_dot_product_attention(heads, k.transpose(1, 2), v.transpose(1, 2), enable_gqa=True)
    return found.view_as(q)


def _losses(x: torch.Tensor, w: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return cross_entropy((x @ w.T).float(), label, reduction="none")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, torch's way, and the shapes of what both take."""

    kernel: Kernel
    torch_way: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.kernel.__name__} {' '.join('x'.join(map(str, shape)) for shape in self.shapes[:2])}"

    def args(self, device: str) -> tuple[torch.Tensor, ...]:
        """Arguments in bfloat16; labels where the kernel has classes."""
        found = tuple(torch.randn(*shape, device=device, dtype=torch.bfloat16) for shape in self.shapes)
        if self.kernel is not class_losses:
            return found
        classes, rows = self.shapes[1][0], self.shapes[0][0]
        return *found, torch.randint(classes, (rows,), device=device)


def _decoding(b: int, heads: int, group: int, d: int, n: int) -> Case:
    return Case(decode, _decoded, ((b, heads, group, d), (b, n, heads, d), (b, n, heads, d)))


CASES = (
    _decoding(1, 8, 4, 128, 8192),
    _decoding(1, 8, 8, 128, 32768),
    _decoding(4, 8, 8, 128, 8192),
    _decoding(8, 8, 4, 128, 4096),
    _decoding(1, 32, 1, 128, 4096),
    _decoding(2, 4, 16, 64, 16384),
    *(
        Case(attend, scaled_dot_product_attention, ((m, d), (n, d), (n, d)))
        for m, n, d in ((64, 16384, 128), (512, 16384, 128), (1024, 4096, 64))
    ),
    *(Case(log_sums, lambda x: torch.logsumexp(x.float(), 1), (shape,)) for shape in ((16, 131072), (4, 1 << 20))),
    *(Case(class_losses, _losses, ((m, d), (n, d))) for m, n, d in LOSSES),
)


def configs(lowered: Lowered) -> Iterator[tuple[str, Config]]:
    """The default, and the pipelined one with each other number of blocks that it allows, by name."""
    (knob,) = (k.name for k in lowered.space.knobs if k.name.startswith("loop:") and k.name.endswith(".ctas"))
    for blocks in BLOCKS:
        if lowered.default[knob] == blocks:
            yield f"{blocks}*", lowered.default
            continue
        config = lowered.space.repair(lowered.default_pipelined.with_({knob: blocks}))
        if config[knob] == blocks:
            yield str(blocks), config


def measured(case: Case, device: Target) -> dict[str, Any]:
    """Check a case, then time it: microseconds by the number of blocks, and torch's."""
    from tileflow.measure.timing import DeviceSampler

    torch.manual_seed(0)
    args = case.args("cuda")
    lowered, expected = case.kernel.lower(args, device), case.torch_way(*args).float()
    calls: dict[str, Callable[..., Any]] = {}
    off: dict[str, float] = {}
    for name, config in configs(lowered):
        calls[name] = case.kernel.compile(lowered, config, "cuda")
        off[name] = float((calls[name](*args).float() - expected).abs().max() / expected.abs().max())
    wrong = {name: share for name, share in off.items() if not share <= TOLERANCE}
    samplers = {name: DeviceSampler(call, args) for name, call in calls.items() if name not in wrong}
    us = medians({**samplers, "torch": DeviceSampler(case.torch_way, args)}, ROUNDS)
    return {"case": case.name, "us": us, "wrong": wrong}


def main() -> int:
    """Check and time every case. Exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    device, rows = device_of(asked.dry_run), []
    for case in (case for case in CASES if asked.only in case.name):
        if asked.dry_run:
            for name, config in configs(case.kernel.lower(case.args("meta"), device)):
                lowered = case.kernel.lower(case.args("meta"), device)
                taken = [build(source, device).resources for source in lowered.emit(config)]
                print(f"{case.name}, {name} blocks: {[r.registers for r in taken]} registers", flush=True)
            continue
        rows.append(measured(case, device))
        print(rows[-1], flush=True)
    if asked.out is not None and rows:
        asked.out.mkdir(parents=True, exist_ok=True)
        found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": rows}
        (asked.out / "running.json").write_text(json.dumps(found, indent=1))
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
