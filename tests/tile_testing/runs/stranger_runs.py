"""The kernels of others in the process that interprets."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from tile_testing.held_dtypes import asserted
from tile_testing.runs.interpreted import cheap_sample
from tile_testing.strangers import ALL
from tileflow.measure.check import check_call, make_reference
from tileflow.target import target

SEEDS = (1, 2)


def check(name: str) -> str:
    """What is wrong with one under its default and under random configs; empty where nothing is."""
    one = ALL[name]
    args = one.arguments()
    lowered = one.kernel.lower(args, target("nvidia-h200"))
    reference = make_reference(one.reference, args)
    wrong = []
    for config in (lowered.default, *(cheap_sample(lowered, seed) for seed in SEEDS)):
        copies = deepcopy(args)  # which keeps strides, also of views with gaps
        with asserted():
            call = one.kernel.compile(lowered, lowered.interpretable(config), "cpu")
        verdict = check_call(call, copies, reference)
        wrong += [] if verdict.ok else [f"{verdict.reason} under {dict(config.items)}"]
    return "\n".join(wrong)


def check_all(names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        try:
            found.append(check(name))
        except Exception as error:  # one wrong kernel must not hide the others
            found.append(f"{type(error).__name__}: {error}")
    return found
