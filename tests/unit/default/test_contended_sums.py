"""The order of programs that add to bins which values choose."""

from __future__ import annotations

import pytest
from tile_testing.strangers import ALL

from tileflow.target import target


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("fold_pulses", "1,0"),  # profiles of 64 periods: 2342 us by programs of one period at a time, 464 so (H100)
        ("mutual_information", "1,0"),  # joint histograms of 64 pairs of pictures: 357 and 239
        ("power_flow_mismatch", "0,1"),  # one sum a program: 260 us, and 290 the other way
        ("scatter_messages", "0,1"),  # columns run fastest already
    ],
)
def test_the_axis_of_histograms_runs_fastest(name: str, order: str) -> None:
    one = ALL[name]
    lowered = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm"))
    assert lowered.default["order"] == order
