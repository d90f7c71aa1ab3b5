"""What is emitted is a function of the normalised config: a knob that the others make idle changes no text.

A config from a table, of another version's search or by hand may have such a knob anywhere. The code of 2032 of 2514
random configs was another one than that of their normal form, and some of it was never meant for their other choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tile_testing.compiler_gallery import GALLERY, kernel, meta
from tile_testing.kernels import histogram_kernels, loaded_part_kernels, stored_part_kernels

from tileflow.config import Config, ConfigSpace, Constraint
from tileflow.errors import ConfigError
from tileflow.expr import TRUE, Expr
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")
DRAWN = 5  # configs of a kernel, and as many changes of each
MODULES = {"histogram": histogram_kernels, "loaded": loaded_part_kernels, "stored": stored_part_kernels}
CASES: dict[str, Any] = {f"{file} {name}": case for file, m in MODULES.items() for name, case in m.CASES.items()}


def with_idle(space: ConfigSpace, config: Config, rng: random.Random) -> Iterator[Config]:
    """Configs like a normalised one but for knobs that are idle in it."""
    idle = [knob for knob in space.knobs if knob.active != TRUE and len(knob.choices) > 1]
    for _ in range(DRAWN):
        some = rng.sample(idle, min(len(idle), 4))
        changes = {knob.name: rng.choice(knob.choices) for knob in some}
        for name, choice in changes.items():
            changed = config.with_({name: choice})
            if changed != config and space.normalise(changed) == config and space.is_valid(changed):
                yield changed


def texts(lowered: Lowered, config: Config) -> list[str] | str:
    try:
        return [source.text for source in lowered.emit(config)]
    except ConfigError as error:  # a schedule that only the emission finds impossible
        return str(error)


def check(lowered: Lowered, rng: random.Random) -> int:
    """How many configs were compared."""
    compared = 0
    for _ in range(DRAWN):
        config = lowered.space.sample(rng)
        wanted = texts(lowered, config)
        for other in with_idle(lowered.space, config, rng):
            changed = {name: choice for name, choice in other.items if config[name] != choice}
            assert texts(lowered, other) == wanted, changed
            compared += 1
    return compared


@pytest.mark.parametrize("name", list(GALLERY)[::3])
def test_idle_knobs_of_the_gallery_change_no_text(name: str) -> None:
    lowered = kernel(name).lower(meta(name, GALLERY[name].rows("compiled")[0]), H200)
    check(lowered, random.Random(name))


def test_idle_knobs_of_constructs_change_no_text() -> None:
    found = 0
    for name in random.Random(0).sample(sorted(CASES), 12):
        case = CASES[name]
        found += check(case.kernel.lower(case.args, H200), random.Random(name))
    assert found > 50, "the draws have idle knobs"


@pytest.mark.parametrize("name", ["examples.layer_norm:layer_norm_bwd", "examples.split_k:split_k_matmul"])
def test_what_host_code_asks_the_config_for_is_never_idle(name: str) -> None:
    """Host code is answered by the config as it was given, and what is emitted by the normalised one."""
    lowered = kernel(name).lower(meta(name, GALLERY[name].rows("compiled")[0]), H200)
    asked = {knob.name for knob in lowered.host_knobs}
    assert asked and {knob.name for knob in lowered.space.knobs if knob.active != TRUE}.isdisjoint(asked)


def test_a_constraint_binds_the_config_and_its_normal_form() -> None:
    """A stand-in for a knob whose default asks for more than the choice that it takes the place of."""
    name = "examples.matmul:matmul"
    lowered = kernel(name).lower(meta(name, GALLERY[name].rows("compiled")[0]), H200)
    default = lowered.space.default
    *_, other = next(knob for knob in lowered.space.knobs if knob.name == "num_warps").choices
    knobs = tuple(
        replace(k, active=Expr.of(0), default=other) if k.name == "num_warps" else k for k in lowered.space.knobs
    )
    few = Constraint("few", Expr.sym("num_warps").lt(int(other)), (), "few warps")
    lowered.space = ConfigSpace(knobs, (few,), ())
    with pytest.raises(ConfigError, match="few warps"):
        lowered.emit(default)
