"""Issue 13, findings 1 and 9, one test each: what an edited table or bundle could do, with its digests recomputed."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.fakes import drivers as fakes
from tile_testing.fakes import runtime_examples as examples
from tile_testing.fakes import table_mutations as mutations
from tile_testing.fakes.signed_tables import parsed, signed, small_table

from tileflow.config import Config
from tileflow.emit import dtypes
from tileflow.errors import CallError, TableError
from tileflow.expr import TRUE, Expr
from tileflow.expr_reader import read_expr
from tileflow.runtime import (
    Binary,
    Bundle,
    LaunchArg,
    Requirement,
    Resources,
    Table,
    dump_table,
    launcher_text,
    launches_of,
    load_bundle,
    load_table,
    lookup,
    packing,
    parse_table,
    table_text,
    write_bundle,
)
from tileflow.runtime import load as register
from tileflow.runtime.abi import TensorMap
from tileflow.runtime.codec import decode, encode, parse_json
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.limits import DTYPES, ELEMENT_WORDS, FLOAT_WORDS, INT_WORDS
from tileflow.runtime.paths import Path as CapturePath
from tileflow.runtime.paths import Symbol
from tileflow.runtime.registry import clear

CODE = mutations.CODE
X, N = Expr.sym("x.shape.0"), Expr.sym("n")


def original() -> Any:
    return json.loads(table_text(examples.table(examples.entry(64, 64, launches=launches_of([examples.binary()])))))


def variant(data: Any) -> Any:
    return data["entries"][0]["launches"][0]["variants"][0]


def refused(change: Callable[[Any], Any], place: str) -> str:
    """The message of the TableError that names ``place``, in no time."""
    data = original()
    change(data)
    text, started = signed(data), time.process_time()
    with pytest.raises(TableError) as caught:
        parse_table(text)
    assert time.process_time() - started < 1
    assert "table_id" not in caught.value.constraint and place in str(caught.value), caught.value
    return str(caught.value)


IN_VARIANT = "entries[0].launches[0].variants[0]"
IN_ABI = f"{IN_VARIANT}.launch_abi"


# ---- 1: code execution --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [[CODE, 1, 1], ["", 0, 1], [1, 1], [1.5, 1, 1], [True, 1, 1], [0, 1, 1], [4, 4, 2]])
def test_finding_1_a_cluster_is_three_small_ints(cluster: Any, canary: Any) -> None:
    refused(lambda d: variant(d)["launch_abi"].update(cluster=cluster), f"{IN_ABI}.cluster")
    assert canary.fired == []


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": (CODE, 1, 1)},
        {"grid": (Expr("const", (CODE,)), Expr.of(1), Expr.of(1))},
        {"scratch": (("global", CODE, 1),)},
    ],
)
def test_finding_1_a_launcher_writes_ints_whatever_it_was_given(change: dict[str, Any], canary: Any) -> None:
    """Also of an ABI that no table was read into."""
    binary = examples.binary()
    binary = dataclasses.replace(binary, abi=dataclasses.replace(binary.abi, **change))
    with pytest.raises((ValueError, TypeError), match=r"literal|type"):
        launcher_text.LauncherWriter(binary, None, KeyInvariants(), None, 0).source()
    assert canary.fired == []


@pytest.mark.parametrize("name", ["threads", "shared"])
def test_finding_1_a_launcher_writes_none_of_what_the_driver_is_given(name: str) -> None:
    binary = examples.binary()
    binary = dataclasses.replace(binary, abi=dataclasses.replace(binary.abi, **{name: CODE}))
    assert CODE not in launcher_text.LauncherWriter(binary, None, KeyInvariants(), None, 0).source()


@pytest.mark.parametrize("number", ["n", "prod"])
def test_finding_1_a_guards_numbers_are_ints(number: str, canary: Any) -> None:
    code = Expr("const", (CODE,))
    guards = Expr("le", (code if number == "n" else Expr("prod", (code, N)), N))
    with pytest.raises((ValueError, TypeError)):
        fakes.launcher(fakes.make_binary(fakes.TENSOR, guards=guards), [ctypes.c_uint64])
    assert canary.fired == []


def test_the_words_of_signatures_are_those_that_are_written_and_packed() -> None:
    assert packing._FORMATS.keys() == INT_WORDS | FLOAT_WORDS
    assert launcher_text._DTYPES.keys() | set(dtypes._SIGNATURE.values()) <= ELEMENT_WORDS
    assert set(launcher_text._DTYPES.values()) | dtypes._TRITON.keys() <= DTYPES


# ---- 9: expressions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["floordiv", "mod", "cdiv"])
@pytest.mark.parametrize("left", [1, {"sym": "x.shape.0"}])
def test_finding_9_a_division_by_the_constant_zero_is_refused(op: str, left: Any) -> None:
    refused(lambda d: variant(d).update(guards=[op, left, 0]), f"{IN_VARIANT}.guards")
    refused(lambda d: variant(d).update(guards=["le", [op, left, ["sum", 1, -1]], 4]), f"{IN_VARIANT}.guards")


def guarded(guards: Expr, **abi: Any) -> tuple[Any, Any]:
    return fakes.launcher(fakes.make_binary(fakes.TENSOR, guards=guards, **abi), [ctypes.c_uint64])


@pytest.mark.parametrize(
    "guards",
    [(X % N).eq(0), (X // N).le(64), X.cdiv(N).lt(99), (X // (Expr.sym("target.sm_count") - 132)).le(1),
     Expr.sym("x.shape.3").le(9), Expr.sym("end.2").le(9), Expr.sym("nothing").le(9), Expr.sym("x").le(9)],
)  # fmt: skip
def test_finding_9_a_guard_without_a_value_does_not_hold(guards: Expr) -> None:
    """A symbol turns out to be zero, an axis is not there, a value has no arithmetic: nothing is launched."""
    launcher, driver = guarded(guards)
    assert launcher({"x": torch.zeros(64), "n": 0, "nothing": None}, (0,), (1,)) is False
    assert driver.launches == []


def test_a_guard_decides_alike_in_a_launcher_and_in_a_lookup() -> None:
    either = N.eq(0).or_((X % N).eq(0))
    for n, x, expected in ((0, 64, True), (16, 64, True), (48, 64, False)):
        launcher, driver = guarded(either)
        assert launcher({"x": torch.zeros(x), "n": n}, (0,), (1,)) is expected
        assert either.holds({"n": n, "x.shape.0": x}) is expected
        assert len(driver.launches) == expected
    assert (X % N).eq(0).holds({"n": 0, "x.shape.0": 64}) is False
    with pytest.raises(ZeroDivisionError):
        (X % N).evaluate({"n": 0, "x.shape.0": 64})


def test_finding_9_a_grid_or_an_argument_without_a_value_is_a_call_error() -> None:
    launcher, driver = guarded(TRUE, grid=(X // N, Expr.of(1), Expr.of(1)))
    with pytest.raises(CallError, match="ZeroDivisionError"):
        launcher({"x": torch.zeros(64), "n": 0}, (0,), (1,))
    binary = fakes.make_binary(fakes.TENSOR, LaunchArg("n", "int", "i32", value=X // N))
    launcher, driver = fakes.launcher(binary, [ctypes.c_uint64, ctypes.c_int32])
    with pytest.raises(CallError, match="ZeroDivisionError"):
        launcher({"x": torch.zeros(64), "n": 0}, (0,), (1,))
    assert driver.launches == []


def test_finding_9_a_requirement_that_divides_by_zero_is_not_met(tmp_path: Path) -> None:
    """A row whose constraint an empty tensor leaves undefined must not break that tensor's lookup."""
    problem = examples.problem(0, 64)
    check = (Expr.of(64) % X).eq(0)
    row = examples.entry(64, 64, requirements=(Requirement("divides", check, "64 rows at a time"),))
    tuned = {"nvidia-h200": {"x.shape.0": (0, 64), "x.shape.1": (64, 64)}}
    dump_table(examples.table(row, domain=tuned), tmp_path / "t.json")
    clear()
    register(tmp_path / "t.json", as_device="nvidia-h200")
    try:
        assert lookup(examples.KERNEL, examples.HASH, problem, "nvidia-h200") is None
    finally:
        clear()


