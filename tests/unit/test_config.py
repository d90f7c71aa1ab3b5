"""Spaces of configs: what repair, normalise, neighbours and enumerate promise, and golden keys."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.errors import ConfigError
from tileflow.expr import Expr

M, N, WARPS = Expr.sym("block:m"), Expr.sym("block:n"), Expr.sym("num_warps")


def tile_space() -> ConfigSpace:
    """Two blocks under a memory limit, a staging switch with a depth that only counts when it is on."""
    return ConfigSpace(
        knobs=(
            Knob("block:m", "tile_m", (16, 32, 64, 128), "block", 64),
            Knob("block:n", "tile_n", (16, 32, 64, 128), "block", 64),
            Knob("num_warps", "launch", (1, 2, 4, 8), "launch", 4),
            Knob("staged", "loop", (False, True), "loop", False),
            Knob("stages", "loop", (2, 3, 4), "loop", 2, active=Expr.sym("staged")),
            Knob("load:x#0.eviction", "load:x#0", ("", "evict_first", "evict_last"), "access", ""),
        ),
        constraints=(
            Constraint(
                "shared memory",
                (M * N * 4 * Expr.sym("stages")).le(Expr.sym("target.smem_per_block")),
                (("stages", "down"), ("block:n", "down"), ("block:m", "down")),
                "the tiles must fit in shared memory",
            ),
            Constraint(
                "warps",
                WARPS.le(M.max(N) // 16),
                (("num_warps", "down"),),
                "each warp must have sixteen rows or columns",
            ),
        ),
        environment=(("target.smem_per_block", 64 << 10),),
    )


@st.composite
def spaces(draw: st.DrawFn) -> ConfigSpace:
    """Spaces of up to four knobs, where some are idle without others, under sums that repair can step down."""
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    knobs = []
    for i, name in enumerate(names):
        choices = draw(st.sampled_from([(1, 2, 4, 8), (0, 1, 2), ("p", "q", "r"), (False, True), (3,)]))
        active = Expr.of(1)
        if i and draw(st.booleans()):
            active = Expr.sym(draw(st.sampled_from(names[:i]))).ne(draw(st.integers(0, 2)))
        knobs.append(Knob(name, name, choices, "tunable", draw(st.sampled_from(choices)), active))
    constraints = []
    for index in range(draw(st.integers(0, 2))):
        over = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        total = sum((Expr.sym(n) for n in over), Expr.of(0))
        repair = tuple((n, "down") for n in over)
        constraints.append(Constraint(f"sum{index}", total.le(draw(st.integers(0, 12))), repair, "must stay small"))
    return ConfigSpace(tuple(knobs), tuple(constraints))


def everything(space: ConfigSpace) -> list[Config]:
    names = [k.name for k in space.knobs]
    return [
        Config.of(dict(zip(names, choices, strict=True)))
        for choices in itertools.product(*(k.choices for k in space.knobs))
    ]


@given(spaces())
def test_normalise_is_idempotent_and_only_moves_idle_knobs_to_their_defaults(space: ConfigSpace) -> None:
    for config in everything(space):
        normal = space.normalise(config)
        assert space.normalise(normal) == normal
        for knob in space.knobs:
            assert normal[knob.name] in (config[knob.name], knob.default)
            if normal[knob.name] != knob.default:
                env = {k.name: k.encode(normal[k.name]) for k in space.knobs}
                assert knob.active.evaluate(env)


@given(spaces())
def test_enumerate_is_the_filtered_product(space: ConfigSpace) -> None:
    listed = list(space.enumerate())
    assert listed == [c for c in everything(space) if space.is_valid(c) and space.normalise(c) == c]
    assert len({c.key for c in listed}) == len(listed) <= space.size


@given(spaces(), st.integers(0, 2**32))
def test_repair_and_sample_lead_to_valid_normalised_configs_or_say_why_not(space: ConfigSpace, seed: int) -> None:
    legal = set(space.enumerate())
    for config in everything(space):
        try:
            repaired = space.repair(config)
        except ConfigError as error:
            assert "must stay small" in str(error)
            continue
        assert repaired in legal
        if config in legal:
            assert repaired == config
    assume(legal)
    try:
        assert space.sample(random.Random(seed)) in legal
    except ConfigError as error:
        assert "must stay small" in str(error)


@given(spaces(), st.integers(0, 2**32))
def test_a_seed_draws_what_choosing_one_knob_after_the_other_draws(space: ConfigSpace, seed: int) -> None:
    """The sampler is compiled; a seed must mean what it meant, to the last number that is taken from the generator."""
    quick, plain = random.Random(seed), random.Random(seed)
    try:
        found = space.sample(quick, tries=4)
    except ConfigError:
        return
    for _ in range(4):
        expected = space.normalise(Config.of({knob.name: plain.choice(knob.choices) for knob in space.knobs}))
        if space.is_valid(expected):
            break
    else:
        expected = space.repair(expected)
    assert (found, quick.random()) == (expected, plain.random())


@given(spaces())
def test_neighbours_are_valid_distinct_and_one_step_away(space: ConfigSpace) -> None:
    legal = set(space.enumerate())
    for config in legal:
        near = list(space.neighbours(config))
        assert set(near) <= legal - {config}
        assert len(set(near)) == len(near)
        one_step = {
            space.normalise(config.with_({k.name: c}))
            for k in space.knobs
            for i, c in enumerate(k.choices)
            if not k.ordered or abs(i - k.choices.index(config[k.name])) == 1
        }
        assert set(near) == one_step & legal - {config}


def test_repair_steps_the_knobs_that_the_broken_constraint_names() -> None:
    space = tile_space()
    config = space.complete({"block:m": 128, "block:n": 128, "staged": True, "stages": 4, "num_warps": 8})
    assert [c.name for c in space.violations(config)] == ["shared memory"]
    repaired = space.repair(config)
    assert repaired == config.with_({"stages": 2, "block:n": 64})


def test_repair_of_constraints_that_want_opposite_things() -> None:
    """More warps for the tile, and fewer of them: the tile gives way."""
    tile = Knob("tile", "tile", (1, 2, 4, 8, 16, 32, 64), "block", 1)
    warps = Knob("warps", "launch", (1, 2, 4, 8), "launch", 1)
    fits = Expr.sym("tile").le(Expr.sym("warps") * 4)
    few = Expr.sym("warps").le(2)
    space = ConfigSpace(
        (tile, warps),
        (
            Constraint("fits", fits, (("warps", "up"), ("tile", "down")), "a tile fits its warps"),
            Constraint("few", few, (("warps", "down"),), "two warps are enough"),
        ),
    )
    assert space.repair(Config.of({"tile": 64, "warps": 8})).to_dict() == {"tile": 8, "warps": 2}


def test_repair_of_an_idle_knob_passes_on_to_the_next() -> None:
    space = tile_space()
    config = space.complete({"block:m": 128, "block:n": 128, "stages": 4})
    assert space.repair(config) == config.with_({"stages": 2, "block:n": 64})


def test_repair_tries_the_other_constraints_when_one_has_no_step_left() -> None:
    space = ConfigSpace(
        (Knob("a", "a", (1, 2), "tunable", 2), Knob("b", "b", (1, 2), "tunable", 1)),
        (
            Constraint("first", Expr.sym("a").le(1), (), "a must be 1"),
            Constraint("second", Expr.sym("a").lt(2), (("a", "down"),), "a must be below 2"),
        ),
    )
    assert space.default == Config.of({"a": 1, "b": 1})


def test_a_space_that_no_repair_makes_valid_gives_the_reason() -> None:
    space = ConfigSpace((Knob("a", "a", (1, 2), "tunable", 2),), (Constraint("no", Expr.of(0), (), "never holds"),))
    with pytest.raises(ConfigError, match="never holds"):
        _ = space.default
    assert list(space.enumerate()) == []


def test_the_choices_that_a_broken_constraint_asks_about_are_shown() -> None:
    """A config of a hundred knobs was a page, behind the reason and before what to do."""
    knobs = (Knob("a", "a", (4,), "tunable", 4), Knob("b", "b", (1, 2), "tunable", 1))
    small = Constraint("small", Expr.sym("a").le(3), (), "a is at most 3", hint="a smaller a")
    with pytest.raises(ConfigError) as refused:
        _ = ConfigSpace(knobs, (small,)).default
    assert "but got a=4" in str(refused.value) and "b=1" not in str(refused.value)


def test_a_knob_idled_by_an_idle_knob_returns_to_its_default_too() -> None:
    space = ConfigSpace(
        (
            Knob("a", "a", (0, 1), "tunable", 0),
            Knob("b", "b", (0, 1), "tunable", 0, active=Expr.sym("a")),
            Knob("c", "c", (0, 1), "tunable", 0, active=Expr.sym("b")),
        )
    )
    assert space.normalise(Config.of({"a": 0, "b": 1, "c": 1})) == Config.of({"a": 0, "b": 0, "c": 0})


def test_adapt_moves_numbers_to_the_nearest_choice_and_drops_what_is_unknown() -> None:
    space = tile_space()
    adapted = space.adapt({"block:m": 256, "num_warps": 3, "load:x#0.eviction": "gone", "load:y#0.eviction": ""})
    assert adapted == space.complete({"block:m": 128, "num_warps": 2})
    assert space.adapt(space.default.to_dict()) == space.default


def test_keys_and_fingerprints_are_stable() -> None:
    """They stand in journals and tables: a change of these figures orphans every one of them."""
    space = tile_space()
    assert space.default.key == "3b4dbd01e32014f8"
    assert Config.of({"a": True}).key != Config.of({"a": 1}).key
    assert space.fingerprint == "c91d03841c5664d0"
    assert space.size == 4 * 4 * 4 * 2 * 3 * 3


def test_a_config_reads_and_changes_by_name() -> None:
    config = Config.of({"b": 2, "a": "x"})
    assert config.items == (("a", "x"), ("b", 2))
    assert (config["b"], config.get("c", 7), config.with_({"b": 4})["b"]) == (2, 7, 4)
    assert str(config) == "a=x, b=2"
    assert Config.of(config.to_dict()) == config
    with pytest.raises(ConfigError, match="got c"):
        config["c"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block:m": 48}, "block:m must be one of"),
        ({"staged": 1}, "staged must be one of"),
        ({"num_warps": True}, "num_warps must be one of"),
        ({"block:k": 16}, "'block:k'"),
    ],
)
def test_complete_refuses_what_is_not_of_the_space(values: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tile_space().complete(values)


def test_a_partial_config_is_refused_everywhere() -> None:
    space, partial = tile_space(), Config.of({"block:m": 16})
    for use in (space.check, space.violations, space.normalise, space.repair):
        with pytest.raises(ConfigError, match="must choose every knob"):
            use(partial)


def test_knobs_and_spaces_refuse_contradictions() -> None:
    with pytest.raises(ConfigError, match="default of knob a"):
        Knob("a", "a", (1, 2), "tunable", 3)
    with pytest.raises(ConfigError, match="distinct"):
        Knob("a", "a", (1, 1), "tunable", 1)
    knob = Knob("a", "a", (1, 2), "tunable", 1)
    with pytest.raises(ConfigError, match="distinct"):
        ConfigSpace((knob, knob))


def test_a_config_is_asked_as_a_mapping_is() -> None:
    """Without a method for it ``in`` asks for knob 0, which was a ConfigError."""
    config = Config.of({"num_warps": 4, "block:t": 32})
    assert "num_warps" in config
    assert "num_stages" not in config
    assert list(config) == ["block:t", "num_warps"]
