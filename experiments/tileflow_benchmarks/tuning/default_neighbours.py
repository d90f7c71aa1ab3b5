"""The configs one step from a kernel's default beside it, timed in turns: which knob a rule of the default has wrong.

    python -m tileflow_benchmarks.tuning.default_neighbours --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.tuning.default_neighbours --out DIR --dry-run [--only WORDS]       builds only

It runs from the repository's root, over the kernels of ``tests/tile_testing/strangers`` (:mod:`.unseen_kernels`). A
step is half or twice the warps, a neighbouring size of a block with the same warps or the same elements a lane, other
stages, a limit of registers, or programs that walk. A search of seconds finds the best of many knobs for a few kernels;
this tells for many kernels which single knob is off. DIR/default_neighbours.json has a row per config, with its time
over that of the config that a call runs: where the default spills that may be another one, ``settled``
(:mod:`tileflow.settled`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileflow.build.compile import build
from tileflow.config import Choice, Config, Knob
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.timing import DeviceSampler
from tileflow.settled import settled_default
from tileflow.space.knobs import MAXNREG, NUM_STAGES, NUM_WARPS, PERSISTENT
from tileflow.space.names import region_of
from tileflow.target import Target, target

from ..ratios.command import Comparison, build_row, measure_each
from ..ratios.in_turns import medians
from ..ratios.watched import Job, say_about, say_found
from .unseen_kernels import load_kernels

DEFAULT = "default"
SETTLED = "settled"
_ROUNDS = 7
_SLOW = 3.0  # times the default's time from which on a neighbour is timed once
_MOST_LAUNCHES = 3
_WARPS = (0.5, 2, 0.25)
_BLOCKS = ((-1, 1.0), (1, 1.0), (-1, 0.5), (1, 2.0), (1, 0.5), (-2, 0.25))  # steps of a size, times the warps
Change = Mapping[str, Choice]


@dataclass(frozen=True, slots=True)
class StrangerCase:
    """A kernel of others with its large call."""

    name: str

    def lowered(self, device: Target) -> Lowered:
        """The call, lowered without a GPU, of the shapes that it has on any device."""
        one = load_kernels()[self.name]
        try:
            args = one.arguments("large", "cpu" if one.is_sized_by_values else "meta")
        except (NotImplementedError, RuntimeError):  # inputs that are made from values
            args = one.arguments("large", "cpu")
        lowered: Lowered = one.kernel.lower(args, device)
        return lowered


CASES = tuple(StrangerCase(name) for name in sorted(load_kernels()))


def neighbours(lowered: Lowered) -> dict[str, Config]:
    """Return the default and the valid configs one step from it, by what they change."""
    found = {DEFAULT: lowered.default}
    for region in range(min(len(lowered.regions), _MOST_LAUNCHES)):
        for change in _changes(lowered, region):
            try:
                near = lowered.space.normalise(lowered.default.with_(change))
            except TileflowError:
                continue
            if lowered.space.is_valid(near) and near not in found.values():
                found[", ".join(f"{knob}={choice}" for knob, choice in change.items())] = near
    return found


def _changes(lowered: Lowered, region: int) -> Iterator[Change]:
    default, own = lowered.default, [k for k in lowered.space.knobs if region_of(k.name) == region]
    if not own:  # a launch that shares another one's knobs, as each turn of a loop in host code does
        return
    warps = next(k for k in own if NUM_WARPS.matches(k.name))
    blocks = [k for k in own if k.role == "block" and _number(default, k) and k.name in default.to_dict()]
    for factor in _WARPS:
        yield from _times(default, warps, factor)
    for block in sorted(blocks, key=lambda k: -_number(default, k))[:2]:
        for steps, factor in _BLOCKS:
            for more in _times(default, warps, factor) if factor != 1 else [{}]:
                yield from ({block.name: size, **more} for size in _stepped(default, block, steps))
    for knob, choices in ((NUM_STAGES, (1, 2, 4)), (MAXNREG, (64, 128)), (PERSISTENT, (0, 8))):
        for found in (k for k in own if knob.matches(k.name)):
            yield from ({found.name: choice} for choice in choices if choice in found.choices)


def _number(config: Config, knob: Knob) -> int:
    choice = config[knob.name]
    return choice if isinstance(choice, int) else 0


def _times(config: Config, warps: Knob, factor: float) -> Sequence[Change]:
    count = int(_number(config, warps) * factor)
    return [{warps.name: count}] if count in warps.choices else []


def _stepped(config: Config, block: Knob, steps: int) -> list[int]:
    """The size so many choices further; none where there are none."""
    sizes = sorted(choice for choice in block.choices if isinstance(choice, int))
    place = sizes.index(_number(config, block)) + steps if _number(config, block) in sizes else -1
    return [sizes[place]] if 0 <= place < len(sizes) else []


@functools.lru_cache(maxsize=4)
def _known(number: int, device: str) -> tuple[Lowered, Mapping[str, Config]]:
    lowered = CASES[number].lowered(target(device))
    return lowered, neighbours(lowered)


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """Build a config and return what its launches' binaries take of the device."""

    def lower() -> tuple[Lowered, Config]:
        lowered, configs = _known(number, device)
        return lowered, configs[name]

    return build_row(CASES[number].name, name, device, lower)


