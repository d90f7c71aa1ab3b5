"""What the ratios compare: a case that had the default alone, or one config under two names, would compare nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from tileflow_benchmarks.ratios import attention, derived, few_tiles, gradients, products, whole

from tileflow.config import Config
from tileflow.measure.check import check_call, reference_of
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


def test_cases_of_few_tiles_have_clusters_or_say_why_not() -> None:
    """Most have another config to be compared with; the others have programs enough, or turns too few."""
    both = [few_tiles.configs(case.loaded.lower(case.args("meta"), H200)) for case in few_tiles.CASES]
    assert sum(len(found) == 2 for found in both) >= 0.8 * len(both)
    assert all(found["default"] != found.get("one block") for found in both)


def smaller(case: derived.DerivedCase) -> derived.DerivedCase:
    small = {**case.backward.small(case.problem), "dtype": "float32"}
    return replace(case, problem=small | ({"d": 8} if "d" in small else {}))  # the halves of a head are equal


def marked(case: derived.DerivedCase) -> Any:
    takes_long = case.name.startswith("attention")
    return pytest.param(case, id=case.name, marks=[pytest.mark.slow] if takes_long else [])


@pytest.mark.parametrize("case", [marked(case) for case in derived.CASES])
def test_a_derived_gradient_and_its_peers_compute_the_same(case: derived.DerivedCase) -> None:
    case = smaller(case)
    args = case.args("cpu")
    for name in derived.names(case):
        kernel, own = case.called(name, args)
        verdict = check_call(kernel.run_eagerly, own, reference_of(kernel, own))
        assert verdict.ok, f"{name}: {verdict.reason}"
    wanted = case.backward.reference(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    torch.testing.assert_close(derived.eager_gradients(case, args)(), wanted, rtol=1e-4, atol=1e-5)


def test_torchs_gradients_from_the_arguments_are_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled without a backend: what torch traces here, an inductor of a GPU compiles."""
    case = next(case for case in derived.CASES if case.name.startswith("embedding"))
    case = smaller(case)
    args, compile_ = case.args("cpu"), torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **options: compile_(f, backend="eager", fullgraph=True, **options))
    (found,) = derived.compiled_gradients(case, args)()
    torch.testing.assert_close(found, case.backward.reference(*args))


def test_ten_gradients_are_compared_most_of_them_with_one_by_hand() -> None:
    assert len({case.kernel for case in derived.CASES}) >= 10
    assert sum(case.hand is not None for case in derived.CASES) >= 7


@pytest.mark.parametrize("case", whole.CASES, ids=lambda case: case.name)
def test_kernels_without_loops_have_first_configs(case: whole.WholeCase) -> None:
    """Two thirds of them had none, or blocks of 16 x 16."""
    lowered = whole.CALLS[case.call][0].lower(case.args("meta"), H200)
    assert lowered.space.is_valid(lowered.default)
