"""Knobs as objects: one definition for the space, the emission, the default config and the documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
import torch
from tile_testing import ROOT

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.emit.kernel import emit
from tileflow.errors import ConfigError
from tileflow.ir.graph import KernelIR
from tileflow.space.knob import SiteKnob
from tileflow.space.knobs import KNOBS, NUM_WARPS, ORDER, PRECISION, STORE_CACHE, TABLES, TRANSPOSED, UNROLL, definition
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + y[tile]
    return out


@pytest.mark.parametrize(
    "name", ["loop:tile_k.unrol", "unroll", "num_warp", "load:x#0.subtile", "tile_m", "grid:x", ""]
)
def test_a_name_that_no_definition_has_raises(name: str) -> None:
    with pytest.raises(ConfigError, match="one of those that are defined"):
        definition(name)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("loop:tile_k@1.unroll", "loop:<loop>.unroll"), ("num_warps@2", "num_warps"), ("block:tile#1@1", "block:<name>"),
     ("loop:max#0.stages", "loop:<loop>.stages"), ("product:dot#0.transposed", "product:<product>.transposed"),
     ("store:out#0.cache", "store:<store>.cache"), ("tunable:a.unroll", "tunable:<name>")],
)  # fmt: skip
def test_a_name_says_its_definition(name: str, pattern: str) -> None:
    assert definition(name).pattern == pattern
    assert sum(knob.matches(name) for knob in KNOBS) == 1


def region() -> tuple[KernelIR, Config]:
    lowered = add.lower((torch.empty(64, device="meta"), torch.empty(64, device="meta")), H200)
    return lowered.regions[0], lowered.default


def test_a_config_with_a_typo_is_not_emitted() -> None:
    """A name that nobody asks for used to mean the default."""
    ir, config = region()
    with pytest.raises(ConfigError, match="num_warp'"):
        emit(ir, config.with_({"num_warp": 8}), H200)


def test_a_choice_has_the_type_of_its_definition() -> None:
    ir, config = region()
    with pytest.raises(ConfigError, match="num_warps takes choices like 4"):
        emit(ir, config.with_({"num_warps": "8"}), H200)


def test_a_space_offers_choices_of_the_definition() -> None:
    assert UNROLL.at("loop:tile_k", choices=(1, 2)).choices == (1, 2)
    with pytest.raises(ConfigError, match="offers choices of its definition"):
        UNROLL.at("loop:tile_k", choices=(1, 3))


def test_names_are_those_of_tables() -> None:
    """Rows of last month's tables name knobs so."""
    ir, _ = region()
    assert (UNROLL.name("loop:tile_k"), TRANSPOSED.name("dot#0")) == ("loop:tile_k.unroll", "product:dot#0.transposed")
    assert (NUM_WARPS.name(ir), ORDER.of(ir, choices=("0,1", "1,0")).default) == ("num_warps", "0,1")
    assert STORE_CACHE.on(target("amd-mi300x")) == ("", ".cs", ".wt") != STORE_CACHE.on(H200)


def test_the_documents_have_each_definition_under_its_heading() -> None:
    """docs/reference/knobs.md's tables are the definitions' rows, and nothing else."""
    sections = re.split(r"^## ", (ROOT / "docs" / "reference" / "knobs.md").read_text(), flags=re.MULTILINE)[1:]
    written = {s.partition("\n")[0]: [line for line in s.splitlines() if line.startswith("| `")] for s in sections}
    assert written == {heading: [knob.row for knob in knobs] for heading, knobs in TABLES.items()}


WORDS = {knob.word for knob in KNOBS}
OF_SITES = {f".{knob.word}" for knob in KNOBS if isinstance(knob, SiteKnob)}


def spelled(tree: ast.AST) -> Iterator[int]:
    """The lines that make a knob's name themselves: ``f"{site}.unroll"``, ``name.endswith(".unroll")``,
    ``suffixed(ir, "num_warps")``, ``plan.choice("num_warps", ...)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            end = node.values[-1]
            if isinstance(end, ast.Constant) and end.value in OF_SITES:
                yield node.lineno
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            words = {a.value for a in node.args if isinstance(a, ast.Constant)}
            if function in ("suffixed", "knob", "choice", "launch", "endswith") and words & (WORDS | OF_SITES):
                yield node.lineno


def test_no_name_is_spelled_elsewhere() -> None:
    files = [f for f in sorted((ROOT / "tileflow").rglob("*.py")) if f.name != "knobs.py"]
    assert len(files) > 200
    assert [f"{f.name}:{n}" for f in files for n in spelled(ast.parse(f.read_text()))] == []


def test_a_choice_has_one_number_however_few_a_knob_offers() -> None:
    """Constraints say choices by the definition's numbers: one of two that were offered was taken for another one."""
    for choices in (("ieee", "bf16x6"), ("ieee", "tf32x3"), ("bf16x6", "ieee")):
        knob = PRECISION.at("dot#0", choices=choices)
        assert [knob.encode(choice) for choice in choices] == [PRECISION.encoded(choice) for choice in choices]


@tileflow.kernel
def few_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), device=x.device)
    for tm, tn in tfl.tile([x.size(0), y.size(1)]):
        total = tfl.zeros([tm, tn])
        for tk in tfl.tile(x.size(1)):
            total += x[tm, tk] @ y[tk, tn]
        out[tm, tn] = total
    return out


@pytest.mark.parametrize("inner", [64, 256])  # too short for parts of tf32, and long enough
def test_parts_of_bfloat16_have_no_few_columns(inner: int) -> None:
    args = torch.empty(256, inner, device="meta"), torch.empty(inner, 16, device="meta")
    lowered = few_columns.lower(args, H200)
    parts = lowered.default.with_({"product:dot#0.precision": "bf16x6"})
    assert lowered.default["product:dot#0.precision"] != "bf16x6"
    assert not lowered.space.is_valid(parts)
