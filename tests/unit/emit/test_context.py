"""A second family of templates over the same context: a few rules of its own, the common ones, and another assembly."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.emit import kernel as triton_family
from tileflow.emit.context import Context
from tileflow.emit.table import COMMON, TRITON, Rules
from tileflow.expr import Expr
from tileflow.ir.graph import Op
from tileflow.ir.kinds import OpKind
from tileflow.ir.types import Dim
from tileflow.target import target

H200 = target("nvidia-h200")
_HEADER = """\
import triton
import triton.language as tl
from triton.experimental import gluon
import triton.experimental.gluon.language as gl
"""


class Gluon(Context):
    """Pointwise kernels of one axis, whose tiles have a layout of their own."""

    rules = Rules["Gluon"](COMMON)

    @property
    def layout(self) -> str:
        return self.module.constant("LAYOUT", "gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))")

    def arange(self, extent: Expr) -> str:
        return f"gl.arange(0, {self.plan.extent_text(extent)}, {self.layout})"

    def full(self, dims: tuple[Dim, ...], value: str, dtype: str) -> str:
        return f"gl.full({self.shape(dims)}, {value}, {dtype}, {self.layout})"

    def run(self) -> str:
        (name,) = self.plan.ir.grid
        with self.writer.indented():
            self.writer.line("pid = gl.program_id(0)")
            self.grid_tile(name, "pid")
            self.block(self.plan.ir.body)
        args = [a.name for a in self.parameters.args("float32")]
        args += [f"{c}: gl.constexpr" for c in sorted(self.plan.constexprs)]
        head = f"@gluon.jit\ndef kernel({', '.join(args)}):\n"
        return f"{self.module.text(_HEADER, '@gluon.jit')}\n\n{head}{self.writer.text}"


Gluon.rules.update({kind: TRITON[kind] for kind in (OpKind.LOAD, OpKind.STORE)})


@tileflow.kernel
def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Conversions, functions, comparisons, a filled tile, a size, a mask."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        ones = torch.ones([tile], dtype=torch.float32)
        gate = torch.where(y[tile] > 0, torch.sigmoid(y[tile]), torch.exp(x[tile]) * x.size(0))
        out[tile] = (gate.to(torch.bfloat16) + ones).to(x.dtype)
    return out


def written() -> tuple[str, dict[str, int]]:
    x = torch.empty(1000, dtype=torch.float16, device="meta")
    lowered = gated.lower((x, x), H200)
    config = lowered.space.repair(lowered.default.with_({"block:tile": 512, "num_warps": 4}))
    context = Gluon(lowered.regions[0], config, H200, divisible="all")
    return context.run(), dict(context.plan.constexprs)  # type: ignore[arg-type]


def test_common_rules_name_no_layout() -> None:
    """What a family says itself is all that makes lanes."""
    text, _ = written()
    assert "gl.arange(0, BLOCK_TILE, LAYOUT)" in text and "gl.full([BLOCK_TILE], " in text
    assert "tl.arange" not in text and "tl.full([B" not in text and "mask=tile_mask" in text


def test_the_second_family_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's functions by element are those of Gluon too."""
    triton = pytest.importorskip("triton")
    runtime = pytest.importorskip("triton.experimental.gluon._runtime")
    from triton.backends.compiler import GPUTarget

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text, constexprs = written()
    (tmp_path / "kernel.py").write_text(text)
    spec = importlib.util.spec_from_file_location("kernel_of_a_second_family", tmp_path / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signature = {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp16"), **dict.fromkeys(constexprs, "constexpr")}
    source = runtime.GluonASTSource(module.kernel, signature, constexprs)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert "ex2.approx" in made.asm["ptx"]


def test_a_rule_that_no_family_has_is_named() -> None:
    bare: Rules[Context] = Rules()
    with pytest.raises(KeyError, match="load"):
        bare[OpKind.LOAD]


def test_own_rules_go_first() -> None:
    def own(e: Context, op: Op) -> None: ...

    family: Rules[Context] = Rules(COMMON)
    family.emits(OpKind.CAST)(own)
    assert family[OpKind.CAST] is own and COMMON[OpKind.CAST] is not own
    assert family[OpKind.BITCAST] is COMMON[OpKind.BITCAST] and family.kinds == COMMON.kinds
    assert triton_family.TritonKernel.rules.kinds == set(OpKind)
