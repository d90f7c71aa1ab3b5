"""Every knob there is, each once: search space, emission and default config take it from here, as does
docs/reference/knobs.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import ConfigError
from ..ir.graph import Op
from ..ir.kinds import OpKind
from .knob import AtomicKnob, KnobDef, LaunchKnob, LoadKnob, LoopKnob, ProductKnob, SiteKnob, SizeKnob, StoreKnob
from .names import powers

# ---- Sizes -----------------------------------------------------------------------------------------------

BLOCK = SizeKnob("block", (), default=1, role="block",
    shown="powers of two; 192",
    where="each tile loop, each registered block size",
    why="how much a program, or a turn of a loop, takes; products have floors (16; 32 inside for 8-bit operands), "
        "registers and shared memory cap them; 192: rows that three consumer groups share",
)  # fmt: skip

CUT = SizeKnob("cut", (), default=1, role="block",
    shown="powers of two",
    where="a whole dimension of products that the compiler cuts into blocks; the name is the product's whose inner one "
          "it is, or the store's, with the axis",
    why="as of a tile loop: a program has so many of the columns, a turn so many of what products sum over",
)  # fmt: skip

REDUCTION = SizeKnob("reduce", (), default=0, role="reduction",
    shown="0, 16384 ... 128",
    where="a reduction over a whole dimension",
    why="0: the row stays in registers; else it is read in blocks, once for each reduction and once for what follows",
)  # fmt: skip

ROW = SizeKnob("row", (), default=0, role="reduction",
    shown="0, 16384 ... 128",
    where="a whole dimension that is stored and nowhere reduced; the name is the store's, with the axis",
    why="0: the row stays in registers; else it is read and stored in blocks",
)  # fmt: skip

TUNABLE = SizeKnob("tunable", (), default=0, role="tunable",
    shown="the author's",
    where="`register_tunable`",
    why="whatever the author left open",
)  # fmt: skip

# ---- Grid ------------------------------------------------------------------------------------------------

PERSISTENT = LaunchKnob(
    "persistent",
    (0, 1, 2, 4, 8),
    default=0,
    role="grid",
    where="each launch",
    why="programs a multiprocessor, each of which traverses several tiles; 0: a program for each tile",
)

WALK = LaunchKnob(
    "walk",
    ("interleaved", "blocked"),
    default="interleaved",
    role="grid",
    where="persistent",
    why="neighbouring tiles at one time in many programs, or one after the other in one",
)

FLATTEN = LaunchKnob("flatten", (False, True), default=False, role="grid",
    where="persistent, with one loop inside",
    why="the outer loop and the inner one become one pipeline, so that the next tile's loads start under this one's "
        "store; dynamic code under it declines calls whose inner loop has no turn, which other code serves",
)  # fmt: skip

DESCENDING = LaunchKnob(
    "descending",
    (False, True),
    default=False,
    role="grid",
    where="grids with a tile where a loop ends, as a causal one does",
    why="the last tiles, which take longest, first: short ones fill the gaps at the end",
)

ORDER = LaunchKnob("order", (), default="", role="order",
    shown="permutations",
    where="grids of several axes",
    why="which axis runs fastest",
)  # fmt: skip

GROUP = LaunchKnob(
    "group",
    (1, 2, 4, 8, 16, 32),
    default=1,
    role="group",
    where="grids of several axes",
    why="programs that share operands run at one time, for the second-level cache",
)

GRID = LaunchKnob(
    "grid",
    ("flat", "axes"),
    default="flat",
    role="grid",
    where="two or three axes; neither persistent nor grouped",
    why="the hardware counts the axes, without divisions; all but the first have at most 65535 programs",
)

XCD = LaunchKnob(
    "xcd",
    (False, True),
    default=False,
    role="grid",
    where="AMD's devices of eight dies; several axes; flat",
    why="neighbours on one die, which has a second-level cache of its own, instead of one on each",
)

CTAS = LaunchKnob(
    "ctas",
    (1, 2, 4, 8),
    default=1,
    role="grid",
    where="Hopper; rows of at least 16384, in a loop 8192, one at a time, reduced in one piece (sums, products, "
    "extremes); no branches and no products, not persistent",
    why="blocks of a cluster, each of which holds a part of a row; they exchange what they reduce by shared memory "
    "([rows over clusters](../explanations/clusters.md#rows-over-clusters))",
)

# ---- Loops -----------------------------------------------------------------------------------------------

STAGES = LoopKnob(
    "stages",
    (0, 1, 2, 3, 4, 5, 6),
    amd=(0, 1, 2, 3),
    default=0,
    where="several loops with loads, or loads that no product waits for",
    why="a depth of its own; 0: that of the launch",
)

UNROLL = LoopKnob(
    "unroll",
    (1, 2, 4),
    default=1,
    where="innermost loops of more than one turn with products, or whose turns hand something on; known bounds",
    why="more loads in flight, less counting, what one turn waits for beside what the next one does",
)

STATIC = LoopKnob(
    "static",
    (False, True),
    default=False,
    where="two to eight turns, known when the kernel is compiled",
    why="no loop at all; there is then nothing to pipeline",
)

SPREAD = LoopKnob(
    "spread",
    (1, 2, 4, 8, 16, 32, 64),
    default=1,
    role="grid",
    where="loops over tiles with a loop inside, which carry nothing and whose turns write apart; not persistent",
    why="so many programs share the loop's turns, where the grid alone leaves multiprocessors idle",
)

LOOP_CTAS = LoopKnob(
    "ctas",
    (1, 2, 4, 8),
    default=1,
    role="grid",
    where="Hopper; a launch's loops, one after the other, by the first one's name, if all that turns hand on are sums, "
    "products or extrema, or lanes of a whole dimension, nothing is written before the last one but by turns of its "
    "own, and none is unrolled or written out; not persistent; warp-specialised, one product of boxes",
    why="blocks of a cluster share the loops' turns and put together what they have by shared memory, where the grid "
    "alone leaves multiprocessors idle "
    "([loops over clusters](../explanations/clusters.md#loops-over-clusters))",
)

MULTI_BUFFER = LoopKnob(
    "multi_buffer",
    (True, False),
    default=True,
    where="Blackwell's data-centre devices; products in tensor memory (64 rows, 4 warps)",
    why="whether the accumulator is kept twice, so that reading one out hides behind the next product",
)

WARP_SPECIALIZE = LoopKnob("warp_specialize", (False, True), default=False,
    where="the same; the only loop with products, all loads by descriptor, two stages, 4 or 8 warps",
    why="warps of their own for copies and for products. Triton's pass fails with 3.7 for fewer rows and for one loop "
        "out of two",
)  # fmt: skip

FULL_BLOCKS = LoopKnob("full_blocks", (False, True), default=False,
    where="Hopper; innermost loops whose blocks do not come out even, with masks on what products of warp groups gave",
    why="a branch, so that only a partial block computes these masks; selections in each turn otherwise",
)  # fmt: skip

# ---- Products --------------------------------------------------------------------------------------------

TRANSPOSED = ProductKnob("transposed", (False, True), default=False,
    where="Hopper; half types; sums over a loop whose right operand is computed and whose left one is as it was "
          "loaded; 64 columns, 4 warps",
    why="warp groups take only their left operand from registers: `(b.T @ a.T).T` leaves what was computed there, and "
        "the copy engine's shared memory is all that a turn reads",
)  # fmt: skip

PRECISION = ProductKnob("precision", ("ieee", "tf32x3", "bf16x6"), default="ieee",
    where="Hopper; float32 operands without TF32; sums over 16 elements and more, tf32 over 128 and more",
    why="multiply-adds of each thread, or the matrix units with operands in parts: three tf32 or six bfloat16 "
        "products, whose error against float64 is the smaller one",
)  # fmt: skip

# ---- Loads and stores ------------------------------------------------------------------------------------

LOAD_ACCESS = LoadKnob(
    "access",
    ("pointer", "descriptor"),
    default="pointer",
    where="NVIDIA from Hopper on; boxes of an aligned tensor",
    why="addresses by threads, or one by the copy engine",
)

EVICTION = LoadKnob(
    "eviction",
    ("", "evict_first", "evict_last"),
    default="",
    where="NVIDIA; pointers; where the author left it open",
    why="what the caches keep. AMD's backend drops it: the same binary",
)

LOAD_CACHE = LoadKnob(
    "cache",
    ("", ".cg"),
    default="",
    where="pointers; no eviction policy, which an instruction cannot have beside it",
    why="past the first-level cache",
)

STORE_ACCESS = StoreKnob(
    "access",
    ("pointer", "descriptor"),
    default="pointer",
    where="as for loads",
    why="stores through shared memory by the copy engine",
)

STORE_CACHE = StoreKnob(
    "cache",
    ("", ".cs"),
    amd=("", ".cs", ".wt"),
    default="",
    where="pointers",
    why="what is not read again soon gives way first; .wt: written through",
)

SUBTILE = StoreKnob("subtile", (1, 2), default=1,
    where="the result of a loop with products, of at least 128 x 128, at the launch's end",
    why="what follows the loop is done by halves of the columns: half the registers, and half the shared memory that "
        "a store through it needs",
)  # fmt: skip

HISTOGRAM = AtomicKnob("histogram", (False, True), default=False,
    where="sums of one number, or of truths, to elements that lanes choose, 2048 at most; along other dimensions one a "
          "program; nobody reads what was there",
    why="a program counts what its lanes choose and adds each count once, where all would wait for the same elements",
)  # fmt: skip

COPIES = AtomicKnob("copies", (1, 16, 64, 256), default=1,
    where="sums, least and greatest numbers of a tensor of at most 32768 elements that the launch does nothing else "
          "with; the first atomic's choice is that of all",
    why="programs that would wait for the same elements change copies, which the launch combines with the tensor",
)  # fmt: skip

# ---- Launch ----------------------------------------------------------------------------------------------

NUM_WARPS = LaunchKnob(
    "num_warps",
    powers(1, 32),
    amd=powers(1, 16),
    default=4,
    where="each launch",
    why="threads that share a tile",
)

NUM_STAGES = LaunchKnob(
    "num_stages",
    (1, 2, 3, 4, 5, 6),
    amd=(1, 2, 3),
    default=2,
    where="launches with a loop",
    why="how far loads run ahead",
)

MAXNREG = LaunchKnob("maxnreg", (0, 64, 96, 128, 168), default=0,
    where="NVIDIA; products, reductions and scans; where it is less than the block's size allows anyway; no "
          "specialised warps",
    why="more blocks a multiprocessor at the risk of spills",
)  # fmt: skip

CUTLASS_NAME = LaunchKnob("cutlass_name", (False, True), default=False,
    where="NVIDIA; products of single warps, or float32 and float64 ones without tensor cores",
    why="`cutlass` in a kernel's name makes ptxas schedule these otherwise; it changes nothing for products of warp "
        "groups",
)  # fmt: skip

WAVES_PER_EU = LaunchKnob(
    "waves_per_eu",
    (0, 1, 2, 4),
    default=0,
    where="AMD; products, reductions and scans; no fewer than one block brings",
    why="how many waves a SIMD's registers are shared among",
)

MATRIX_INSTR_NONKDIM = LaunchKnob(
    "matrix_instr_nonkdim",
    (0, 16),
    default=0,
    where="AMD; products of at least 32 x 32",
    why="the smaller matrix instruction; 32 is what 0 takes there: the same binary",
)

KPACK = LaunchKnob(
    "kpack",
    (1, 2),
    default=1,
    where="gfx942; products",
    why="operands of two matrix instructions read at once; later architectures ignore it",
)

# ---- Schedules -------------------------------------------------------------------------------------------

SCHEDULE = LaunchKnob("schedule", ("pipelined", "warp_specialised"), default="pipelined",
    where="Hopper; two chained products in a loop of keys, 64 or 128 rows of queries, a loop of gradients, or one "
          "product in a loop over the inner dimension, of float32 with its `precision` tf32x3 over 256 numbers and "
          "more",
    why="warps of their own for copies and for products, written in Gluon ([warp-specialisation]"
        "(../explanations/warp-specialisation.md)); most knobs of the pipelined one have no meaning then",
)  # fmt: skip

CONSUMERS = LaunchKnob(
    "consumers",
    (1, 2, 3),
    default=2,
    where="warp_specialised, one product",
    why="warp groups that multiply: they have parts of a tile's rows, or with ping_pong tiles of their own",
)

PING_PONG = LaunchKnob(
    "ping_pong",
    (True, False),
    default=True,
    where="warp_specialised, no gradients, two consumer groups or more",
    why="one group has the matrix units while the other one is at its exponentials, or at what follows the product",
)

# by the heading of their table
TABLES: Mapping[str, tuple[KnobDef[Any], ...]] = {
    "Sizes": (
        BLOCK,
        CUT,
        REDUCTION,
        ROW,
        TUNABLE,
    ),
    "Grid": (
        PERSISTENT,
        WALK,
        FLATTEN,
        DESCENDING,
        ORDER,
        GROUP,
        GRID,
        XCD,
        CTAS,
    ),
    "Loops": (
        STAGES,
        UNROLL,
        STATIC,
        SPREAD,
        LOOP_CTAS,
        MULTI_BUFFER,
        WARP_SPECIALIZE,
        FULL_BLOCKS,
    ),
    "Products": (TRANSPOSED, PRECISION),
    "Loads and stores": (
        LOAD_ACCESS,
        EVICTION,
        LOAD_CACHE,
        STORE_ACCESS,
        STORE_CACHE,
        SUBTILE,
        HISTOGRAM,
        COPIES,
    ),
    "Launch": (
        NUM_WARPS,
        NUM_STAGES,
        MAXNREG,
        CUTLASS_NAME,
        WAVES_PER_EU,
        MATRIX_INSTR_NONKDIM,
        KPACK,
    ),
    "Schedules": (
        SCHEDULE,
        CONSUMERS,
        PING_PONG,
    ),
}
# Triton's options that only one vendor's backend has, unset at their defaults
VENDOR_OPTIONS = (MAXNREG, WAVES_PER_EU, MATRIX_INSTR_NONKDIM, KPACK)
KNOBS: tuple[KnobDef[Any], ...] = tuple(knob for table in TABLES.values() for knob in table)


def access_of(op: Op) -> SiteKnob[str]:
    """Whether a load or a store goes by pointers or by descriptor."""
    return LOAD_ACCESS if op.kind is OpKind.LOAD else STORE_ACCESS


@lru_cache(maxsize=4096)
def definition(name: str) -> KnobDef[Any]:
    """The definition of the knob of this name. Raises ConfigError where there is none."""
    found = next((knob for knob in KNOBS if knob.matches(name)), None)
    if found is None:
        raise ConfigError(
            "a knob must be one of those that are defined",
            got=repr(name),
            hint="they are " + ", ".join(knob.pattern for knob in KNOBS),
        )
    return found
