"""Rows held by the multiprocessors of a cluster: what Triton can say of them, found out by compiling, without a GPU.

``python -m tileflow_benchmarks.clusters.rows``: a line for each way and number of blocks in a cluster: what failed, or
registers, spilled bytes and the instructions of clusters in the PTX. A way that ends the compiler ends its own process.
See docs/explanations/clusters.md.
"""

# Triton's functions have no types.
# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

LENGTH = 131072  # of a row, in float32: twice the registers of a multiprocessor
BLOCKS = (1, 2, 4, 8, 16)
WARPS = 16
WORDS = ("mapa", "ld.shared::cluster", "st.shared::cluster", "barrier.cluster", "ld.global", "st.global")
LIMIT_S = 120
FAILED = re.compile(r"Assertion `(.*?)' failed|error: (.*)|^(\w*(?:Error|Exception).*)")


@triton.jit
def by_triton(x, out, n, PARTS: tl.constexpr, LANES: tl.constexpr):
    """A row as a vector, blocks of the cluster as the compiler deals them out (``num_ctas``)."""
    lanes = tl.arange(0, PARTS * LANES)
    row = tl.program_id(0)
    value = tl.load(x + row * n + lanes, mask=lanes < n, other=-float("inf"))
    weight = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * n + lanes, weight / tl.sum(weight, 0), mask=lanes < n)


@triton.jit
def by_triton_in_parts(x, out, n, PARTS: tl.constexpr, LANES: tl.constexpr):
    """A row as a matrix of one line a block: reduced inside a block, then over the blocks."""
    lanes = tl.arange(0, PARTS)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    row = tl.program_id(0)
    value = tl.load(x + row * n + lanes, mask=lanes < n, other=-float("inf"))
    weight = tl.exp(value - tl.max(tl.max(value, 1), 0))
    tl.store(out + row * n + lanes, weight / tl.sum(tl.sum(weight, 1), 0), mask=lanes < n)


@gluon.jit
def by_layout(x, out, n, PARTS: gl.constexpr, LANES: gl.constexpr, WHOLE: gl.constexpr, EACH: gl.constexpr):
    """A vector whose layout has its parts in the cluster's blocks."""
    lanes = gl.arange(0, PARTS * LANES, layout=WHOLE)
    row = gl.program_id(0)
    value = gl.load(x + row * n + lanes, mask=lanes < n, other=-float("inf"))
    weight = gl.exp(value - gl.max(value, 0))
    gl.store(out + row * n + lanes, weight / gl.sum(weight, 0), mask=lanes < n)


@gluon.jit
def by_conversion(x, out, n, PARTS: gl.constexpr, LANES: gl.constexpr, WHOLE: gl.constexpr, EACH: gl.constexpr):
    """A line of a matrix in each block; what is reduced of them is converted to a layout in which each has all."""
    part = gl.arange(0, PARTS, layout=gl.SliceLayout(1, WHOLE))
    lanes = part[:, None] * LANES + gl.arange(0, LANES, layout=gl.SliceLayout(0, WHOLE))[None, :]
    at = gl.program_id(0) * n + lanes
    value = gl.load(x + at, mask=lanes < n, other=-float("inf"))
    weight = gl.exp(value - gl.max(gl.convert_layout(gl.max(value, 1), EACH), 0))
    total = gl.sum(gl.convert_layout(gl.sum(weight, 1), EACH), 0)
    gl.store(out + at, weight / total, mask=lanes < n)


# One number of a block's for those of all: to a box of each block, at this one's place; then all of its own. Blocks
# have begun once the barrier before is over, and nothing is read of another one's memory, so that any may end.
ENTER = "barrier.cluster.arrive.relaxed; barrier.cluster.wait; mov.b32 $0, 0; // $1"


def exchange(parts: int, combine: str) -> str:
    """The PTX that combines one float of each of so many blocks: ``$1`` becomes ``$0`` in all of them."""
    taken = "".join(f"ld.shared.f32 other, [box+{4 * n}]; {combine} $0, $0, other;\n" for n in range(1, parts))
    return f"""{{
        .reg .pred is_peer; .reg .b32 rank, own, there, thread; .reg .f32 other;
        .shared .align 4 .b32 box[{parts}];
        mov.u32 rank, %cluster_ctarank; mov.u32 thread, %tid.x; setp.lt.u32 is_peer, thread, {parts};
        mov.u32 own, box; mad.lo.u32 own, rank, 4, own;
        @is_peer mapa.shared::cluster.u32 there, own, thread;
        @is_peer st.shared::cluster.f32 [there], $1;
        barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
        ld.shared.f32 $0, [box];
        {taken}
    }}"""