def measure(jobs: list[Job]) -> None:
    """Time each kernel's configs in turns. Values are not checked: :mod:`.unseen_kernels` does that."""
    measure_each(jobs, CASES, _measure_case)


def _measure_case(number: int, names: list[str], device: Target) -> None:
    say_about((number, DEFAULT))  # inputs that cannot be made are a fault of all configs
    one = load_kernels()[CASES[number].name]
    args = one.arguments_as_here("cuda")
    lowered, configs = _known(number, device.name)
    settled = settled_default(lowered, one.kernel.semantic_hash, lambda source: build(source, lowered.target).resources)
    called = next((name for name in names if configs[name] == settled), SETTLED)
    configs = {**configs, called: settled}
    time_beside(
        number,
        list(dict.fromkeys([called, *names])),
        lambda name: one.kernel.compile(lowered, configs[name], "cuda"),
        args,
    )


def time_beside(
    number: int, names: Sequence[str], call_of: Callable[[str], Callable[..., Any]], args: Sequence[Any]
) -> None:
    """Time a kernel's configs in turns, and report each with its time over that of the first name, which a call runs.

    ``call_of``: the call of a config, whose TileflowError is reported. One that takes ``_SLOW`` times the first one's
    time is timed once.
    """
    called, samplers = names[0], dict[str, DeviceSampler]()
    for name in names:
        say_about((number, name))
        first = samplers[called].first_us if called in samplers else float("inf")
        try:
            sampler = DeviceSampler(call_of(name), args, give_up_us=_SLOW * first)
        except TileflowError as error:  # more than this device has, as its driver counts; no variant of these sizes
            say_found((number, name), {"status": type(error).__name__, "reason": str(error)})
            continue
        if sampler.captured or sampler.first_us < _SLOW * first:
            samplers[name] = sampler
        else:
            say_found((number, name), {"status": "ok", "us": round(sampler.first_us, 2), "is_timed_once": True})
    times = medians(samplers, _ROUNDS)
    for name, us in times.items():
        of_default = {"of_default": round(us / times[called], 3)} if called in times else {}
        say_found((number, name), {"status": "ok", "us": us, **of_default})


def main() -> int:
    """Run the comparison. Exit code 1 where a config hung, crashed or could not be built."""
    return Comparison(
        "tileflow_benchmarks.tuning.default_neighbours",
        __doc__,
        CASES,
        lambda number, device: neighbours(CASES[number].lowered(device)),
        built,
        measure,
        frozenset({DEFAULT}),
        "default_neighbours.json",
        seconds=40.0,
        is_right=lambda row: row["status"] in ("ok", "built"),
        at_once=40,
        build_seconds=30.0,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
