"""Lookups: each step of the fallback, and the mistakes of other tables that ours must not make."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.expr import Expr
from tileflow.runtime import (
    CreatedBy,
    DeviceInfo,
    Fallback,
    Hit,
    KeyField,
    Requirement,
    Table,
    Validator,
    clear,
    dump_table,
    launches_of,
    load,
    load_bundle,
    load_table,
    lookup,
    on_miss,
    reject,
    set_on_miss,
    snapshots,
    stats,
    unload,
    write_bundle,
)
from tileflow.runtime import loaded as loaded_tables
from tileflow.target import target

binary, entry, problem, table = examples.binary, examples.entry, examples.problem, examples.table
KERNEL, HASH = examples.KERNEL, examples.HASH

Find = Callable[..., Hit | None]


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    clear()
    yield
    clear()


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., Find]:
    """Loads tables (from files) and returns a lookup of ``(m, n, device)``."""
    numbers = itertools.count()

    def use(*tables: Table, **options: Any) -> Find:
        for one in tables:
            path = tmp_path / f"{next(numbers)}.table.json"
            dump_table(one, path)
            load(path, **options)

        def find(m: int, n: int, device: str | None = "nvidia-h200", **other: Any) -> Hit | None:
            return lookup(KERNEL, HASH, other.pop("problem", problem(m, n)), device, **other)

        return find

    return use


def found(hit: Hit | None) -> tuple[str, Any]:
    assert hit is not None
    return hit.step, hit.config["block:tile"]


def portfolio(block: int, arch: str = "sm_90a", vendor: str = "nvidia", **other: Any) -> Fallback:
    return Fallback(Config.of({"block:tile": block}), vendor, arch, **other)


def fails(reason: str = "never fits") -> tuple[Requirement, ...]:
    return (Requirement("never", Expr.sym("target.smem_per_block").le(1), reason),)


# ---- the steps ----------------------------------------------------------------------------------------------------


def test_each_step_answers_where_those_before_cannot(loaded: Callable[..., Find]) -> None:
    full = table(
        entry(64, 64, block=2),
        entry(64, 256, block=3),
        entry(4096, 64, "nvidia-h100-sxm", block=4),
        portfolio=(portfolio(6, "sm_80"), portfolio(5), portfolio(9, "gfx942", "amd")),
        default=Fallback(Config.of({"block:tile": 7})),
    )
    find = loaded(full)
    override = Config.of({"block:tile": 1})
    assert found(find(64, 64, override=override)) == ("override", 1)
    assert found(find(64, 64)) == ("exact", 2)
    assert found(find(64, 200)) == ("near", 3)
    assert found(find(4096, 64)) == ("sibling", 4)
    assert found(find(64, 512)) == ("arch_portfolio", 5)
    assert found(find(64, 64, "nvidia-rtx5090")) == ("vendor_portfolio", 6)
    assert found(find(64, 64, "amd-mi350x")) == ("vendor_portfolio", 9)
    assert found(find(64, 64, None)) == ("default", 7)
    assert stats() == {}, "a lookup is no call: what serves calls counts them"


def test_nothing_at_all_is_a_miss(loaded: Callable[..., Find]) -> None:
    assert loaded()(64, 64) is None
    assert loaded(table(entry(64, 64)))(64, 64, "amd-mi300x") is None


def test_near_takes_the_bucket_first_then_the_nearest_by_logarithm(loaded: Callable[..., Find]) -> None:
    find = loaded(table(*(entry(m, 64, block=m) for m in (64, 120, 512, 4096))))
    assert found(find(65, 64)) == ("near", 120)  # 64 is nearer, but 120 is in the bucket up to 128
    assert found(find(256, 64)) == ("near", 512)
    assert found(find(1100, 64)) == ("near", 512)  # nothing in 2048's bucket; 1100/512 < 4096/1100
    assert found(find(2000, 64)) == ("near", 4096)


def test_the_key_schema_limits_how_far_a_row_reaches(loaded: Callable[..., Find]) -> None:
    def at(kind: Any) -> Find:
        clear()
        schema = (KeyField("x.shape.0", kind), KeyField("x.shape.1", "exact"))
        return loaded(
            table(entry(64, 64, block=1), entry(100, 64, block=2), entry(512, 64, block=3), key_schema=schema)
        )

    assert at("exact")(90, 64) is None
    assert found(at("pow2")(90, 64)) == ("near", 2)
    assert at("pow2")(200, 64) is None
    assert found(at("ceil")(110, 64)) == ("near", 3)
    assert found(at("bucket")(140, 64)) == ("near", 2)


def test_measured_rows_go_before_modelled_ones_also_a_siblings(loaded: Callable[..., Find]) -> None:
    modelled = entry(64, 64, block=1, best_us=0.1, origin="modelled")
    sibling = entry(64, 64, "nvidia-h100-sxm", block=2)
    assert found(loaded(table(modelled, sibling))(64, 64)) == ("sibling", 2)
    clear()
    assert found(loaded(table(modelled, default=Fallback(Config.of({"block:tile": 7}))))(64, 64)) == ("exact", 1)


def test_siblings_are_tried_in_the_order_listed(loaded: Callable[..., Find]) -> None:
    rows = (entry(64, 64, "nvidia-h200", block=1), entry(64, 64, "nvidia-h100-sxm", block=2))
    assert found(loaded(table(*rows))(64, 64, "nvidia-h100-pcie")) == ("sibling", 2)
    clear()
    info = DeviceInfo.of(target("nvidia-h100-pcie"))
    turned = DeviceInfo(info.vendor, info.arch, info.sm_or_cu_count, info.mem_gb, info.smem_per_block,
                        siblings=("nvidia-h200",))  # fmt: skip
    devices = {n: DeviceInfo.of(target(n)) for n in ("nvidia-h200", "nvidia-h100-sxm")} | {"nvidia-h100-pcie": turned}
    assert found(loaded(table(*rows, devices=devices))(64, 64, "nvidia-h100-pcie")) == ("sibling", 1)


def test_the_portfolios_row_that_won_nearest_is_taken(loaded: Callable[..., Find]) -> None:
    rows = (portfolio(1, problem=problem(64, 64)), portfolio(2, problem=problem(8192, 64)), portfolio(3))
    find = loaded(table(portfolio=rows))
    assert found(find(10_000, 64)) == ("arch_portfolio", 2)
    assert found(find(16, 64)) == ("arch_portfolio", 1)
    assert found(find(0, 0, problem=problem(64, 64, dtype="float32"))) == ("arch_portfolio", 3)


def test_what_was_not_measured_here_must_meet_its_requirements(loaded: Callable[..., Find]) -> None:
    rows = (
        entry(64, 64, "nvidia-h100-sxm", block=1, requirements=fails()),
        entry(128, 64, block=2, requirements=fails()),
        entry(512, 64, block=3, requirements=fails()),
    )
    undecided = (Requirement("undecided", Expr.sym("who.knows").eq(1), "cannot be decided"),)
    fallbacks = (portfolio(4, requirements=fails()), portfolio(5, requirements=undecided), portfolio(6))
    find = loaded(table(*rows, portfolio=fallbacks))
    assert found(find(128, 64)) == ("exact", 2)  # measured here: it ran
    assert found(find(64, 64)) == ("arch_portfolio", 6)
    assert stats()["constraint"] == 3
    clear()
    sizes = (Requirement("divisible", (Expr.sym("x.shape.0") % 64).eq(0), "rows must divide by 64"),)
    find = loaded(table(entry(64, 64, requirements=sizes), entry(512, 64, requirements=sizes)))
    assert found(find(128, 64))[0] == "near"
    assert find(130, 64) is None


def test_a_binary_too_large_for_the_device_is_passed_over(loaded: Callable[..., Find]) -> None:
    from tileflow.runtime import Resources

    launches = launches_of([binary(target="nvidia-h100-sxm", resources=Resources(32, 0, 200_000, 128))])
    row = portfolio(1, "sm_120", launches=launches)  # 200 KB: an H100 has it, a 5090 has 99
    assert loaded(table(portfolio=(row,)))(64, 64, "nvidia-rtx5090") is None
    assert stats()["constraint"] == 1


def test_running_out_of_resources_moves_on_and_is_remembered(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64, block=1), entry(80, 64, block=2)))
    first = find(64, 64)
    assert found(first) == ("exact", 1)
    assert first is not None
    reject(first, KERNEL, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    assert found(find(64, 64)) == found(find(64, 64)) == ("near", 2)
    assert found(find(70, 64)) == ("near", 2)
    assert stats()["out_of_resources"] == 2


def test_strict_raises_in_place_of_falling_back(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64), entry(512, 64), default=Fallback(Config.of({"a": 1}))), strict=True)
    assert found(find(64, 64))[0] == "exact"
    for m, device in ((100, "nvidia-h200"), (64, "nvidia-h100-sxm"), (64, "amd-mi300x"), (64, None)):
        with pytest.raises(TableError, match="strict lookup"):
            find(m, 64, device)
    clear()
    with pytest.raises(TableError, match="no row"):
        loaded(table(entry(64, 64)), strict=True)(8192, 64)


def test_as_device_answers_as_that_device_on_any_machine(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64)), as_device="nvidia-h200")
    for live in (None, "amd-mi300x", "nvidia-a100"):
        hit = find(64, 64, live)
        assert hit is not None
        assert (hit.step, hit.device) == ("exact", "nvidia-h200")
    with pytest.raises(SpecError, match="in the catalogue"):
        load("anywhere", as_device="nvidia-h300")


def test_the_table_loaded_last_goes_first(loaded: Callable[..., Find]) -> None:
    assert found(loaded(table(entry(64, 64, block=1)), table(entry(64, 64, block=2)))(64, 64)) == ("exact", 2)


def test_rows_of_two_loads_for_one_call_are_said_and_one_of_them_serves_whatever_wrote_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The later load went first without a word, whichever bundle that was."""
    old = table(entry(64, 64, block=1), entry(64, 32, block=1), created_by=CreatedBy("0.0.9"))
    modelled = entry(64, 32, block=2, origin="modelled", measured_on="")
    new = table(entry(64, 64, block=2), modelled, created_by=CreatedBy("0.1.0"))
    for name, one in (("old", old), ("new", new)):
        write_bundle([one], [], tmp_path / name)
        load(tmp_path / name)
    served = [found(lookup(KERNEL, HASH, problem(64, n), "nvidia-h200")) for n in (64, 32)]
    assert served == [("exact", 2), ("exact", 1)]  # what was measured before what was modelled
    (said,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and "same calls" in r.getMessage()]
    assert str(tmp_path / "old") in said and "tileflow 0.0.9 wrote" in said
    assert f"2 rows of {KERNEL}" in said and "1 of these are served as loaded now, 1 as before" in said
    caplog.clear()
    load(tmp_path / "new")
    load(tmp_path / "old")  # takes its own place, and goes first now
    assert found(lookup(KERNEL, HASH, problem(64, 64), "nvidia-h200")) == ("exact", 1)
    assert sum("same calls" in r.getMessage() for r in caplog.records) == 1