@pytest.mark.parametrize("number", [10**400, 1 << 64, -(1 << 63) - 1])
def test_finding_9_numbers_have_64_bits(number: int) -> None:
    refused(lambda d: variant(d).update(guards=number), "64 bits")
    refused(lambda d: d["entries"][0]["problem"]["args"][0][1].update(shape=[number, 1]), "64 bits")
    refused(lambda d: d["entries"][0].update(best_us=number), "64 bits")
    with pytest.raises(TableError, match="64 bits"):
        examples.table(examples.entry(64, 64, block=number))


@pytest.mark.parametrize(
    "guards", [["next_pow2", (1 << 63) + 1], ["prod", 1 << 40, 1 << 40], ["sum", (1 << 64) - 1, 1]]
)
def test_numbers_that_come_of_reading_have_64_bits(guards: Any) -> None:
    refused(lambda d: variant(d).update(guards=guards), f"{IN_VARIANT}.guards")


def nested(op: str, depth: int) -> Any:
    data: Any = {"sym": "n"}
    for _ in range(depth):
        data = [op, data]
    return data


def test_finding_9_deep_guards_are_refused_and_many_are_not() -> None:
    assert read_expr(nested("not", 31)) == read_expr(nested("not", 31))
    for depth in (33, 250, 600, 900):
        refused(lambda d, depth=depth: variant(d).update(guards=nested("not", depth)), "guards")
    data = original()
    many: Any = 1
    for i in range(350):
        many = ["and", ["le", {"sym": f"v{i}"}, 9], many] if i == 0 else ["and", many, ["le", {"sym": f"v{i}"}, 9]]
    variant(data)["guards"] = many
    table = parsed(data)
    assert parse_table(table_text(table)) == table
    guards = table.entries[0].launches[0].variants[0].guards
    launcher, driver = guarded(guards)
    values = {f"v{i}": i % 9 for i in range(350)}
    assert launcher({"x": torch.zeros(1), **values}, (0,), (1,)) is True
    assert launcher({"x": torch.zeros(1), **values, "v349": 10}, (0,), (1,)) is False
    assert guards.compiled()(values) and guards.holds(values) and len(driver.launches) == 1


