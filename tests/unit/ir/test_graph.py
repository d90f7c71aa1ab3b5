"""What regions, expressions and lowered calls keep of what they were asked: found once, and never stale."""

from __future__ import annotations

import ast
import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import lowered as lowering
from tileflow.expr import Expr
from tileflow.frontend.syntax import copied
from tileflow.ir.attributes import DotAttrs, IfAttrs, LoadAttrs
from tileflow.ir.graph import Block, KernelIR, once
from tileflow.ir.kinds import OpKind
from tileflow.lowered import Lowered
from tileflow.target import target


def scaled(x):
    block = tfl.register_block_size(x.size(0))
    if block > 64:
        tfl.register_tunable("ways", (1, 2))
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=block):
        out[tile] = x[tile] * 2 + x[tile]
    return out


@pytest.fixture
def call() -> Lowered:
    return tileflow.kernel(scaled).lower((torch.empty(1000, device="meta"),), target("nvidia-h200"), mode="static")


def test_what_is_found_once_belongs_to_one_region(call: Lowered) -> None:
    (ir,) = call.regions
    asked: list[KernelIR] = []

    @once
    def count(ir: KernelIR) -> int:
        asked.append(ir)
        return len(ir.ops)

    empty = replace(ir, body=Block((), (), ()))
    assert [count(ir), count(ir), count(empty), count(empty)] == [len(ir.ops), len(ir.ops), 0, 0]
    assert asked == [ir, empty]
    assert empty.hash != ir.hash and not empty.definitions and not empty.uses
    assert {v: op for op in ir.walk() for v in op.outputs} == ir.definitions
    load = next(op for op in ir.walk() if op.kind is OpKind.LOAD)
    assert ir.uses[load.output] == sum(op.inputs.count(load.output) for op in ir.walk()) > 0
    assert all(v.id < ir.next_id for v in ir.definitions)


def test_a_pickled_region_leaves_out_what_was_found(call: Lowered) -> None:
    (ir,) = call.regions
    assert ir.hash and ir.uses and ir.ops
    again = pickle.loads(pickle.dumps(ir))
    assert vars(again).keys() == {"name", "region", "mode", "tensors", "scalars", "tiles", "grid", "blocks", "body",
                                  "guards", "hints", "value_names", "divided"}  # fmt: skip
    assert again.hash == ir.hash and again == ir


def test_a_pickled_expression_brings_no_hash_along() -> None:
    """Another process hashes text otherwise."""
    e = Expr.sym("n") * 2 + 1
    assert {e: 1}[Expr.of(1) + 2 * Expr.sym("n")] == 1 and e.symbols() == {"n"}
    again = pickle.loads(pickle.dumps(e))
    assert again == e and not any(hasattr(again, slot) for slot in ("_hash", "_place", "_symbols"))
    assert hash(again) == hash(e) and "_hash" not in repr(e)


def test_host_code_runs_again_for_other_choices_only(call: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a choice makes host code ask for more."""
    runs: list[dict[str, Any]] = []
    original = lowering.lower_call

    def counted(host: Any, args: Any, mode: str, choices: dict[str, Any], **kwargs: Any) -> Any:
        runs.append(choices)
        return original(host, args, mode, choices, **kwargs)

    config = call.default
    monkeypatch.setattr(lowering, "lower_call", counted)
    (block,) = (k.name for k in call.host_knobs)
    choices = [{block: 32}, {block: 32, "num_warps": 8}, {block: 64}, {block: 32}]
    sources = [call.emit(config.with_(c))[0].hash for c in choices]
    assert len(runs) == 2, "for two block sizes"
    assert sources[0] == sources[3] and len(set(sources)) == 3
    with_more = [Lowered._regions_under(call, config.with_({block: 128, "tunable:ways": w})) for w in (1, 2, 1, 2)]
    assert len(runs) == 4 and with_more[0] is with_more[2] and with_more[1] is with_more[3]
    assert call._asked == [block, "tunable:ways"]


def test_a_copied_tree_is_equal_and_apart() -> None:
    tree = ast.parse("def f(a, *b, c=1):\n    for i in a[1:, None]:\n        x = -i if i > 0 else f'{i!r:>{c}}'\n")
    other = copied(tree)
    assert ast.dump(other, include_attributes=True) == ast.dump(tree, include_attributes=True)
    shared = {id(n) for n in ast.walk(tree)} & {id(n) for n in ast.walk(other)}
    kinds = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop)
    assert not [n for n in ast.walk(other) if id(n) in shared and not isinstance(n, kinds)]
    other.body[0].body.clear()
    assert tree.body[0].body


def test_attributes_print_by_name_without_what_is_unset() -> None:
    assert IfAttrs().items() == [] and IfAttrs(Expr.sym("n")).items() == [("test", Expr.sym("n"))]
    assert IfAttrs(first_holds=True).items() == [("first_holds", True)]
    assert DotAttrs("tf32", "float32", "dot#0").items() == [
        ("acc", "float32"),
        ("precision", "tf32"),
        ("site", "dot#0"),
    ]
    names = [name for name, _ in LoadAttrs("x", (), "load:x#0", False, 0.0, None).items()]
    assert names == ["eviction", "has_mask", "index", "other", "site", "tensor"]
