"""A decode step of the example server: torch's operations, kernels by default configs, and by a bundle's rows.

    python -m examples.serve.benchmark --out FILE [--bundle BUNDLE]     on a GPU: times, in turns in one process
    python -m examples.serve.benchmark --out FILE --dry-run             without one: tiny sizes, values only

Each way is checked against torch's logits before it is timed. `eager, graphs` is what the others are compared with.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from tileflow import runtime

from .cache import PAGE, PagedCache
from .engine import Stepper
from .model import KERNELS, PLAIN, TINY, Batch, Decoder, Parts, Sizes

ROUNDS, STEPS = 15, 20
BASELINE = "eager, graphs"


@dataclass(frozen=True, slots=True)
class Way:
    """``with_bundle``: the rows of --bundle are loaded while its first step looks its kernels' rows up."""

    name: str
    parts: Parts
    is_graphed: bool
    with_bundle: bool = False


WAYS = (
    Way("eager", PLAIN, False),
    Way(BASELINE, PLAIN, True),
    Way("kernels, graphs", KERNELS, True),
    Way("bundle, graphs", KERNELS, True, True),
)


def decode_batch(model: Decoder, size: int, context: int) -> Batch:
    """``size`` sequences of ``context`` tokens, whose pages lie in no order; the table is as wide as they need."""
    pages, device, position = -(-context // PAGE), model.device, context - 1
    table = (torch.randperm(size * pages).view(size, pages) + 1).int()
    return Batch(
        tokens=torch.randint(model.sizes.vocabulary, (size,), device=device),
        positions=torch.full((size,), position, device=device),
        table=table.to(device),
        lengths=torch.full((size,), context, dtype=torch.int32, device=device),
        slots=(table[:, position // PAGE].long() * PAGE + position % PAGE).to(device),
        k=torch.full((size,), min(50, model.sizes.vocabulary), dtype=torch.int32, device=device),
        p=torch.full((size,), 0.9, device=device),
        uniform=torch.rand(size, device=device),
    )


def filled_cache(model: Decoder, size: int, context: int) -> PagedCache:
    """Return a cache of random numbers with pages for ``size`` sequences of ``context`` tokens."""
    cache = PagedCache(model, size * -(-context // PAGE) + 1)
    for each in (cache.keys, cache.values):
        each.normal_()
    return cache


def deviation(model: Decoder, cache: PagedCache, batch: Batch, parts: Parts) -> float:
    """Return the largest difference of the logits from torch's, over the largest of those."""
    wanted = model.logits(batch, cache.keys, cache.values, PLAIN).float()
    found = model.logits(batch, cache.keys, cache.values, parts).float()
    return float((found - wanted).abs().max() / wanted.abs().max())


def step_us(step: Callable[[], Any]) -> float:
    """Return the microseconds of a step, averaged over a run of them."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(STEPS):
        step()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1000 / STEPS


def measured(model: Decoder, size: int, context: int, bundle: Path | None) -> dict[str, Any]:
    """Every way at one size of batch and context, a new order each round."""
    cache = filled_cache(model, size, context)
    batch = decode_batch(model, size, context)
    steppers, errors, served = {}, {}, {}
    for way in WAYS:
        if way.with_bundle and bundle is None:
            continue
        if way.with_bundle:
            runtime.load(bundle)
        before = runtime.stats()
        errors[way.name] = deviation(model, cache, batch, way.parts)
        steppers[way.name] = Stepper(model, cache, way.parts, way.is_graphed)
        steppers[way.name](batch)
        after = runtime.stats()
        served[way.name] = {s: n - before.get(s, 0) for s, n in after.items() if n != before.get(s, 0)}
    found: dict[str, list[float]] = {name: [] for name in steppers}
    shuffled = random.Random(0)
    for _ in range(ROUNDS):
        for name in shuffled.sample(list(steppers), len(steppers)):
            found[name].append(step_us(lambda name=name: steppers[name](batch)))  # type: ignore[misc]
    times = {name: round(median(us), 2) for name, us in found.items()}
    ratios = {name: round(times[BASELINE] / us, 3) for name, us in times.items()}
    if bundle is not None:
        runtime.unload(bundle)
    return {"us": times, f"over {BASELINE}": ratios, "deviation": errors, "served": served}


def rehearsed(size: int, context: int) -> dict[str, Any]:
    """On a CPU at tiny sizes: the kernels' logits beside torch's. No times: they would say nothing."""
    model = Decoder(TINY, "cpu", torch.float32)
    cache = filled_cache(model, size, context)
    return {"deviation": {"kernels": deviation(model, cache, decode_batch(model, size, context), KERNELS)}}


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where a way's logits are not torch's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file for the results, JSON")
    parser.add_argument("--bundle", type=Path, help="a bundle or a directory of tables")
    parser.add_argument("--batches", default="1,8,64", help="sequences in a batch, by commas")
    parser.add_argument("--contexts", default="1024,8192", help="tokens of each, by commas")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on a CPU")
    options = parser.parse_args(arguments)
    cells = [(int(b), int(c)) for b in options.batches.split(",") for c in options.contexts.split(",")]
    model = None if options.dry_run else Decoder(Sizes(), "cuda")
    found = []
    for size, context in [(2, 20)] if model is None else cells:
        with torch.inference_mode():
            result = rehearsed(size, context) if model is None else measured(model, size, context, options.bundle)
        found.append({"batch": size, "context": context, "dry_run": options.dry_run, **result})
        print(json.dumps(found[-1]), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    most = 1e-4 if model is None else 5e-2
    return int(any(error > most for cell in found for error in cell["deviation"].values()))


if __name__ == "__main__":
    sys.exit(main())