def test_a_chain_of_conditions_is_written_as_ever() -> None:
    """Old tables hold it, two by two, and their digests with it."""
    a, b, c = (Expr.sym(n).le(1) for n in "abc")
    left, right = a.and_(b).and_(c), a.and_(b.and_(c))
    assert left.to_json() == ["and", ["and", a.to_json(), b.to_json()], c.to_json()]
    assert right.to_json() == ["and", a.to_json(), ["and", b.to_json(), c.to_json()]]
    assert str(left) == "(((a <= 1) and (b <= 1)) and (c <= 1))"
    assert read_expr(left.to_json()) == left and read_expr(right.to_json()) == right


def test_finding_9_a_product_of_sums_does_not_explode() -> None:
    sums = [["sum", {"sym": f"a{i}"}, {"sym": f"b{i}"}] for i in range(26)]
    refused(lambda d: variant(d).update(guards=["le", ["prod", *sums], 1]), "neither sums nor products")
    refused(lambda d: variant(d).update(guards=["le", ["sum", *range(1000)], 1]), "at most 256 terms")
    refused(lambda d: variant(d).update(guards=["le", ["prod", *[{"sym": "n"}] * 40], 1]), "32 factors")


def test_an_expression_has_a_limited_number_of_nodes_and_brackets() -> None:
    wide = ["sum", *[["min", {"sym": f"a{i}"}, ["max", {"sym": f"b{i}"}, {"sym": f"c{i}"}]] for i in range(250)]]
    refused(lambda d: variant(d).update(guards=["le", wide, ["mod", wide, 7]]), "nodes")
    chain: Any = {"sym": "n"}
    for i in range(4):
        for j in range(60):
            chain = ["or" if i % 2 else "and", chain, {"sym": f"v{i}_{j}"}]
    refused(lambda d: variant(d).update(guards=["not", chain]), "brackets")


# ---- 9: types and ranges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("threads", "128"), ("threads", 0), ("threads", 1025), ("threads", True), ("threads", None), ("shared", -1),
     ("shared", 1 << 21), ("shared", 0.5), ("symbol", 3), ("symbol", "a b"), ("symbol", "a\0"), ("symbol", "a" * 300),
     ("scratch", [["global", "1", 1]]), ("scratch", [["global", 1 << 40, 1]]), ("scratch", [3]), ("grid", [1, 1]),
     ("grid", [1, 1, 1 << 40]), ("grid", [1, 1, {"sym": "x.attr:__class__"}]), ("pdl", 1), ("cooperative", "yes"),
     ("args", {}), ("version", True), ("version", [])],
)  # fmt: skip
def test_finding_9_fields_of_a_launch_abi_are_checked(field: str, value: Any) -> None:
    refused(lambda d: variant(d)["launch_abi"].update({field: value}), "launch_abi")


