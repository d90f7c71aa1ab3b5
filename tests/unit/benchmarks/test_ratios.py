"""What the ratios compare: a case that had the default alone, or one config under two names, would compare nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tileflow_benchmarks.ratios import attention, gradients, products

from tileflow.config import Config
from tileflow.target import target

H200 = target("nvidia-h200")


def cases() -> Iterator[tuple[str, Any, Any]]:
    yield from (("attention", case, attention.configs) for case in attention.CASES)
    yield from (("gradients", case, gradients.configs) for case in gradients.CASES)
    for case in products.CASES:
        yield "products", case, lambda lowered, case=case: products.configs(case, lowered)


def is_specialised(config: Config) -> bool:
    choices = config.to_dict().items()
    return any(name.startswith("schedule") and choice == "warp_specialised" for name, choice in choices)


@pytest.mark.parametrize(
    ("case", "configs"),
    [pytest.param(case, configs, id=f"{kind}: {case.name}") for kind, case, configs in cases()],
)
def test_each_case_compares_several_configs(case: Any, configs: Any) -> None:
    lowered = case.loaded.lower(case.args("meta"), H200)
    compared = configs(lowered)
    assert compared["default"] == lowered.default
    assert all(lowered.space.is_valid(config) for config in compared.values())
    others = {name: config for name, config in compared.items() if name != "default"}
    assert len(set(others.values())) == len(others) >= 2
    assert any(map(is_specialised, others.values()))
