"""Reductions, products and stored rows of one tile as loops: the same values whichever of them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("shape", [(2, 200, 300), (1, 257, 131)])
def test_a_norm_by_groups_is_right_with_both_as_loops(interpreter: Callable[..., Any], shape: tuple[int, ...]) -> None:
    found = interpreter("runs.rolled_runs:check", "norm_by_groups", shape)
    assert (128, 128) in found and set(found.values()) == {""}


def test_maxima_that_need_each_other_whole_are_never_both_loops(interpreter: Callable[..., Any]) -> None:
    found = interpreter("runs.rolled_runs:check", "less_both_maxima", (1, 200, 300))
    assert {0 in chosen for chosen in found} == {True} and len(found) > 1 and set(found.values()) == {""}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("stored_rows", (3, 300)), ("stored_boxes", (2, 130, 131)), ("stored_beside_a_sum", (2, 130, 257))],
)
def test_rows_that_are_stored_are_right_as_loops(interpreter: Callable[..., Any], name: str, shape: Any) -> None:
    found = interpreter("runs.rolled_runs:check", name, shape)
    assert len(found) >= 2 ** (len(shape) - 1) and set(found.values()) == {""}


@pytest.mark.parametrize("name", ["kept_beside", "stored_in_turns"])
def test_what_is_read_and_written_beside_a_row_keeps_its_order(interpreter: Callable[..., Any], name: str) -> None:
    """A row of 128256 was in no config, since a number of each row that it changed was read before."""
    found = interpreter("runs.rolled_runs:check_all", name, [(3, 300), (3, 2)], ["float32"])
    assert {(0,), (128,)} <= found.keys() and set(found.values()) == {""}


@pytest.mark.parametrize(("name", "arguments"), [("written_again", 2), ("counted_twice", 1)])
def test_what_a_later_line_writes_stays(interpreter: Callable[..., Any], name: str, arguments: int) -> None:
    """What waited for a sum was written after it, over what the author's later line had written."""
    found = interpreter("runs.rolled_runs:check_all", name, [(3, 300)] * arguments, ["float32"])
    assert {(0,), (128,)} <= found.keys() and set(found.values()) == {""}


BF16 = ("bfloat16",)
SQUARE = [(2, 160, 160), (2, 160, 160)]


