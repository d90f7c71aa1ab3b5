"""The text by which the blocks of a cluster meet and give each other pieces of their sums, in a warp-specialised kernel
(:mod:`tileflow.schedule.shared_turns`).

Gluon knows nothing of clusters, so that these are assembly texts. A piece lies in the registers of a group's threads
alike in all blocks: a thread hands its registers to the thread of its number, whatever lanes they hold. Their place is
the end of the block's dynamic shared memory, of which the launch has so much more than Triton asks for.

A thread's number comes as a tile. An assembly text that asks for ``%tid`` itself has ptxas (12.8) take the branches by
which two groups find their roles for ones within a warp: it counts turns in every lane then, and moves each slot's
number to where a warp has one (16 moves in a turn of eight products).
"""

from __future__ import annotations

from ...schedule.types import WARPS_OF_A_GROUP
from ..module import ModuleText

# Triton's name of a kernel's dynamic shared memory (3.6.0, 3.7.1): with another one the assembler finds no such symbol
_SHARED = "global_smem"
_THREADS = WARPS_OF_A_GROUP * 32
_WIDTH = 4  # registers that an instruction stores
_VECTOR = 4 * _WIDTH  # their bytes

_MEET = """():
    gl.inline_asm_elementwise("{0}; mov.b32 $0, 0; // $1", "=r,r", [0], dtype=tl.int32, is_pure=False, pack=1)
"""
# What lies where in a group's registers: rows by warps and lanes, columns by twos (PTX ISA 9.7.15.5.1)
_THREADS_OF_TILE = """(who: gl.constexpr):
    # The number of the thread that has each element of a piece.
    rows = gl.arange(0, {rows}, gl.SliceLayout(1, {layout}))
    columns = gl.arange(0, {columns}, gl.SliceLayout(0, {layout}))
    return (who * {threads} + rows % 64 // 16 * 32 + rows % 8 * 4)[:, None] + (columns % 8 // 2)[None, :]
"""
_GIVE = """({pieces}, threads):
    # Each other block's piece, into this block's slot there.
    gl.inline_asm_elementwise({ptx}, "{constraints}", [{pieces}, threads], dtype=tl.int32, is_pure=False, pack={count})
"""
_JOIN = """({pieces}, threads):
    # This block's piece, and what the others gave it of it.
    return gl.inline_asm_elementwise(
        {ptx}, "{constraints}", [{pieces}, threads], dtype=gl.float32, is_pure=False, pack={count},
    )
"""


class Exchange:
    """The functions of one kernel. ``blocks``: of a cluster; ``count``: a thread's registers of a piece; ``groups``:
    that have pieces."""

    def __init__(self, module: ModuleText, blocks: int, count: int, groups: int) -> None:
        self._module, self._blocks, self._count, self._groups = module, blocks, count, groups

    @property
    def arrive(self) -> str:
        """The name of the function by which a role arrives at the cluster's barrier."""
        return self._module.helper("arrive_at_cluster", _MEET.format("barrier.cluster.arrive.release.aligned"))

    @property
    def wait(self) -> str:
        """The name of the function by which it waits there."""
        return self._module.helper("wait_for_cluster", _MEET.format("barrier.cluster.wait.acquire.aligned"))

    def threads(self, rows: int, columns: int, layout: str) -> str:
        """The name of the function that numbers the threads of a piece of such sides, of the group that it is told."""
        text = _THREADS_OF_TILE.format(rows=rows, columns=columns, layout=layout, threads=_THREADS)
        return self._module.helper("threads_of_piece", text)

    @property
    def give(self) -> str:
        """The name of the function by which a group gives pieces of its sums."""
        constraints = ["=r"] * self._count + ["f"] * (self._blocks * self._count) + ["r"] * self._count
        return self._helper("give", _GIVE, self._give_text(), constraints)

    @property
    def join(self) -> str:
        """The name of the function by which it adds up its own piece."""
        own = [str(n) for n in range(self._count)]  # the registers of the first piece, which may be this block's
        constraints = ["=f"] * self._count + own + ["f"] * ((self._blocks - 1) * self._count) + ["r"] * self._count
        return self._helper("join", _JOIN, self._join_text(), constraints)

    def _helper(self, name: str, text: str, ptx: str, constraints: list[str]) -> str:
        constant = self._module.constant(name.upper(), f'gl.constexpr("""{ptx}""")')
        pieces = ", ".join(f"sums_{n}" for n in range(self._blocks))
        return self._module.helper(
            name, text.format(pieces=pieces, ptx=constant, constraints=",".join(constraints), count=self._count)
        )

    # ---- assembly -------------------------------------------------------------------------------

    def _register(self, piece: int, number: int) -> str:
        """An input's operand: behind the results, pieces one after the other."""
        return f"${self._count * (1 + piece) + number}"

    @property
    def _own(self) -> list[str]:
        """Where this thread's part of the block's slots begins: one for each other block."""
        return [
            "mov.u32 own, %dynamic_smem_size;",
            f"sub.u32 own, own, {(self._blocks - 1) * self._slot};",
            f"mov.u32 rank, {_SHARED};",
            "add.u32 own, own, rank;",
            f"mad.lo.u32 own, {self._register(self._blocks, 0)}, {_VECTOR}, own;",
            "mov.u32 rank, %cluster_ctarank;",
        ]

    @property
    def _slot(self) -> int:
        """Bytes that a block gives another one."""
        return self._groups * self._count * _THREADS * 4

    def _places(self) -> list[tuple[int, int]]:
        """The first register of each vector, and where it lies in a slot."""
        vectors = range(0, self._count, _WIDTH)
        return [(first, n * _VECTOR * _THREADS * self._groups) for n, first in enumerate(vectors)]

    def _give_text(self) -> str:
        lines = [".reg .pred is_other;", ".reg .b32 own, rank, there;", *self._own]
        for piece in range(self._blocks):
            lines += [
                f"setp.ne.u32 is_other, rank, {piece};",
                f"sub.u32 there, rank, {piece + 1};",  # the block after the owner has its first slot
                f"and.b32 there, there, {self._blocks - 1};",
                f"mad.lo.u32 there, there, {self._slot}, own;",
                f"mapa.shared::cluster.u32 there, there, {piece};",
            ]
            for first, place in self._places():
                numbers = ", ".join(self._register(piece, n) for n in range(first, first + _WIDTH))
                lines.append(f"@is_other st.shared::cluster.v4.f32 [there+{place}], {{{numbers}}};")
        lines += [f"mov.b32 ${n}, 0;" for n in range(self._count)]
        return _block(lines)

    def _join_text(self) -> str:
        lines = [".reg .pred is_own;", ".reg .b32 own, rank;", ".reg .f32 got<4>;", *self._own]
        for piece in range(1, self._blocks):
            lines.append(f"setp.eq.u32 is_own, rank, {piece};")
            lines += [f"@is_own mov.f32 ${n}, {self._register(piece, n)};" for n in range(self._count)]
        for slot in range(self._blocks - 1):
            for first, place in self._places():
                lines.append(f"ld.shared.v4.f32 {{got0, got1, got2, got3}}, [own+{slot * self._slot + place}];")
                lines += [f"add.rn.f32 ${first + n}, ${first + n}, got{n};" for n in range(_WIDTH)]
        return _block(lines)


def _block(lines: list[str]) -> str:
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"
