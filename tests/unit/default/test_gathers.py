"""First configs of gathers in loops, of lanes that exchange much, of small turns, of whole columns, of shared sums."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


def default(name: str, device: str = "nvidia-h200") -> dict[str, object]:
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    return ALL[name].kernel.lower(meta, target(device)).default.to_dict()


@pytest.mark.parametrize(
    ("name", "knob", "stages"),
    [
        ("bootstrap_means", "num_stages", 1),  # places that a turn draws
        ("grammar_log_probs", "num_stages", 1),
        ("matrix_profile", "num_stages@1", 1),  # float32 operands of a product, element by element
        ("ctc_loss", "num_stages", 6),  # places that are the same in each turn
        ("chosen_block_attention", "num_stages", 5),  # whole rows
        ("gptq_linear", "num_stages", 1),  # zeros of 4 bytes, of which an operand is made
    ],
)
def test_gathered_elements_are_not_loaded_ahead(name: str, knob: str, stages: int) -> None:
    """Resampled means took 3018 us loaded two turns ahead, and 535 without (H100)."""
    assert default(name)[knob] == stages


@pytest.mark.parametrize(
    ("name", "warps"),
    [
        ("volume_render", 2),  # five reductions, two rows a program
        ("autocorrelation", 2),  # fifty reductions
        ("lennard_jones", 4),  # nine tiles at a time
        ("match_planes", 4),  # 43 reductions over rows
        ("garch_likelihood", 1),  # turns of two elements
    ],
)
def test_few_warps_exchange(name: str, warps: int) -> None:
    """A volatility's likelihood took 15.2 ms by four warps that all compute the same, and 4.5 by one (H100)."""
    assert default(name)["num_warps"] == warps


@pytest.mark.parametrize(
    ("name", "block", "size"),
    [
        ("trim_reads", "block:t", 2),
        ("unpack_deltas", "block:t", 4),
        ("clamped_swiglu_fp8", "block:tg", 8),
        ("attentive_statistics", "block:tc", 2),
        ("yin_curve", "block:tb", 1),
        ("sampled_product", "block:tile", 4),  # no less than 16 elements a lane
    ],
)
def test_rows_that_exchange_are_one_warps(name: str, block: str, size: int) -> None:
    """By four warps with four times the rows they took 3100, 92, 761, 136 and 2266 us, 1652, 70, 198, 84 and 1588 so;
    products of rows 202 both ways (H100)."""
    found = default(name)
    assert (found[block], found["num_warps"]) == (size, 1)


@pytest.mark.parametrize("name", ["pricing_summary", "lennard_jones", "quantise_rows"])
def test_what_exchanges_across_rows_keeps_its_warps(name: str) -> None:
    """Over rows too, of many values, and a row a program."""
    assert default(name)["num_warps"] == 4


def test_amd_keeps_its_warps() -> None:
    """Nothing of it was measured there."""
    assert default("garch_likelihood", "amd-mi300x")["num_warps"] == 4


@pytest.mark.parametrize(
    ("name", "block", "size"),
    [
        ("match_planes", "block:t", 2048),  # 43 sums of 8 million points
        ("pricing_summary", "block:tile", 4096),
        ("huber_mean", "block:tm", 1),  # one sum of each program
    ],
)
def test_programs_that_share_sums_are_fewer(name: str, block: str, size: int) -> None:
    """Of 512 points each they took 740 us, of 2048 235 (H100)."""
    assert default(name)[block] == size


def test_lanes_that_sum_keep_few_pairs() -> None:
    """Rays in long blocks took 354 us and take 308, waves 3320 and 641, periodograms 606 and 318 (H100)."""
    for name, kept, others in (
        ("cast_rays", "tr", "tm"),
        ("structure_factor", "tk", "tj"),
        ("lomb_scargle", "tf", "tt"),
    ):
        found = default(name)
        assert (found[f"block:{kept}"], found[f"block:{others}"], found["num_warps"]) == (4, 128, 4)


def test_whole_columns_are_in_pieces() -> None:
    """One column a program read 32 bytes for each two: 1025 us, and 140 by 16 columns in pieces (H100)."""
    found = default("smooth_scales")
    assert found["block:t"] == 32 and found["reduce:max#0"] == 128


def test_many_gathers_take_an_element_a_lane() -> None:
    """Warped pictures took 137 us by four elements a lane and 85 by one (H100)."""
    for name in ("homography_warp", "semi_lagrangian"):
        found = default(name)
        assert (found["block:tx"], found["block:ty"], found["num_warps"]) == (128, 1, 4)
    assert default("fuse_depth")["block:tx"] == 512  # four gathers: 344 us, and 389 by 128


@tileflow.kernel
def hashed(x: torch.Tensor, rounds: tfl.constexpr) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        at = tile.index
        for _ in tfl.static_range(rounds):
            at = (at ^ (at >> 3)) + (at & 1023)
        out[tile] = x[at & 1023]
    return out


@pytest.mark.timeout(120)
def test_places_of_many_steps_are_walked_over_once() -> None:
    """Each step reads the one before it three times, which analyses went back to as often: 3^30 ways."""
    lowered = hashed.lower((torch.empty(1 << 20, device="meta"), 30), target("nvidia-h100-sxm"))
    assert lowered.space.is_valid(lowered.default)
