"""Merging tables: the better of comparable rows, both of others, and what makes tables strangers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.fakes import runtime_examples as examples

from tileflow.config import Config
from tileflow.errors import TableError
from tileflow.runtime import DeviceInfo, Entry, Fallback, KernelId, Table, Validator, merge

entry, problem, table = examples.entry, examples.problem, examples.table


def merged(*rows: Entry) -> list[tuple[Any, float | None]]:
    result = table(rows[0])
    for row in rows[1:]:
        result = merge(result, table(row))
    return [(e.config["block:tile"], e.best_us) for e in result.entries]


def test_merging_keeps_the_better_of_two_rows_that_are_apart() -> None:
    slow, fast = entry(64, 64, block=32, best_us=10.0), entry(64, 64, block=64, best_us=8.0)
    assert merged(slow, fast) == merged(fast, slow) == [(64, 8.0)]


def test_merging_keeps_both_where_they_cannot_be_compared() -> None:
    one = entry(64, 64, block=32, best_us=10.0, ci95=1.0, toolchain="triton 3.6")
    touching = entry(64, 64, block=64, best_us=8.5, ci95=1.0, toolchain="triton 3.6")
    elsewhere = entry(64, 64, block=64, best_us=1.0, toolchain="triton 3.7")
    other_device = entry(64, 64, "nvidia-a100", block=64, best_us=1.0)
    assert merged(one, touching) == [(64, 8.5), (32, 10.0)]
    assert merged(one, elsewhere) == [(64, 1.0), (32, 10.0)]
    assert merged(one, other_device) == [(64, 1.0), (32, 10.0)]


def test_a_measured_row_displaces_a_modelled_one_however_fast() -> None:
    modelled = entry(64, 64, block=32, best_us=0.1, origin="modelled")
    assert merged(modelled, entry(64, 64)) == merged(entry(64, 64), modelled) == [(64, 10.0)]


def test_merging_names_its_parent_and_refuses_strangers() -> None:
    ours = table(entry(64, 64), default=Fallback(Config.of({"a": 1})))
    result = merge(ours, table(entry(128, 64), default=Fallback(Config.of({"a": 2}))))
    assert result.parent_table_id == ours.table_id
    assert result.default == ours.default
    assert result.domain["nvidia-h200"]["x.shape.0"] == (64, 128)
    with pytest.raises(TableError, match="one kernel in one version"):
        merge(ours, table(semantic_hash="1" * 64))
    with pytest.raises(TableError, match="one kernel in one version"):
        merge(ours, Table.of(KernelId.of("kernels:other", examples.HASH), ()))
    required = [table(validators=(Validator("triton", v, "require"),)) for v in ("3.6", "3.7")]
    with pytest.raises(TableError, match="require the same"):
        merge(*required)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([32, 64]), st.floats(1, 99), st.booleans()), min_size=1, max_size=4))
def test_merging_is_idempotent_and_does_not_depend_on_the_order(rows: list[tuple[int, float, bool]]) -> None:
    each = [
        table(entry(64, 64, block=b, best_us=us, ci95=0.0, toolchain="t", origin="measured" if m else "modelled"))
        for b, us, m in rows
    ]
    forward, backward = each[0], each[-1]
    for one in each:
        forward = merge(forward, one)
    for one in reversed(each):
        backward = merge(backward, one)
    assert forward.entries == backward.entries == merge(forward, forward).entries


def test_tables_of_two_catalogues_merge() -> None:
    """A catalogue that had learned of another card refused all rows from before, and ``tune`` kept none beside them."""
    now = table(entry(64, 64))
    known = now.devices["nvidia-h200"]
    earlier = replace(known, mem_gb=96, display_name="NVIDIA H200 SXM", siblings=())
    for devices in ({"nvidia-h200": earlier}, {"nvidia-h200": known}):
        before = replace(table(entry(128, 64)), devices=devices)
        for merged in (merge(now, before), merge(before, now)):
            assert merged.devices == {"nvidia-h200": known} and len(merged.entries) == 2
    before = replace(now, devices={"nvidia-h200": earlier})
    assert merge(before, before).devices == before.devices


def test_a_device_that_no_catalogue_knows_is_one_by_its_figures() -> None:
    """Also of a later version's catalogue, whose list of siblings grows."""
    one = replace(table(entry(64, 64)).devices["nvidia-h200"], display_name="", siblings=("nvidia-h200", "nvidia-h100"))
    other = replace(one, display_name="H900", siblings=("nvidia-h100", "nvidia-h800"))

    def made(device: DeviceInfo) -> Table:
        return Table.of(table().kernel, (), devices={"nvidia-h900": device})

    (merged,) = merge(made(one), made(other)).devices.values()
    assert merged == replace(one, display_name="H900", siblings=("nvidia-h200", "nvidia-h100", "nvidia-h800"))
    said = r"(?s)but got mem_gb \d+ and 96\s.*devices\.nvidia-h900.*made on another card"
    with pytest.raises(TableError, match=said):
        merge(made(one), made(replace(other, mem_gb=96)))