@pytest.mark.parametrize(
    ("change", "place"),
    [({"path": 3}, "path"), ({"path": ["x"]}, "path"), ({"path": ""}, "args[0]"), ({"path": "x" * 600}, "path"),
     ({"type": "*fp33"}, "type"), ({"type": "i32"}, "type"), ({"kind": "int"}, "args[0]"),
     ({"kind": "descriptor"}, "args[0]"),     ({"value": 3}, "args[0]"), ({"rank": 2}, "args[0]"),
     ({"dtype": "bfloat16", "rank": 65}, "rank"),
     ({"dtype": "nn", "rank": 2}, "dtype"), ({"dtype": CODE, "rank": 2}, "dtype"), 
     ({"divisible_by_16": 1}, "divisible_by_16"), ({"stored": "no"}, "stored"), ({"colour": 1}, "colour")],
)  # fmt: skip
def test_finding_9_fields_of_an_argument_are_checked(change: dict[str, Any], place: str) -> None:
    message = refused(lambda d: variant(d)["launch_abi"]["args"][0].update(change), f"{IN_ABI}.args[0]")
    assert place in message


@pytest.mark.parametrize(
    "change",
    [{"shape": [1, 1, 1]}, {"shape": [1] * 6}, {"shape": []}, {"shape": 3}, {"strides": ["1", 1]}, {"box": [16]},
     {"box": [16, 257]}, {"box": [16, 0]}, {"element_type": "9"}, {"swizzle": 99}, {"element_bytes": -1}],
)  # fmt: skip
def test_a_tensor_map_is_one_that_a_driver_may_be_given(change: dict[str, Any]) -> None:
    data = json.loads(table_text(small_table()))
    variant(data)["launch_abi"]["args"][2]["tensor_map"].update(change)
    with pytest.raises(TableError, match=r"variants\[0\]\.launch_abi\.args\[2\]\.tensor_map"):
        parse_table(signed(data))


@pytest.mark.parametrize(
    "change",
    [{"shape": 64}, {"shape": ["64", 1]}, {"shape": [64]}, {"shape": [-1, 1]}, {"strides": None}, {"strides": [1.0, 1]},
     {"shape": [1] * 65, "strides": [1] * 65}, {"aligned": 1}, {"tensor": 3}, {"scalar": "int"}],
)  # fmt: skip
def test_finding_9_shapes_and_strides_are_checked(change: dict[str, Any]) -> None:
    refused(lambda d: d["entries"][0]["problem"]["args"][0][1].update(change), "entries[0].problem.args[0][1]")


@pytest.mark.parametrize("field", ["shared", "threads", "registers", "spills"])
@pytest.mark.parametrize("value", ["1024", None, -1, 1 << 50, [1]])
def test_finding_9_resources_are_checked(field: str, value: Any) -> None:
    """``shared`` is compared with a device's at lookup."""
    refused(lambda d: variant(d)["resources"].update({field: value}), f"{IN_VARIANT}.resources.{field}")


@pytest.mark.parametrize("value", [3, True, None, "1e-5", "infinity", [1]])
def test_a_scalars_value_is_of_its_type(value: Any) -> None:
    def change(data: Any) -> None:
        data["entries"][0]["problem"]["args"][1][1]["value"] = value

    if value == 3:  # an int where a float is meant is one
        data = original()
        change(data)
        assert parsed(data).entries[0].problem.args[1][1].value == 3.0
    else:
        refused(change, "entries[0].problem.args[1][1].value")


def test_functions_in_functions_end() -> None:
    def change(data: Any) -> None:
        spec: Any = {"callable": "f", "hash": "0", "cells": []}
        for _ in range(200):
            spec = {"callable": "f", "hash": "0", "cells": [["g", spec]]}
        data["entries"][0]["problem"]["args"][0][1] = spec

    refused(change, "levels deep")


@pytest.mark.parametrize(
    "name", ["x.attr:__class__", "x.attr:_x", "x.item:-1", "x.item:" + "9" * 30, "x²", "ﬁ", "1x", "x.y"]
)
def test_paths_are_names_in_the_form_that_python_reads(name: str) -> None:
    with pytest.raises(TableError):
        CapturePath.parse(name)
    with pytest.raises(TableError):
        Symbol.parse(name + ".shape.0")


def test_a_descriptor_s_block_may_be_a_long_row() -> None:
    """A row of 16384 in 8 bits is stored so by a config that a sweep found; its table could not be written."""
    box = TensorMap((Expr.sym("x.shape.0"), Expr.sym("x.shape.1")), (Expr.of(1), Expr.of(1)), (1, 256), 1, 0, 0)
    arg = LaunchArg("x", "descriptor", "tensordesc<fp8e4nv[1, 16384]>", "x", tensor_map=box)
    assert decode(LaunchArg, encode(arg)) == arg


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1e999}', "[NaN]", "9" * 5000, str(1 << 64), "[" * 100_000])
def test_json_that_readers_disagree_about_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"twice|finite|not JSON|64 bits|too deeply"):
        parse_json(text)


