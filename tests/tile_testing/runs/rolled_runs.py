"""Kernels of :mod:`..kernels.rolled_kernels` with each set of their dimensions as loops, in the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from tileflow.errors import ConfigError
from tileflow.measure.check import check_call
from tileflow.measure.check import reference_of as make_reference
from tileflow.target import target

from ..kernels import rolled_kernels

SIZES = {0, 64, 128}  # of dimensions that no author's loop cuts; 0: in one piece


def check(name: str, shape: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """:func:`check_all` of one float32 tensor."""
    return check_all(name, [shape], ["float32"])


def check_all(name: str, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> dict[tuple[int, ...], str]:
    """What is wrong under each choice of the dimensions' knobs that the space has; empty where nothing is. ``dtypes``:
    of the arguments, the last one of all further ones."""
    kernel = getattr(rolled_kernels, name)
    every = (*dtypes, *dtypes[-1:] * len(shapes))
    return _under_each(kernel, tuple(_argument(n, *its) for n, its in enumerate(zip(shapes, every, strict=False))))


def check_kept(name: str, *sizes: int) -> dict[tuple[int, ...], str]:
    """The same of attention to some keys: batches if any, queries, keys."""
    *batches, queries, keys = sizes
    each = [_argument(n, (*batches, size, 32), "bfloat16") for n, size in enumerate((queries, keys, keys))]
    further = {
        "attended_near": (70,),
        "attended_from": (torch.tensor([0, 131, 40], dtype=torch.int32), torch.tensor([1000, 290, 43])),
        "attended_behind": (),
        "attended_before_and_within": (torch.tensor([300, 131, 1]),),
    }
    return _under_each(getattr(rolled_kernels, name), (*each, *further[name]))


def other_sizes(keys: int) -> str:
    """What is wrong with attention to so many keys, by a variant of run-time sizes that was made for more."""
    kernel, made = (
        rolled_kernels.attended,
        [_argument(n, (size, 32), "float32") for n, size in enumerate((20, 300, 300))],
    )
    lowered = kernel.lower(tuple(made), target("nvidia-h200"), mode="dynamic")
    args = made[0], made[1][:keys].contiguous(), made[2][:keys].contiguous()
    return check_call(
        kernel.compile(lowered, lowered.interpretable(lowered.default), "cpu"), args, make_reference(kernel, args)
    ).reason


def check_places(dtype: str) -> dict[tuple[int, ...], str]:
    """The same of places of extrema, in rows of nothing but an infinity, with several NaN, and with many equals."""
    x = _argument(0, (4, 300), dtype)
    if x.is_floating_point():
        x[0] = float("-inf")
        x[1, [7, 200]] = float("nan")
        x[2] = x[2].round()
    else:
        x[0] = torch.iinfo(x.dtype).min
        x[1] = torch.iinfo(x.dtype).max
    return _under_each(rolled_kernels.placed, (x,))


def _argument(seed: int, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    generator, its = torch.Generator().manual_seed(seed), getattr(torch, dtype)
    if its.is_floating_point:
        return torch.randn(shape, generator=generator).to(its)
    return torch.randint(0, 100, shape, generator=generator, dtype=its)


def _under_each(kernel: Any, args: tuple[Any, ...]) -> dict[tuple[int, ...], str]:
    reference = make_reference(kernel, args)
    lowered = kernel.lower(args, target("nvidia-h200"))
    knobs = [k for k in lowered.space.knobs if k.role in ("block", "reduction") and "#" in k.name]
    found = {}
    for wanted in itertools.product(*(k.choices for k in knobs)):
        if not {c for c in wanted if isinstance(c, int)} <= SIZES:
            continue
        try:
            sizes = dict(zip((k.name for k in knobs), wanted, strict=True))
            config = lowered.interpretable(lowered.space.adapt(lowered.default.to_dict() | sizes))
        except ConfigError:
            continue  # too much at once for any choice of the others
        chosen = tuple(int(config[k.name]) for k in knobs)
        if chosen not in found:
            found[chosen] = check_call(kernel.compile(lowered, config, "cpu"), args, reference).reason
    return found


def check_mode(mode: str, name: str, shapes: Sequence[tuple[int, ...]], dtype: str) -> str:
    """What is wrong under the default of a variant whose sizes a launch gives; empty where nothing is."""
    kernel = getattr(rolled_kernels, name)
    args = tuple(_argument(n, shape, dtype) for n, shape in enumerate(shapes))
    lowered = kernel.lower(args, target("nvidia-h200"), mode=mode)
    config = lowered.interpretable(lowered.default)
    return check_call(kernel.compile(lowered, config, "cpu"), args, make_reference(kernel, args)).reason
