"""``autotune`` over named configs: what is wrong, or does not run, wins nothing; and configs of loaded tables."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
from tileflow.compat.helion import autotuner, choosing, notes
from tileflow.compat.helion.kernel import BoundKernel
from tileflow.errors import CallError, ConfigError, OutOfResources

RIGHT, FAST, BROKEN, WRONG = (helion.Config(block_sizes=[n]) for n in (4, 8, 16, 32))
X = torch.randn(40)


def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 2
    return out


def added_up(x: torch.Tensor, total: torch.Tensor) -> None:
    for tile in hl.tile(x.size()):
        total[tile] += x[tile]


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[helion.Config]:
    """Times that fall from one config to the next, and two configs that give something else than a result."""
    timed: list[helion.Config] = []
    compiled = BoundKernel.compile_config

    def compile_config(bound: BoundKernel, config: Any = None, **options: Any) -> Callable[..., Any]:
        call = compiled(bound, config, **options)
        if config == BROKEN:
            raise OutOfResources("a launch has room", got="none")

        def called(*args: Any) -> Any:
            result = call(*args)
            return None if result is None else result + (config == WRONG)

        called.config = config  # type: ignore[attr-defined]
        return called

    def milliseconds(call: Any, args: Any) -> float:
        timed.append(call.config)
        call(*args)
        return 1.0 / len(timed)

    monkeypatch.setattr(BoundKernel, "compile_config", compile_config)
    monkeypatch.setattr(choosing, "milliseconds", milliseconds)
    notes.forget()
    return timed


@pytest.mark.parametrize("settings", [{}, {"autotune_baseline_fn": lambda x: x * 2}], ids=["its own", "a baseline"])
def test_a_wrong_config_wins_nothing(
    settings: dict[str, Any], times: list[helion.Config], caplog: pytest.LogCaptureFixture
) -> None:
    """The fastest one won, whatever it gave."""
    bound = helion.kernel(doubled, **settings).bind((X,))
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        assert bound.fastest([RIGHT, FAST, BROKEN, WRONG], (X,)) == FAST
    assert times == [RIGHT, FAST]
    said = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert len(said) == 2 and "a launch has room" in said[0] and "block_sizes=[32]" in said[1]


def test_where_no_config_is_right_all_reasons_are_said(times: list[helion.Config]) -> None:
    with pytest.raises(CallError, match="one of the configs gives the right result") as caught:
        helion.kernel(doubled).bind((X,)).fastest([WRONG, BROKEN], (X,))
    assert "block_sizes=[32]" in caught.value.got and "a launch has room" in caught.value.got and times == []


def test_a_check_may_be_left_out(times: list[helion.Config]) -> None:
    bound = helion.kernel(doubled, autotune_accuracy_check=False).bind((X,))
    assert bound.fastest([RIGHT, WRONG], (X,)) == WRONG


def test_what_is_timed_works_on_copies(times: list[helion.Config]) -> None:
    """Each turn of the clock added to the caller's tensor."""
    total = torch.zeros(40)
    helion.kernel(added_up).bind((X, total)).fastest([RIGHT, FAST], (X, total))
    assert times == [RIGHT, FAST] and not total.any()


def test_from_cache_times_the_configs_of_loaded_tables_and_those_that_are_named(
    times: list[helion.Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert helion.from_cache is autotuner.from_cache
    asked: list[int | None] = []

    def known(bound: BoundKernel, most: int | None = None) -> list[helion.Config]:
        asked.append(most)
        return [RIGHT]

    monkeypatch.setattr(BoundKernel, "known_configs", known)
    bound = helion.kernel(doubled, autotuner_fn=helion.from_cache(max_configs=3, configs=[FAST, RIGHT])).bind((X,))
    search = bound.settings.autotuner_fn(bound, (X,))
    assert isinstance(search, autotuner.CachedFiniteSearch) and search.autotune() == FAST
    assert times == [RIGHT, FAST] and asked == [3]


def test_from_cache_without_a_config_says_where_some_come_from() -> None:
    bound = helion.kernel(doubled, autotuner_fn=helion.from_cache()).bind((X,))
    assert torch.equal(bound(X), X * 2)  # a call starts no search
    with pytest.raises(ConfigError, match=r"no row of a loaded table") as caught:
        bound.settings.autotuner_fn(bound, (X,)).autotune()
    assert "from_cache(configs=[...])" in caught.value.hint
    with pytest.raises(CallError, match="configs are timed on a GPU"):
        bound.autotune((X,))