def test_text_can_be_encoded_and_is_not_endless() -> None:
    for reason in ("\ud800", "a" * 70_000):
        refused(lambda d, reason=reason: d["entries"][0].update(trial_id=reason), "entries[0].trial_id")


def test_a_field_that_came_later_is_none_of_an_older_schema() -> None:
    """It would be outside the digest."""
    refused(lambda d: d.update(schema_version=1), "schema 1")


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    broken = dataclasses.replace(examples.binary(), resources=Resources(-1, 0, 0, 128))
    with pytest.raises(TableError, match=r"resources\.registers"):
        examples.table(examples.entry(64, 64, launches=launches_of([broken])))
    with pytest.raises(TableError, match="config"):
        examples.table(dataclasses.replace(examples.entry(64, 64), config=Config((("a", 1.5),))))  # type: ignore[arg-type]


# ---- 9: files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    binary = examples.binary()
    return write_bundle(
        [examples.table(examples.entry(64, 64, launches=launches_of([binary])))], [binary], tmp_path / "b"
    )


def file_of(bundle: Bundle, what: str) -> Path:
    suffix = {"manifest": "bundle.json", "table": "tables/*.json", "binary": "binaries/*"}[what]
    (file,) = bundle.path.glob(suffix)
    return file


def everything(path: Path) -> list[Binary]:
    bundle = load_bundle(path)
    launches: list[Any] = [r for t in bundle.tables for e in t.entries for r in e.launches]
    return [bundle.binary(r.region, v) for r in launches for v in r.variants]


def promptly(read: Callable[[], Any]) -> Any:
    """What ``read`` returns or raises; a reader that waits for ever fails the test."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(read())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    assert result, "it hangs"
    return result[0]


FILES = ("manifest", "table", "binary")


@pytest.mark.parametrize("what", FILES)
def test_finding_9_a_fifo_in_place_of_a_file_is_refused(what: str, bundle: Bundle) -> None:
    file = file_of(bundle, what)
    file.unlink()
    os.mkfifo(file)
    error = promptly(lambda: everything(bundle.path))
    assert isinstance(error, TableError) and "not a regular file" in str(error)
    assert isinstance(promptly(lambda: load_table(file)), TableError)


@pytest.mark.parametrize("what", FILES)
def test_finding_9_a_loop_of_links_is_refused(what: str, bundle: Bundle) -> None:
    file = file_of(bundle, what)
    file.unlink()
    file.symlink_to(file.name)
    assert isinstance(promptly(lambda: everything(bundle.path)), TableError)
    assert isinstance(promptly(lambda: load_table(file)), TableError)


@pytest.mark.parametrize("what", FILES)
def test_finding_9_a_link_out_of_the_bundle_is_refused(what: str, bundle: Bundle, tmp_path: Path) -> None:
    """Also that of ``bundle.json``, which was followed."""
    file = file_of(bundle, what)
    file.rename(tmp_path / "outside")
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(TableError, match="inside the bundle"):
        everything(bundle.path)


@pytest.mark.parametrize("what", FILES)
def test_a_link_inside_the_bundle_and_one_to_it_are_followed(what: str, bundle: Bundle, tmp_path: Path) -> None:
    file = file_of(bundle, what)
    file.symlink_to(file.rename(file.with_name("moved")).name)
    (tmp_path / "current").symlink_to(bundle.path)
    assert everything(tmp_path / "current") == everything(bundle.path) == [examples.binary()]


@pytest.mark.parametrize("what", FILES)
def test_a_file_of_a_terabyte_is_refused(what: str, bundle: Bundle) -> None:
    file = file_of(bundle, what)
    os.truncate(file, 1 << 40)
    error = promptly(lambda: everything(bundle.path))
    assert isinstance(error, TableError) and "longer than" in str(error)


def test_a_table_may_be_a_link_and_must_be_a_file(tmp_path: Path) -> None:
    """As mounted configuration is."""
    table: Table = examples.table(examples.entry(64, 64))
    dump_table(table, tmp_path / "t.json")
    (tmp_path / "link.json").symlink_to("t.json")
    assert load_table(tmp_path / "link.json") == table
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "a\0b"):
        with pytest.raises(TableError, match="readable text file"):
            load_table(path)
