"""The block of torch's operations and of kernels: that its rehearsal runs, and what its bounds are made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tileflow_benchmarks.ratios import compiled_cost


def test_a_product_counts_what_it_takes_beyond_the_plain_one() -> None:
    times = {
        "norm": 20.0, "rope": 30.0, "attention": 500.0, "gated product": 1300.0, "two products": 1180.0,
        "o and residual": 200.0, "o": 180.0, "down and residual": 610.0, "down": 612.0,
    }  # fmt: skip
    found = compiled_cost.replaced_us(times)
    assert found == {"two norms": 40.0, "rope": 30.0, "attention": 500.0, "gate": 120.0, "two additions": 18.0}
    elementwise = {name: times[name] for name in ("norm", "rope", "attention")} | {"gate": 110.0}
    assert compiled_cost.replaced_us(elementwise) == {
        "two norms": 40.0, "rope": 30.0, "attention": 500.0, "gate": 110.0
    }  # fmt: skip


def test_the_bound_counts_all_replaced_parts() -> None:
    found = compiled_cost.bounds(3000.0, {"two norms": 40.0, "gate": 160.0, "attention": 800.0})
    assert found == {"bound by Amdahl": 1.5, "bound by Amdahl, attention apart": 1.071}


@pytest.mark.parametrize(
    ("section", "contender", "parts"),
    [
        (
            "inference",
            "tileflow: norm, rope, gated product, attention, residual",
            {"norm", "rope", "attention", "gated product", "o and residual", "down and residual"},
        ),
        ("training", "tileflow: norm, rope, gate, attention", {"norm", "rope", "attention", "gate"}),
    ],
)
def test_the_rehearsal_times_every_contender_and_part(
    section: str, contender: str, parts: set[str], tmp_path: Path
) -> None:
    """Values are checked against a block of torch's first."""
    out = tmp_path / "found.json"
    assert compiled_cost.main(["--out", str(out), "--dry-run", "--only", section]) == 0
    found = json.loads(out.read_text())
    timed = found[section]["default"]["us"]
    assert contender in timed and "torch" in timed and all(us > 0 for us in timed.values())
    times = found[section]["parts on the device, us"]
    plain = {"two products", "o", "down"} if section == "inference" else set()
    assert times["tileflow"].keys() == parts and times["torch"].keys() == parts | plain
    assert found[section]["bound by Amdahl"] >= found[section]["bound by Amdahl, attention apart"] >= 1
    assert "tileflow.kernels.gated:gated_linear" in found["cross-compiled"]
