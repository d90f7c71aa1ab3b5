"""What runs in the process that interprets: a kernel under every choice of every knob, against its reference."""

from __future__ import annotations

import torch

from tile_testing.compiler_gallery import kernel, problem
from tile_testing.knob_configs import choices
from tileflow.errors import TileflowError
from tileflow.measure.check import check_call, make_reference
from tileflow.target import target

# the compiler's own affair: neither the text that is interpreted nor the grid has them
UNSEEN = ("num_warps", "num_stages", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "cutlass_name")


def check(name: str, sizes: tuple[int, ...], option: int, device: str) -> tuple[int, list[str]]:
    """How many configs were run, and what is wrong, one line a config."""
    subject = kernel(name)
    args = subject.inputs(device="cpu", **problem(name, sizes, "float32", option))
    reference = make_reference(subject.reference, args)
    lowered = subject.lower(args, target(device))
    runs, wrong = 0, []
    for knob, choice, _, config in choices(lowered):
        if knob.name.partition("@")[0] in UNSEEN or lowered.interpretable(config)[knob.name] != choice:
            continue  # clusters and schedules of warps have executors of their own
        runs += 1
        try:
            verdict = check_call(subject.compile(lowered, config, "cpu"), args, reference)
        except TileflowError:
            raise
        except Exception as error:  # whatever numpy or Triton makes of a wrong source
            wrong.append(f"{knob.name}={choice} under {config}: {type(error).__name__}: {error}")
            continue
        if not verdict.ok:
            wrong.append(f"{knob.name}={choice} under {config}: {verdict.reason}")
    return runs, wrong


def check_first(name: str, device: str, sizes: dict[str, int]) -> str:
    """What is wrong with a kernel under its zero-search config, in float32."""
    subject = kernel(name)
    args = subject.inputs(device="cpu", dtype=torch.float32, **sizes)
    reference = make_reference(subject.reference, args)
    lowered = subject.lower(args, target(device))
    verdict = check_call(subject.compile(lowered, lowered.interpretable(lowered.default), "cpu"), args, reference)
    return "" if verdict.ok else verdict.reason