@triton.jit
def by_text(x, out, n, PARTS: tl.constexpr, LANES: tl.constexpr, BEGIN: tl.constexpr, MAX: tl.constexpr,
            SUM: tl.constexpr):  # fmt: skip
    """A program a block, of a part of a row; what it reduces is exchanged by PTX. Clusters are the launch's."""
    tl.inline_asm_elementwise(BEGIN, "=r,r", [0], dtype=tl.int32, is_pure=False, pack=1)
    row, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    lanes = part * LANES + tl.arange(0, LANES)
    value = tl.load(x + row * n + lanes, mask=lanes < n, other=-float("inf")).to(tl.float32)
    largest = tl.inline_asm_elementwise(MAX, "=f,f", [tl.max(value, 0)], dtype=tl.float32, is_pure=False, pack=1)
    weight = tl.exp(value - largest)
    total = tl.inline_asm_elementwise(SUM, "=f,f", [tl.sum(weight, 0)], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(out + row * n + lanes, weight / total, mask=lanes < n)


def _layouts(parts: int, is_vector: bool) -> dict[str, Any]:
    bits = range(parts.bit_length() - 1)
    each = gl.BlockedLayout([1], [32], [WARPS], [0], cga_layout=[[0] for _ in bits])
    if is_vector:
        return {"WHOLE": gl.BlockedLayout([4], [32], [WARPS], [0], cga_layout=[[1 << b] for b in bits]), "EACH": each}
    lines = [[1 << b, 0] for b in bits]
    return {"WHOLE": gl.BlockedLayout([1, 4], [1, 32], [1, WARPS], [1, 0], cga_layout=lines), "EACH": each}


WAYS: dict[str, tuple[Any, Callable[[int], dict[str, Any]]]] = {
    "triton": (by_triton, lambda parts: {}),
    "triton, in parts": (by_triton_in_parts, lambda parts: {}),
    "gluon, one layout": (by_layout, lambda parts: _layouts(parts, is_vector=True)),
    "gluon, a conversion": (by_conversion, lambda parts: _layouts(parts, is_vector=False)),
    "PTX": (by_text, lambda parts: {"BEGIN": ENTER, "MAX": exchange(parts, "max.f32"),
                                    "SUM": exchange(parts, "add.f32")}),
}  # fmt: skip


def compiled(way: str, parts: int) -> str:
    """What a way compiles to, in words."""
    from tileflow.build.resources import cubin_registers

    kernel, more = WAYS[way]
    constants = {"PARTS": parts, "LANES": LENGTH // parts, **more(parts)}
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", **dict.fromkeys(constants, "constexpr")}
    aligned = {(n,): [["tt.divisibility", 16]] for n in range(3)}
    source = (GluonASTSource if way.startswith("gluon") else triton.compiler.ASTSource)(
        kernel, signature, constants, aligned
    )
    options = {"num_warps": WARPS, "num_ctas": 1 if way == "PTX" else parts}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    registers, spills = cubin_registers(made.asm["cubin"], made.metadata.name)
    counts = {word: len(re.findall(re.escape(word), made.asm["ptx"])) for word in WORDS}
    return f"{registers} registers, {spills} bytes spilled; " + ", ".join(f"{n} {w}" for w, n in counts.items() if n)


def main() -> None:
    """Compile each way in a process of its own, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--blocks", type=int, choices=BLOCKS)
    asked = parser.parse_args()
    if asked.way is not None:
        print("compiled:", compiled(asked.way, asked.blocks or 1))
        return
    print(f"Triton {triton.__version__}, a row of {LENGTH} float32, {WARPS} warps a block")
    for way in WAYS:
        for parts in BLOCKS:
            command = [sys.executable, "-m", "tileflow_benchmarks.clusters.rows", "--way", way, "--blocks", str(parts)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            print(f"{way}, {parts} blocks: {_result(done.stdout + done.stderr)}", flush=True)


def _result(output: str) -> str:
    found = re.search(r"compiled: (.*)", output)
    if found:
        return found[1]
    reasons = (next(filter(None, m.groups())) for line in output.splitlines() if (m := FAILED.search(line)))
    return f"refused: {next(reasons, 'no reason given')}"


if __name__ == "__main__":
    main()