# ---- mistakes of other tables -------------------------------------------------------------------------------------


def test_another_version_of_the_kernel_is_never_used(
    loaded: Callable[..., Find], caplog: pytest.LogCaptureFixture
) -> None:
    stale = table(entry(64, 64, block=1), default=Fallback(Config.of({"block:tile": 1})), semantic_hash="0" * 64)
    find = loaded(stale)
    assert find(64, 64) is None
    assert find(64, 64) is None
    assert stats()["other_version"] == 2
    assert sum("another version" in r.getMessage() for r in caplog.records) == 1
    assert found(loaded(table(entry(64, 64, block=2)))(64, 64)) == ("exact", 2)
    clear()
    with pytest.raises(TableError, match="of this version of the kernel"):
        loaded(stale, strict=True)(64, 64)


def test_a_lookup_does_not_ignore_the_device(loaded: Callable[..., Find]) -> None:
    names = ("nvidia-h100-pcie", "nvidia-h100-sxm", "nvidia-h200", "nvidia-a100", "amd-mi300x", "amd-mi350x")
    find = loaded(table(*(entry(64, 64, name, block=i) for i, name in enumerate(names))))
    assert [found(find(64, 64, name)) for name in names] == [("exact", i) for i in range(len(names))]


def test_rows_never_cross_vendors(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64), portfolio=(portfolio(1, "sm_90a"),)))
    assert find(64, 64, "amd-mi300x") is None