@pytest.mark.parametrize(
    ("name", "shapes", "dtypes", "looped"),
    [
        ("projected", [(20, 300), (300, 40), (40,)], BF16, 1),
        ("projected", [(20, 300), (300, 40), (40,)], ("float32",), 1),
        ("projected_whole", [(20, 200), (200, 300), (300,)], BF16, 1),
        ("projected_whole", [(20, 160), (160, 160), (160,)], BF16, 1),
        ("attended", [(20, 160), (300, 160), (300, 160)], BF16, 1),
        ("attended", [(160, 160), (160, 160), (160, 160)], BF16, 2),
        ("attended_before", [(40, 64), (300, 64), (300, 64), (40, 300)], (*BF16 * 3, "float32"), 1),
        ("attended_before", [(160, 64), (160, 64), (160, 64), (160, 160)], (*BF16 * 3, "float32"), 1),
        ("attended_to_some", [(20, 64), (300, 64), (300, 64), (20, 300)], (*BF16 * 3, "int32"), 1),
        ("attended_to_some", [(20, 64), (300, 64), (300, 64), (20, 300)], ("float32",) * 4, 1),
        ("attended_by_heads", [(2, 20, 32), (2, 300, 32), (2, 300, 32)], ("float16",), 1),
        ("attended_by_torch", [(40, 64), (300, 64), (300, 64), (40, 300)], (*BF16 * 3, "float32"), 3),
        ("attended_and_placed", [(40, 64), (300, 64), (300, 64)], ("float32",), 1),
        ("attended_by_distance", [(40, 64), (300, 64), (300, 64), (300,)], (*BF16 * 3, "float32"), 1),
        ("attended_by_distance", [(300, 64), (300, 64), (300, 64), (300,)], ("float32",), 1),
        ("gathered_row", [(5, 300), (300,)], ("float32", "int64"), 1),
        ("gated_halves", [(20, 600), (600, 40)], ("float32",), 1),
        ("gated_halves", [(20, 600), (600, 40)], BF16, 1),
        ("multiplied_side_by_side", [(20, 200), (20, 100), (300, 40), (40, 300)], ("float32",), 2),
        ("multiplied_side_by_side", [(20, 160), (20, 160), (320, 40), (40, 320)], BF16, 1),
        ("normed_side_by_side", [(20, 300), (20, 300), (40, 600), (600,)], ("float32",), 1),
        ("normed_side_by_side", [(20, 260), (20, 70), (40, 330), (330,)], BF16, 1),
        ("columns_apart", [(20, 32), (32, 600), (600,)], ("float32",), 1),
        ("columns_apart", [(20, 64), (64, 1200), (1200,)], BF16, 1),
        ("projected_in_three", [(20, 300), (300, 260), (300, 130), (300, 130)], BF16, 2),
        ("attended_twice", [(20, 64), (300, 64), (300, 64), (20, 64)], BF16, 1),
        ("soft_nearest", [(20, 300), (300, 40)], BF16, 1),
        ("multiplied_in_batches", [(2, 130, 300), (2, 300, 260)], ("bfloat16", "int8"), 3),
        ("multiplied_in_batches", SQUARE, BF16, 3),
        ("placed_in_columns", [(2, 260, 140)], ("float32",), 2),
        ("numbered", [(5, 300), (5,)], ("float32", "int64"), 1),
        ("averaged", [(3, 200, 300)], ("float32",), 2),
        ("averaged", [(3, 200, 200)], ("float32",), 2),
        ("with_its_rows", [(20, 200), (200, 200)], BF16, 2),
        ("with_its_rows", [(20, 200), (200, 200)], ("float32",), 2),
        ("normed_with_its_rows", [(20, 200), (200, 200)], BF16, 1),
        ("highway", [(20, 200), (200, 200)], ("float32",), 1),
        ("quadratic_form", [(20, 200), (200, 200)], BF16, 1),
        ("attended_in_a_grid", [(2, 20, 64), (2, 300, 64), (2, 300, 64)], BF16, 1),
        ("projected_in_a_grid", [(2, 20, 300), (300, 300)], BF16, 2),
        ("projected_around_a_range", [(9, 20, 300), (300, 300)], BF16, 2),
    ],
)
def test_products_and_places_are_right_in_blocks(
    interpreter: Callable[..., Any], name: str, shapes: Any, dtypes: Any, looped: int
) -> None:
    """No product of long rows had a loop: one of 3072 numbers had no config at all."""
    found = interpreter("runs.rolled_runs:check_all", name, shapes, dtypes)
    assert len(found) > 1 and any(sum(map(bool, chosen)) >= looped for chosen in found) and set(found.values()) == {""}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("attended_near", (300, 300)),
        ("attended_near", (40, 200)),
        ("attended_from", (3, 20, 300)),
        ("attended_before_and_within", (3, 300, 300)),
        ("attended_behind", (40, 300)),
        ("attended_behind", (160, 160)),
    ],
)
def test_turns_that_keep_no_keys_are_left_out(
    interpreter: Callable[..., Any], name: str, sizes: tuple[int, ...]
) -> None:
    found = interpreter("runs.rolled_runs:check_kept", name, *sizes)
    assert len(found) > 1 and set(found.values()) == {""}


@pytest.mark.parametrize("keys", [0, 1, 257])
def test_a_variant_takes_any_number_of_keys(interpreter: Callable[..., Any], keys: int) -> None:
    """Of none the sum is 0, not the NaN of a row whose keys are all left out."""
    assert interpreter("runs.rolled_runs:other_sizes", keys) == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
def test_the_first_place_of_an_extremum_is_found_by_a_loop(interpreter: Callable[..., Any], dtype: str) -> None:
    """Of equals and of several NaN; of a row that is all infinite, or the least int."""
    found = interpreter("runs.rolled_runs:check_places", dtype)
    assert set(found) == {(0,), (128,)} and set(found.values()) == {""}


@pytest.mark.parametrize("mode", ["dynamic", "generic"])
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("gated_halves", [(20, 600), (600, 40)]),
        ("multiplied_side_by_side", [(20, 200), (20, 100), (300, 40), (40, 300)]),
        ("normed_side_by_side", [(20, 300), (20, 300), (40, 600), (600,)]),
        ("columns_apart", [(20, 32), (32, 600), (600,)]),
    ],
)
def test_parts_of_sizes_that_a_launch_gives_are_right(
    interpreter: Callable[..., Any], mode: str, name: str, shapes: Any
) -> None:
    assert interpreter("runs.rolled_runs:check_mode", mode, name, shapes, "float32") == ""
