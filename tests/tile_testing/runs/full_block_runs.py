"""What runs in the process that interprets: attention and its gradients, where masks stand in branches."""

from __future__ import annotations

import torch

from examples.attention import attention, attention_backward
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.measure.check import check_call, make_reference
from tileflow.space.knobs import FULL_BLOCKS
from tileflow.target import target

GRADIENTS: dict[str, Choice] = {
    "block:tile_n@1": 64, "block:block_m": 128, "block:tile_m@2": 64, "block:block_n": 128,
}  # fmt: skip
FORWARD: dict[str, Choice] = {"block:tile_m": 64, "block:block_n": 128}


def check(name: str, m: int, causal: bool, mode: str) -> tuple[list[int], list[str]]:
    """How many branches around masks the text of each launch has, and what is wrong with the values."""
    subject: Kernel = attention_backward if name == "gradients" else attention
    torch.manual_seed(0)
    args = subject.inputs(batch=1, heads=1, m=m, d=32, causal=causal, dtype=torch.float32)
    lowered = subject.lower(args, target("nvidia-h200"), mode=mode)
    wanted = dict(GRADIENTS if name == "gradients" else FORWARD)
    wanted |= {k.name: True for k in lowered.space.knobs if FULL_BLOCKS.matches(k.name)}
    config = lowered.space.normalise(lowered.space.repair(lowered.default.with_(wanted)))
    branches = dict[int, int]()  # by region: of several variants, the most
    for source in lowered.emit(config):
        branches[source.region] = max(branches.get(source.region, 0), source.text.count("_keep_branch() +"))
    verdict = check_call(subject.compile(lowered, config, "cpu"), args, make_reference(subject.reference, args))
    return list(branches.values()), [] if verdict.ok else [verdict.reason]