def test_categories_must_be_equal(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64), entry(512, 512)))
    for other in (problem(128, 64, dtype="float16"), problem(128, 64, aligned=False)):
        assert find(0, 0, problem=other) is None


def test_nothing_is_extrapolated_and_one_devices_range_is_not_anothers(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64), entry(128, 64), entry(64, 64, "nvidia-a100"), entry(8192, 64, "nvidia-a100")))
    assert find(63, 64) is None
    assert find(129, 64) is None
    assert find(100, 65) is None
    assert found(find(100, 64))[0] == "near"


def test_a_new_toolchain_orphans_no_row_but_is_said(
    loaded: Callable[..., Find], caplog: pytest.LogCaptureFixture
) -> None:
    validators = (Validator("torch", "1.0.0", "warn"), Validator("driver", "535.1", "info"))
    with caplog.at_level(logging.INFO, logger="tileflow.runtime"):
        find = loaded(table(entry(64, 64), validators=validators))
    assert [r.getMessage().split(" | ")[2].split(",")[0] for r in caplog.records] == [
        "the table was made with torch 1.0.0"
    ]
    assert found(find(64, 64))[0] == "exact"


@pytest.mark.parametrize("name", ["torch", "flux_capacitor", "launch_abi"])
def test_what_a_table_requires_is_checked_when_it_is_loaded(name: str, loaded: Callable[..., Find]) -> None:
    with pytest.raises(TableError, match=f"requires its {name}, but got 0.1, here"):
        loaded(table(entry(64, 64), validators=(Validator(name, "0.1", "require"),)))
    loaded(table(entry(64, 64), validators=(Validator("semantic_hash", HASH, "require"),)))


