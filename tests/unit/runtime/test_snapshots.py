"""Snapshots: readers keep what they loaded, writers that die change nothing, rows go and come back (finding 12)."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tile_testing import DATA
from tile_testing.fakes import runtime_examples as examples

from tileflow.errors import SpecError, TableError
from tileflow.runtime import (
    Binary,
    Bundle,
    Fallback,
    KernelId,
    Problem,
    Table,
    Variant,
    launches_of,
    load_bundle,
    merge,
    write_bundle,
)
from tileflow.runtime import bundle as bundles
from tileflow.runtime.bundle import digest_of, variants_of
from tileflow.runtime.snapshots import list_snapshots, prune, replace, require_place, switch, take_over, withdraw

binary, entry, problem, table = examples.binary, examples.entry, examples.problem, examples.table
KERNEL = examples.KERNEL
OLD = DATA / "formats" / "bundle_of_schema_1"


def one(code: bytes, m: int = 64, **changes: Any) -> tuple[list[Table], list[Binary]]:
    """A bundle's content: one row whose machine code is ``code``."""
    built = binary(code)
    return [table(entry(m, 64, launches=launches_of([built])), **changes)], [built]


def write(root: Path, code: bytes, **options: Any) -> Bundle:
    return write_bundle(*one(code), root, **options)


def variant(bundle: Bundle) -> Variant:
    return next(variants_of(bundle.tables))


def code_of(bundle: Bundle) -> bytes:
    return bundle.binary(0, variant(bundle)).code


def test_a_bundle_that_is_written_again_serves_who_loaded_it_before(tmp_path: Path) -> None:
    """Finding 12: binaries were pruned under servers that had yet to read them."""
    write(tmp_path / "b", b"first")
    lazy, whole = load_bundle(tmp_path / "b", "lazy"), load_bundle(tmp_path / "b")
    write(tmp_path / "b", b"second")
    assert code_of(lazy) == code_of(whole) == b"first"
    assert code_of(load_bundle(tmp_path / "b", "lazy")) == b"second"


def test_a_bundle_that_was_read_whole_needs_the_disk_no_more(tmp_path: Path) -> None:
    bundle = write(tmp_path / "b", b"first")
    shutil.rmtree(tmp_path / "b")
    assert code_of(bundle) == b"first"


def test_a_snapshot_is_named_by_a_digest_of_tables_and_binaries(tmp_path: Path) -> None:
    first, again = write(tmp_path / "a", b"first"), write(tmp_path / "b", b"first")
    assert first.digest == again.digest == first.path.name == digest_of(first.tables)
    assert first.origin == tmp_path / "a" and first.path == tmp_path / "a" / "snapshots" / first.digest
    other = write(tmp_path / "b", b"second")
    assert other.digest != first.digest
    assert write_bundle([], [], tmp_path / "c").digest not in (first.digest, other.digest)


def test_writing_the_same_again_makes_no_snapshot(tmp_path: Path) -> None:
    first = write(tmp_path / "b", b"first")
    inode = (first.path / "bundle.json").stat().st_ino
    assert write(tmp_path / "b", b"first") == first
    assert (first.path / "bundle.json").stat().st_ino == inode
    assert [s.digest for s in list_snapshots(tmp_path / "b")] == [first.digest]


def test_a_snapshot_alone_is_a_bundle(tmp_path: Path) -> None:
    bundle = write(tmp_path / "b", b"first")
    shutil.copytree(bundle.path, tmp_path / "elsewhere")
    alone = load_bundle(tmp_path / "elsewhere")
    assert (alone.digest, alone.tables, code_of(alone)) == (bundle.digest, bundle.tables, b"first")
    assert [(s.digest, s.is_current) for s in list_snapshots(tmp_path / "elsewhere")] == [(bundle.digest, True)]


def test_an_exchanged_snapshot_is_refused(tmp_path: Path) -> None:
    first, second = write(tmp_path / "b", b"first"), write(tmp_path / "b", b"second")
    shutil.rmtree(second.path)
    shutil.copytree(first.path, second.path)
    with pytest.raises(TableError, match="digest that is its name"):
        load_bundle(tmp_path / "b")
    assert write(tmp_path / "b", b"second") == second  # and exporting again mends it


def test_a_snapshot_is_never_changed(tmp_path: Path) -> None:
    bundle = write(tmp_path / "b", b"first")
    with pytest.raises(TableError, match="a snapshot must not be changed"):
        write(bundle.path, b"second")
    with pytest.raises(TableError, match="a snapshot must not be changed"):
        withdraw(bundle.path, KERNEL)


