"""Configs in which a given knob has a given choice and matters."""

from __future__ import annotations

from collections.abc import Iterator

from tileflow.config import Choice, Config, ConfigSpace, Knob
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered

SMALL = 32  # of block sizes, so that every loop has several turns and the grid several programs
# what else must be chosen for a choice to take effect, by role or by part of a knob's name; tried in turn
NEEDS: tuple[dict[str, Choice], ...] = (
    {}, {"persistent": 2}, {"reduction": 128}, {"persistent": 2, "reduction": 128}, {"block": 4}, {"block": 128},
    {"num_warps": 2}, {"access": "descriptor", "block": 64, "num_stages": 2},
    {"schedule": "warp_specialised", "block": 128}, {"block": 128, "block:tile_m": 64, "schedule": "pipelined"},
)  # fmt: skip


def base(lowered: Lowered) -> Config:
    """Small blocks, whole reductions, plain launches of four warps by pointers."""
    return _with(lowered.space, lowered.space.default, {"block": SMALL, "reduction": 0, "num_warps": 4})


def _with(space: ConfigSpace, config: Config, wanted: dict[str, Choice]) -> Config:
    """``wanted``: by the role of knobs, or what their names start or end with."""
    changes: dict[str, Choice] = {}
    for knob in space.knobs:
        first, last = knob.name.partition("@")[0], knob.name.rpartition(".")[2]
        for key in (knob.role, first, last):
            if key in wanted:
                changes[knob.name] = _nearest(knob, wanted[key])
    return space.repair(config.with_(changes))


def _nearest(knob: Knob, choice: Choice) -> Choice:
    if knob.allows(choice) or type(choice) is not int:
        return choice if knob.allows(choice) else knob.default
    return min(
        (c for c in knob.choices if type(c) is int and bool(c) == bool(choice)), key=lambda c: abs(int(c) - choice)
    )


def reaching(lowered: Lowered, knob: Knob, choice: Choice) -> tuple[Config, Config] | None:
    """A valid config in which the knob has its default, and the same with ``choice``; None where none was found."""
    for needs in NEEDS:
        try:
            plain = _with(lowered.space, base(lowered), needs)
            plain = lowered.space.normalise(plain.with_({knob.name: knob.default}))
            changed = lowered.space.normalise(plain.with_({knob.name: choice}))
        except ConfigError:
            continue
        if changed[knob.name] == choice and lowered.space.is_valid(changed) and lowered.space.is_valid(plain):
            return plain, changed
    return None


def choices(lowered: Lowered) -> Iterator[tuple[Knob, Choice, Config, Config]]:
    """Every choice of every knob that can be reached, with the config without and with it; sizes are left to other
    tests."""
    for knob in lowered.space.knobs:
        if knob.role in ("block", "reduction", "tunable"):
            continue
        for choice in knob.choices:
            if choice != knob.default and (found := reaching(lowered, knob, choice)) is not None:
                yield knob, choice, *found