def test_a_directory_serves_its_default_whatever_its_files_are_called(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"must hold \*\.json"):
        load(tmp_path)
    dump_table(table(default=Fallback(Config.of({"block:tile": 7}))), tmp_path / "any.name.at.all.json")
    (one,) = load(tmp_path)
    assert one.default is not None
    assert found(lookup(KERNEL, HASH, problem(3, 5), "nvidia-rtx5090")) == ("default", 7)


# ---- binaries -----------------------------------------------------------------------------------------------------


def test_static_code_serves_its_own_problem_and_machine_code_its_own_arch(tmp_path: Path) -> None:
    static, dynamic = binary(b"static"), binary(b"dynamic", mode="dynamic")
    rows = (entry(64, 64, launches=launches_of([static, dynamic])), entry(512, 64))
    fallback = portfolio(5, launches=launches_of([dynamic]))
    write_bundle([table(*rows, portfolio=(fallback,))], [static, dynamic], tmp_path / "bundle")
    load(tmp_path / "bundle")

    def codes(m: int, device: str, n: int = 64) -> list[bytes] | None:
        hit = lookup(KERNEL, HASH, problem(m, n), device)
        assert hit is not None
        regions = hit.binaries()
        return None if regions is None else [b.code for b in regions[0]]

    assert codes(64, "nvidia-h200") == [b"static", b"dynamic"]
    assert codes(70, "nvidia-h200") == [b"dynamic"]
    assert codes(64, "nvidia-h100-sxm") == [b"static", b"dynamic"]  # a sibling of the same arch
    assert codes(512, "nvidia-h200") is None  # a row without binaries
    assert codes(9000, "nvidia-h200") == [b"dynamic"]
    assert codes(64, "nvidia-a100") is None  # the portfolio's config, but sm_90a code