# ---- switching ----------------------------------------------------------------------------------------------------


def test_switching_back_and_forth(tmp_path: Path) -> None:
    first, second, third = (write(tmp_path / "b", code) for code in (b"1", b"2", b"3"))
    assert [s.digest for s in list_snapshots(tmp_path / "b")] == [third.digest, second.digest, first.digest]
    assert switch(tmp_path / "b") == second == load_bundle(tmp_path / "b")
    assert switch(tmp_path / "b") == third
    assert switch(tmp_path / "b", first.digest[:8]) == first
    assert [s.digest for s in list_snapshots(tmp_path / "b")] == [first.digest, third.digest, second.digest]
    assert [s.is_current for s in list_snapshots(tmp_path / "b")] == [True, False, False]


def test_switching_to_what_is_not_there_or_damaged_changes_nothing(tmp_path: Path) -> None:
    only = write(tmp_path / "b", b"1")
    with pytest.raises(TableError, match="exactly one such snapshot"):
        switch(tmp_path / "b")
    with pytest.raises(TableError, match=f"but got 0 for 'beef'(.|\n)*{only.digest[:12]}"):
        switch(tmp_path / "b", "beef")
    with pytest.raises(TableError, match="but got 0 for ''"):  # a script's variable that is not set
        switch(tmp_path / "b", "")
    second = write(tmp_path / "b", b"2")
    next((only.path / "binaries").iterdir()).write_bytes(b"evil")
    with pytest.raises(TableError, match="digest that is its name"):
        switch(tmp_path / "b")
    assert load_bundle(tmp_path / "b") == second
    with pytest.raises(TableError, match="readable manifest"):
        switch(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_beginning_of_several_digests_is_refused(tmp_path: Path) -> None:
    begins = Counter(write(tmp_path / "b", bytes([number])).digest[0] for number in range(17))
    several = next(digit for digit, number in begins.items() if number > 1)  # of 16 digits, one at least
    with pytest.raises(TableError, match=f"but got {begins[several]} for '{several}'"):
        switch(tmp_path / "b", several)


def test_a_snapshot_that_was_copied_in_can_be_switched_to(tmp_path: Path) -> None:
    theirs = write(tmp_path / "theirs", b"2")
    write(tmp_path / "b", b"1")
    shutil.copytree(theirs.path, tmp_path / "b" / "snapshots" / theirs.digest)
    assert [s.digest for s in list_snapshots(tmp_path / "b")][-1] == theirs.digest
    assert switch(tmp_path / "b", theirs.digest).digest == theirs.digest


def test_readers_see_one_snapshot_or_the_other_while_a_writer_switches(tmp_path: Path) -> None:
    written = {write(tmp_path / "b", code).digest: code for code in (b"1", b"2")}
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            switch(tmp_path / "b")

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for n in range(60):
            bundle = load_bundle(tmp_path / "b", "lazy" if n % 2 else "all")
            assert code_of(bundle) == written[bundle.digest]
    finally:
        stop.set()
        thread.join()


def test_a_reader_keeps_to_what_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the layout of an older version becomes snapshots under it."""
    old = write(tmp_path / "written", b"old")
    shutil.copytree(old.path, tmp_path / "b")
    read = bundles._content

    def read_then_switch(root: Path) -> Any:
        data = read(root)
        monkeypatch.setattr(bundles, "_content", read)
        write(tmp_path / "b", b"new")
        return data

    monkeypatch.setattr(bundles, "_content", read_then_switch)
    began = load_bundle(tmp_path / "b", "lazy")
    assert (began.digest, code_of(began)) == (old.digest, b"old")
    assert code_of(load_bundle(tmp_path / "b")) == b"new"


def test_a_snapshot_that_is_pruned_while_it_is_read_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "b", b"first")
    overtaken = [b"second", b"third"]
    read = bundles.read_inside

    def overtaking(root: Any, *names: str, most: int) -> bytes:
        if names[0] == "binaries" and overtaken:
            with monkeypatch.context() as patch:
                patch.setattr(bundles, "read_inside", read)
                write(tmp_path / "b", overtaken.pop(0), keep=1)
        return read(root, *names, most=most)

    monkeypatch.setattr(bundles, "read_inside", overtaking)
    assert code_of(load_bundle(tmp_path / "b")) == b"third"
    shutil.rmtree(load_bundle(tmp_path / "b").path / "binaries")
    with pytest.raises(TableError, match="every binary"):  # nothing took its place
        load_bundle(tmp_path / "b")


@pytest.mark.parametrize("name", [".DS_Store", ".nfs000000000001", ".fseventsd"])
def test_what_others_leave_among_snapshots_is_left_alone(name: str, tmp_path: Path) -> None:
    first = write(tmp_path / "b", b"first")
    (first.path.parent / name).write_text("not ours")
    dead = first.path.parent / f".{first.digest}.new"
    dead.mkdir()
    write(tmp_path / "b", b"second", keep=1)
    assert (first.path.parent / name).read_text() == "not ours" and not dead.exists()


def test_a_bundle_that_may_not_be_changed_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "b", b"first")
    write(tmp_path / "b", b"second")
    monkeypatch.setattr("tileflow.runtime.files.os.access", lambda path, mode: False)  # root may write everywhere
    for change in (
        lambda: switch(tmp_path / "b"),
        lambda: prune(tmp_path / "b", 1),
        lambda: write(tmp_path / "b", b"3"),
    ):
        with pytest.raises(SpecError, match="a folder that this process may change"):
            change()


def test_of_writers_at_once_none_is_lost(tmp_path: Path) -> None:
    write_bundle([], [], tmp_path)
    tables = [Table.of(KernelId.of(f"kernels:k{n}", examples.HASH), ()) for n in range(6)]
    threads = [threading.Thread(target=replace, args=(tmp_path, [t])) for t in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {t.kernel.ref for t in load_bundle(tmp_path).tables} == {t.kernel.ref for t in tables}
    assert len(list_snapshots(tmp_path)) == 7


# ---- dying --------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """The process ended here."""


def steps(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch, die_at: int | None) -> int:
    """Run ``action``, counting the steps that change names on disk; raises Died before the step ``die_at``."""
    taken = 0
    with monkeypatch.context() as patch:
        for name in ("replace", "rename", "mkdir", "rmdir"):
            real = getattr(os, name)

            def counted(*args: Any, real: Callable[..., Any] = real, **kwargs: Any) -> Any:
                nonlocal taken
                if taken == die_at:
                    raise Died
                taken += 1
                return real(*args, **kwargs)

            patch.setattr(os, name, counted)
        action()
    return taken


@pytest.mark.parametrize("layout", ["snapshots", "old"])
def test_a_writer_that_dies_between_two_steps_leaves_the_current_snapshot(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write(tmp_path / "written", b"old")

    def prepared(name: str) -> Path:
        shutil.copytree(old.path if layout == "old" else old.origin, tmp_path / name)
        return tmp_path / name

    root = prepared("count")
    before = load_bundle(root).digest
    count = steps(lambda: write(root, b"new"), monkeypatch, None)
    after = load_bundle(root).digest
    assert count >= 7 and before != after
    for step in range(count):
        root = prepared(f"dies-{step}")
        with pytest.raises(Died):
            steps(lambda root=root: write(root, b"new"), monkeypatch, step)  # type: ignore[misc]
        assert load_bundle(root).digest == before, step  # the switch is the last step
        assert write(root, b"new").digest == after
        assert not [p for p in root.rglob(".*") if p.name != ".lock"]  # nothing is left of the dead


def test_a_first_write_that_died_can_be_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Died):
        steps(lambda: write(tmp_path / "b", b"new"), monkeypatch, 4)
    with pytest.raises(TableError, match="readable manifest"):
        load_bundle(tmp_path / "b")
    assert code_of(write(tmp_path / "b", b"new")) == b"new"


# ---- the layout of older versions ---------------------------------------------------------------------------------


def test_an_old_bundle_becomes_a_snapshot_that_one_can_go_back_to(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "b")
    lazy, whole = load_bundle(tmp_path / "b", "lazy"), load_bundle(tmp_path / "b")
    new = write(tmp_path / "b", b"new")
    assert load_bundle(tmp_path / "b") == new
    variants = list(variants_of(lazy.tables))
    assert variants
    for v in variants:  # a server that reads lazily where the files were
        assert lazy.binary(0, v).code == whole.binary(0, v).code
    back = switch(tmp_path / "b")
    assert (back.digest, back.tables) == (whole.digest, whole.tables)
    prune(tmp_path / "b", keep=1)
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == [".lock", "bundle.json", "snapshots"]
    assert load_bundle(tmp_path / "b").digest == whole.digest


def test_a_damaged_old_bundle_can_be_written_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(OLD, tmp_path / "b")
    next((tmp_path / "b" / "binaries").iterdir()).write_bytes(b"evil")
    with pytest.raises(TableError, match="must be whole to be pruned"):
        prune(tmp_path / "b", keep=1)
    assert code_of(write(tmp_path / "b", b"new")) == b"new"
    assert "damaged, and not kept" in caplog.text


def test_a_bad_count_of_snapshots_is_refused_before_anything_changes(tmp_path: Path) -> None:
    """The new snapshot was switched to before the count was looked at."""
    root, other = tmp_path / "b", tmp_path / "other"
    first = write(root, b"1")
    write(other, b"2")
    before = sorted(root.rglob("*"))
    writers: list[Callable[[], object]] = [
        lambda: write(root, b"2", keep=0),
        lambda: replace(root, *one(b"2"), keep=-1),
        lambda: take_over(root, other, keep=0),
        lambda: withdraw(root, KERNEL, keep=0),
        lambda: prune(root, 0),
        lambda: write(tmp_path / "new", b"2", keep=0),
    ]
    for writer in writers:
        with pytest.raises(TableError, match="keep its current snapshot"):
            writer()
    with pytest.raises(TableError, match="a whole number of snapshots"):
        prune(root, "1")  # type: ignore[arg-type]
    assert load_bundle(root) == first and sorted(root.rglob("*")) == before and not (tmp_path / "new").exists()


def test_a_bundle_s_place_is_looked_at_before_it_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((TableError, SpecError)):
            require_place(place)
    require_place(tmp_path / "new" / "below")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# ---- pruning ------------------------------------------------------------------------------------------------------


def test_snapshots_go_when_asked(tmp_path: Path) -> None:
    digests = [write(tmp_path / "b", code).digest for code in (b"1", b"2", b"3")]
    assert prune(tmp_path / "b", keep=2) == (digests[0],)
    assert [s.digest for s in list_snapshots(tmp_path / "b")] == [digests[2], digests[1]]
    with pytest.raises(TableError, match="keep its current snapshot"):
        prune(tmp_path / "b", keep=0)
    last = write(tmp_path / "b", b"4", keep=1)
    assert [s.digest for s in list_snapshots(tmp_path / "b")] == [last.digest]
    assert [p.name for p in (tmp_path / "b" / "snapshots").iterdir()] == [last.digest]


# ---- rows ---------------------------------------------------------------------------------------------------------


def several(root: Path) -> Bundle:
    """Two devices, two problems, a portfolio with machine code of each device, defaults, another kernel."""
    rows, code = [], []
    for device in ("nvidia-h200", "nvidia-a100"):
        for m in (64, 128):
            built = binary(f"{device} {m}".encode(), target=device)
            code.append(built)
            rows.append(entry(m, 64, device, launches=launches_of([built])))
    arch = {"nvidia-h200": "sm_90a", "nvidia-a100": "sm_80"}
    portfolio = tuple(
        Fallback(r.config, "nvidia", arch[r.device], r.problem, r.launches)
        for r in rows
        if r.problem == rows[0].problem
    )
    generic = {d: binary(f"default {d}".encode(), mode="dynamic", target=d) for d in arch}
    defaults = {
        d: (Fallback(rows[0].config, "nvidia", arch[d], rows[0].problem, launches_of([b])),) for d, b in generic.items()
    }
    other = Table.of(KernelId.of("kernels:other", examples.HASH), ())
    mine = table(*rows, portfolio=portfolio, defaults=defaults)
    return write_bundle([mine, other], [*code, *generic.values()], root)


def names(bundle: Bundle) -> list[str]:
    """What machine code a bundle has."""
    return sorted(path.read_bytes().decode() for path in (bundle.path / "binaries").iterdir())


def test_withdrawing_a_row_takes_it_out_of_the_portfolio_too(tmp_path: Path) -> None:
    before = several(tmp_path)
    key = problem(64, 64).key
    after = withdraw(tmp_path, KERNEL, "nvidia-h200", key)
    (mine,) = [t for t in after.tables if t.kernel.ref == KERNEL]
    assert [(e.device, e.problem.key == key) for e in mine.entries] == [
        ("nvidia-a100", False), ("nvidia-a100", True), ("nvidia-h200", False)
    ]  # fmt: skip
    assert [r.arch for r in mine.portfolio] == ["sm_80"]
    assert mine.domain["nvidia-h200"]["x.shape.0"] == (128, 128)
    assert set(names(before)) - set(names(after)) == {"nvidia-h200 64"}
    assert mine.parent_table_id in {t.table_id for t in before.tables}
    assert switch(tmp_path) == before


def test_withdrawing_a_device_takes_its_defaults(tmp_path: Path) -> None:
    several(tmp_path)
    after = withdraw(tmp_path, KERNEL, device="nvidia-a100")
    assert names(after) == ["default nvidia-h200", "nvidia-h200 128", "nvidia-h200 64"]


def test_withdrawing_a_problem_of_every_device(tmp_path: Path) -> None:
    several(tmp_path)
    after = withdraw(tmp_path, KERNEL, problem=problem(128, 64).key)
    assert names(after) == ["default nvidia-a100", "default nvidia-h200", "nvidia-a100 64", "nvidia-h200 64"]


def test_withdrawing_a_kernel_leaves_the_others(tmp_path: Path) -> None:
    several(tmp_path)
    after = withdraw(tmp_path, KERNEL, keep=1)
    assert [t.kernel.ref for t in after.tables] == ["kernels:other"] and names(after) == []
    assert len(list_snapshots(tmp_path)) == 1


def test_withdrawing_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    before = several(tmp_path)
    with pytest.raises(TableError, match=r"must have the kernel(.|\n)*it has kernels:other, kernels:softmax"):
        withdraw(tmp_path, "kernels:none")
    with pytest.raises(TableError, match=r"must have the row(.|\n)*it has nvidia-h200 x=bfloat16"):
        withdraw(tmp_path, KERNEL, "nvidia-h200", "x=bfloat16[1x1]")
    with pytest.raises(TableError, match=r"none of nvidia-h20 for any problem(.|\n)*it has nvidia-a100 x=bfloat16"):
        withdraw(tmp_path, KERNEL, "nvidia-h20")
    assert load_bundle(tmp_path) == before


def test_replacing_a_kernels_rows_leaves_the_others(tmp_path: Path) -> None:
    before = several(tmp_path)
    tables, code = one(b"better", 256)
    after = replace(tmp_path, tables, code)
    assert {t.kernel.ref for t in after.tables} == {KERNEL, "kernels:other"} and names(after) == ["better"]
    switch(tmp_path)
    (mine,) = [t for t in before.tables if t.kernel.ref == KERNEL]
    merged = replace(tmp_path, [merge(mine, tables[0])], code)  # the old rows' machine code is there already
    assert set(names(merged)) == {*names(before), "better"}
    with pytest.raises(TableError, match="every binary that a table names"):
        replace(tmp_path, one(b"unbuilt", 512)[0])


def test_a_default_must_fit_its_table(tmp_path: Path) -> None:
    rows, _ = one(b"1")
    config = rows[0].entries[0].config
    other = Problem("kernels:other", problem(64, 64).args)
    for device, row, message in (
        ("nvidia-h300", Fallback(config, "nvidia", "sm_90a", problem(64, 64)), "among the table's devices"),
        ("nvidia-h200", Fallback(config, "nvidia", "sm_80", problem(64, 64)), "must be of nvidia sm_90a"),
        ("nvidia-h200", Fallback(config, "nvidia", "sm_90a"), "for which kinds of arguments"),
        ("nvidia-h200", Fallback(config, "nvidia", "sm_90a", other), "for which kinds of arguments"),
    ):
        with pytest.raises(TableError, match=message):
            table(*rows[0].entries, defaults={device: (row,)})
    twice = (Fallback(config, "nvidia", "sm_90a", problem(64, 64)), Fallback(config, "nvidia", "sm_90a", problem(1, 1)))
    with pytest.raises(TableError, match="one default for each kinds"):
        table(*rows[0].entries, defaults={"nvidia-h200": twice})


def test_manifests_are_data_that_people_can_read(tmp_path: Path) -> None:
    first, second = write(tmp_path, b"1"), write(tmp_path, b"2")
    assert json.loads((tmp_path / "bundle.json").read_text()) == {
        "schema_version": 2, "snapshots": [second.digest, first.digest]
    }  # fmt: skip
    assert json.loads((second.path / "bundle.json").read_text())["schema_version"] == 1
