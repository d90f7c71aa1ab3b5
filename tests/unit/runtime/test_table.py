"""Tables: canonical text, strict reading, what their rows require."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.fakes import runtime_examples as examples

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.errors import TableError
from tileflow.expr import Expr
from tileflow.runtime import (
    CallableSpec,
    Correct,
    CreatedBy,
    Entry,
    Fallback,
    Problem,
    Requirement,
    ScalarSpec,
    Table,
    TensorSpec,
    Validator,
    launches_of,
    load_table,
    parse_table,
    requirements_of,
    table_text,
)
from tileflow.runtime.table import ORIGINS
from tileflow.target import CATALOGUE

entry, problem, table = examples.entry, examples.problem, examples.table

# ---- any table ----------------------------------------------------------------------------------------------------

integers = st.integers(-(1 << 63), (1 << 64) - 1)
names = st.text("abxyz_", min_size=1, max_size=6)
sizes = st.integers(0, 1 << 33)
positive = st.floats(1e-3, 1e9)
scalars = st.one_of(
    st.builds(lambda v: ScalarSpec("int", v), integers),
    st.builds(lambda v: ScalarSpec("float", v), st.floats(allow_nan=False)),
    st.builds(lambda v: ScalarSpec("bool", v), st.booleans()),
    st.builds(lambda v: ScalarSpec("str", v), st.text(max_size=8)),
    st.just(ScalarSpec("None", None)),
)
tensors = st.lists(st.tuples(sizes, sizes), max_size=4).flatmap(
    lambda dims: st.builds(
        TensorSpec,
        st.sampled_from(["bfloat16", "float32", "int8"]),
        st.just(tuple(d for d, _ in dims)),
        st.just(tuple(s for _, s in dims)),
        st.booleans(),
    )
)
plain = st.one_of(tensors, scalars)
callables = st.builds(CallableSpec, names, names, st.lists(st.tuples(names, plain), max_size=2).map(tuple))
problems = st.lists(st.tuples(names, st.one_of(plain, callables)), max_size=3, unique_by=lambda p: p[0]).map(
    lambda args: Problem(examples.KERNEL, tuple(args))
)
configs = st.dictionaries(names, st.one_of(integers, st.booleans(), st.text(max_size=5)), max_size=3).map(Config.of)
exprs = st.recursive(
    st.one_of(st.integers(-9, 9).map(Expr.of), names.map(Expr.sym)),
    lambda inner: st.tuples(inner, inner, st.sampled_from(["add", "mul", "le", "min", "or"])).map(
        lambda t: {
            "add": t[0] + t[1],
            "mul": t[0] * t[1],
            "le": t[0].le(t[1]),
            "min": t[0].min(t[1]),
            "or": t[0].or_(t[1]),
        }[t[2]]
    ),
    max_leaves=4,
)
requirements = st.lists(st.builds(Requirement, names, exprs, st.text(max_size=9)), max_size=2).map(tuple)
launches = st.just(launches_of([examples.binary()]))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    device = draw(st.sampled_from(sorted(CATALOGUE)))
    origin = draw(st.sampled_from(ORIGINS))
    return Entry(
        device, draw(problems), draw(configs), origin,
        best_us=draw(positive), default_us=draw(st.one_of(st.none(), positive, st.integers(1, 99))),
        n=draw(st.integers(1, 99)),
        ci95=draw(st.one_of(st.none(), positive)), noise_pct=0.5, tie_set=tuple(draw(st.lists(names, max_size=2))),
        correct=draw(st.one_of(st.none(), st.builds(Correct, positive, positive, positive))),
        launches=draw(st.one_of(st.just(()), launches)), requirements=draw(requirements),
        measured_on=device if origin == "measured" else "", toolchain=draw(names), trial_id=draw(names),
    )  # fmt: skip


tables = st.builds(
    lambda rows, default, validators: table(
        *rows, default=default, validators=tuple(validators), created_by=CreatedBy("0.1.0", "sweep-1"),
        portfolio=(Fallback(Config.of({"a": 1}), "nvidia", "sm_90a"),),
    ),
    st.lists(entries(), max_size=4, unique_by=lambda e: (e.device, e.problem.key, e.config.key, e.toolchain)),
    st.one_of(st.none(), st.builds(Fallback, configs, requirements=requirements, reason=st.text(max_size=9))),
    st.lists(st.builds(Validator, names, names, st.sampled_from(["require", "warn", "info"])), max_size=2),
)  # fmt: skip


@settings(max_examples=60)
@given(tables)
def test_a_table_round_trips_to_the_same_text(value: Table) -> None:
    text = table_text(value)
    back = parse_table(text)
    assert back == value
    assert table_text(back) == text
    assert back.table_id == value.table_id


@settings(max_examples=60)
@given(tables, st.data())
def test_no_prefix_and_no_changed_byte_is_read(value: Table, data: st.DataObject) -> None:
    text = table_text(value)
    cut = data.draw(st.integers(0, len(text) - 2))
    with pytest.raises(TableError):
        parse_table(text[:cut])
    changed = text[:cut] + ("7" if text[cut] != "7" else "8") + text[cut + 1 :]
    with pytest.raises(TableError):
        assert parse_table(changed) == value  # white space between values may change, and nothing else
        raise TableError("the same table")


def test_a_row_more_is_a_small_diff() -> None:
    small, large = table(entry(64, 64)), table(entry(64, 64), entry(128, 64))
    before, after = table_text(small).splitlines(), table_text(large).splitlines()
    removed = set(before) - set(after)
    assert len(removed) <= 3, removed  # the id, the domain's bound, a closing brace
    assert json.loads(table_text(large))["entries"][0]["config"] == {"block:tile": 64}


def test_a_row_is_shown_in_a_line() -> None:
    row = entry(64, 64, launches=launches_of([examples.binary()]))
    timed = replace(row, best_us=12.34567, default_us=20.0)
    assert repr(timed) == f"<Entry of {row.device}, {row.origin}: 12.3457 us, 20 us by default; block:tile=64>"
    assert "not timed" in repr(replace(row, best_us=None, default_us=None))


# ---- bad input ----------------------------------------------------------------------------------------------------


def edited(change: Any) -> str:
    """The text of a table with ``change`` applied to its JSON and the digest left as it was."""
    data = json.loads(table_text(table(entry(64, 64, launches=launches_of([examples.binary()])))))
    change(data)
    return json.dumps(data)


def _row(data: Any) -> Any:
    return data["entries"][0]


def _variant(data: Any) -> Any:
    return _row(data)["launches"][0]["variants"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: _row(d).update(best_us=1.0), r"table_id must be the digest of the table's content"),
        (lambda d: d.update(table_id="0" * 64), r"table_id must be the digest"),
        (lambda d: d.pop("table_id"), r"table_id must be the digest"),
        (lambda d: d.update(schema_version=5), r"schema_version must be 1 to 4, but got 5(.|\n)*upgrade tileflow"),
        (lambda d: d.update(schema_version="1"), r"schema_version must be 1 to 4"),
        (lambda d: d.pop("schema_version"), r"schema_version must be 1 to 4"),
        (lambda d: d.update(unseen={"a": {"problems": 3, "rows": 0.9, "default": 1.0}}), r"at least their best time"),
        (lambda d: d.update(schema_version=3), r"schema 3 must have only its fields, but got checked_against"),
        (lambda d: d.update(colour="red"), r"only known fields, but got colour"),
        (lambda d: _row(d).update(speed=1), r"entries\[0\] must have only known fields, but got speed"),
        (lambda d: _row(d).pop("problem"), r"entries\[0\]\.problem must be there"),
        (lambda d: _row(d).update(best_us="fast"), r"entries\[0\]\.best_us must be a finite number, but got 'fast'"),
        (lambda d: _row(d).update(n=True), r"entries\[0\]\.n must be of type int"),
        (lambda d: _row(d).update(origin="guessed"), r"entries\[0\]\.origin must be one of measured, "),
        (lambda d: _row(d).update(config={"a": 1.5}), r"entries\[0\]\.config must be ints, strings and bools"),
        (lambda d: _row(d)["problem"].pop("args"), r"entries\[0\]\.problem\.args must be there"),
        (lambda d: _row(d)["problem"].update(kernel="other:k"), r"must be of the kernel kernels:softmax"),
        (lambda d: _row(d).update(device="nvidia-h300"), r"device must be among the table's devices"),
        (lambda d: _row(d).update(measured_on="nvidia-a100"), r"measured on its own device"),
        (lambda d: d["entries"].append(_row(d)), r"one row for a device, key and config"),
        (lambda d: d["devices"]["nvidia-h200"].update(sm_or_cu_count=114), r"nvidia-h200 must be nvidia sm_90a with"),
        (lambda d: d["devices"]["nvidia-h200"].update(arch=""), r"both its arch and its number of SMs"),
        (lambda d: d["devices"]["nvidia-h200"].update(siblings=["amd-mi300x"]), r"sibling must be of the same vendor"),
        (lambda d: _variant(d).update(sha256="../../etc/passwd"), r"sha256 must be 64 hex digits"),
        (lambda d: _variant(d).update(guards=["exec", "rm"]), r"an expression must be(.|\n)*variants\[0\]\.guards"),
        (lambda d: _variant(d)["launch_abi"].update(version=9), r"launch_abi.version must be 1 to 5, but got 9"),
        (lambda d: _variant(d)["launch_abi"].pop("args"), r"variants\[0\]\.launch_abi\.args must be there"),
        (lambda d: _variant(d)["launch_abi"]["args"][0].update(path="x.attr:__class__"), r"a path must be"),
        (lambda d: d["domain"]["nvidia-h200"].update({"x.shape.0": [9, 1]}), r"domain must run from low to high"),
    ],
)  # fmt: skip
def test_every_bad_table_has_its_error(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "softmax.json"
    path.write_text(edited(change))
    with pytest.raises(TableError, match=message) as caught:
        load_table(path)
    assert str(path) in str(caught.value)


def test_a_table_of_the_first_schema_is_what_it_was() -> None:
    """Its digest too: a field that came later is not in it."""
    old = table(entry(64, 64), schema_version=1)
    text = table_text(old)
    assert '"unseen"' not in text and '"unseen"' in table_text(table(entry(64, 64)))
    assert parse_table(text) == old and parse_table(text).table_id == json.loads(text)["table_id"]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema_version": NaN}', "[" * 100_000])
def test_what_is_no_table_at_all_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        parse_table(text)


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda text: f"\ufeff{text}", "without one"),
        (lambda text: f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n", "tileflow table merge ours.json"),
        (lambda text: text.replace("\n", "\n<<<<<<< HEAD\n", 1), "tileflow table merge ours.json"),
        (lambda text: text.replace("}\n", ",}\n"), "export it again"),
        (lambda text: text.replace('"best_us": 10.0', '"best_us": 9.0'), "tileflow table merge"),
    ],
)
def test_what_git_and_editors_do_to_a_table_is_said(change: Callable[[str], str], step: str) -> None:
    """A conflict was said to be a file that is truncated, and a mark that no editor shows, too."""
    with pytest.raises(TableError) as raised:
        parse_table(change(table_text(table(entry(64, 64)))))
    assert step in raised.value.hint


def test_a_field_that_stands_twice_is_named_alone() -> None:
    with pytest.raises(TableError, match=r"names a field twice: \['default'\]"):
        parse_table(table_text(table(entry(64, 64))).replace('"default":', '"default": null, "default":', 1))


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="readable text file"):
        load_table(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TableError, match="readable text file"):
        load_table(tmp_path / "binary.json")


def test_numbers_that_json_lacks_are_refused_when_writing() -> None:
    with pytest.raises(TableError, match="finite"):
        table_text(table(entry(64, 64, best_us=float("inf"))))


# ---- requirements -------------------------------------------------------------------------------------------------


def test_requirements_leave_device_and_sizes_open() -> None:
    tile, kind, width = Expr.sym("block:tile"), Expr.sym("kind"), Expr.sym("x.shape.1")
    limit = Expr.sym("target.smem_per_block")
    space = ConfigSpace(
        (
            Knob("block:tile", "tile", (64, 128), "block", 64),
            Knob("kind", "loop", ("flat", "tma"), "loop", "flat"),
        ),
        (
            Constraint("shared", (tile * width * Expr.sym("bytes")).le(limit), (), "too much shared memory"),
            Constraint("kind", kind.le(1), (), "always holds"),
        ),
        (("bytes", 2), ("target.smem_per_block", 232448), ("x.shape.1", 64)),
    )  # fmt: skip
    (only,) = requirements_of(space, Config.of({"block:tile": 128, "kind": "tma"}), problem(64, 64))
    assert only.reason == "too much shared memory"
    assert only.check.symbols() == {"x.shape.1", "target.smem_per_block"}
    assert only.check.evaluate({"x.shape.1": 64, "target.smem_per_block": 16384}) == 1
    assert only.check.evaluate({"x.shape.1": 65, "target.smem_per_block": 16384}) == 0