@pytest.mark.parametrize("place", [None, b"bundle", ["bundle"], 3, ""])
def test_what_is_no_path_is_refused_in_words(place: Any) -> None:
    """It was a bare TypeError of pathlib's; the empty text was the folder that the program is in."""
    calls: list[Callable[[], Any]] = [
        lambda: load(place), lambda: unload(place), lambda: load_bundle(place), lambda: load_table(place),
        lambda: write_bundle([], [], place), lambda: dump_table(table(), place),
        lambda: snapshots.list_snapshots(place),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(SpecError, match="is named by its path, a str or a pathlib") as refused:
            call()
        assert type(place).__name__ in str(refused.value.got) and refused.value.hint


def _bundle(root: Path, *codes: str) -> None:
    built = [binary(code.encode()) for code in codes]
    rows = [entry(64 * i, 64, launches=launches_of([one])) for i, one in enumerate(built, 1)]
    write_bundle([table(*rows)], built, root)


def test_a_kernel_that_was_withdrawn_serves_no_more_once_its_bundle_is_loaded_again(tmp_path: Path) -> None:
    _bundle(tmp_path / "b", "bad")
    load(tmp_path / "b")
    snapshots.withdraw(tmp_path / "b", KERNEL)
    assert load(tmp_path / "b") == () == loaded_tables()
    assert lookup(KERNEL, HASH, problem(64, 64), "nvidia-h200") is None


def test_a_relative_path_is_the_place_that_it_was_when_it_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        _bundle(tmp_path / folder / "b", folder)
        monkeypatch.chdir(tmp_path / folder)
        load("b", check="lazy")
    assert len(loaded_tables()) == 2
    (tmp_path / "third").mkdir()
    monkeypatch.chdir(tmp_path / "third")
    hit = lookup(KERNEL, HASH, problem(64, 64), "nvidia-h200")
    assert hit is not None
    (launches,) = (hit.binaries() or {}).values()
    assert [one.code for one in launches] == [b"other"]
    with pytest.raises(TableError, match="must be loaded"):
        unload("b")
    assert len(unload(tmp_path / "one" / "b")) == 1 == len(loaded_tables())


def test_a_link_is_read_where_it_led_when_it_was_loaded_and_anew_when_it_is_loaded_again(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        _bundle(tmp_path / name, name)
    link = tmp_path / "current"
    link.symlink_to("v1")
    load(link, check="lazy")
    link.unlink()
    link.symlink_to("v2")

    def code() -> bytes:
        hit = lookup(KERNEL, HASH, problem(64, 64), "nvidia-h200")
        assert hit is not None
        (found,) = (hit.binaries() or {})[0]
        return found.code

    assert code() == b"v1"
    load(link, check="lazy")
    assert code() == b"v2" and len(loaded_tables()) == 1
    assert len(unload(tmp_path / "v2" / "snapshots" / load_bundle(link).digest)) == 1


def test_hidden_files_in_a_folder_of_tables_are_not_its_tables(tmp_path: Path) -> None:
    dump_table(table(entry(64, 64)), tmp_path / "t.json")
    (tmp_path / "._t.json").write_bytes(b"\x00\x05\x16\x07")
    assert len(load(tmp_path)) == 1


def test_what_misses_do_is_set_before_or_after_tables_are_loaded(tmp_path: Path) -> None:
    """What was set after a load did nothing for its kernels."""
    dump_table(table(entry(64, 64)), tmp_path / "a.json")
    load(tmp_path / "a.json")
    assert on_miss(KERNEL) == "default"
    set_on_miss("error")
    assert on_miss(KERNEL) == "error"
    load(tmp_path / "a.json", on_miss="reference")
    set_on_miss("compile")
    assert (on_miss(KERNEL), on_miss("other:kernel")) == ("reference", "compile")
    _bundle(tmp_path / "b", "code")
    load(tmp_path / "b")  # and does not say
    assert on_miss(KERNEL) == "reference"
    unload(tmp_path / "a.json")
    assert on_miss(KERNEL) == "compile"


def test_a_table_that_was_written_again_takes_its_own_place(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    first, second = table(entry(64, 64), entry(128, 64)), table(entry(128, 64))
    dump_table(first, file)
    load(file)
    dump_table(second, file, replaces=first.table_id)
    load(file)
    assert loaded_tables() == (second,)
    load(tmp_path)  # another place: it goes first, and the same table is not looked at twice
    assert loaded_tables() == (second,)
    assert unload(tmp_path) == (second,)


def test_a_row_that_ran_out_of_resources_takes_no_other_row_of_its_config_with_it(loaded: Callable[..., Find]) -> None:
    find = loaded(table(entry(64, 64), entry(65536, 64)))
    large = find(65536, 64)
    assert large is not None and large.step == "exact"
    reject(large, KERNEL, "too much shared memory")
    other = find(64, 64)
    assert other is not None and (other.step, other.row.config) == ("exact", large.row.config)
    assert (again := find(65536, 64)) is None or again.row is not large.row


def test_a_check_that_there_is_not_is_refused_of_a_table_too(tmp_path: Path) -> None:
    """A table's file took any word, which the bundle in its place refused in production."""
    dump_table(table(), tmp_path / "t.json")
    for place in (tmp_path, tmp_path / "t.json"):
        with pytest.raises(TableError, match="check must be one of all, lazy"):
            load(place, check="none")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", [3, b"nvidia-h200", ["nvidia-h200"]])
def test_what_is_no_device_class_is_refused_in_words(device: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a device class must be in the catalogue"):
        load(tmp_path, as_device=device)
