"""IR + Config -> TritonSource: one region's kernel in plain Triton, out of the family's rules."""

from __future__ import annotations

from ..config import Config
from ..expr import Expr
from ..ir.graph import Block, KernelIR, Op
from ..ir.types import Dim
from ..space.knobs import CUTLASS_NAME, NUM_STAGES, NUM_WARPS, VENDOR_OPTIONS
from ..target import Target
from . import atomics as _atomics
from . import cluster_loops as _cluster_loops
from . import escapes as _escapes
from . import exchanges as _exchanges
from . import full_blocks as _full_blocks
from . import grid
from . import histograms as _histograms
from . import loops as _loops
from . import memory as _memory
from . import nibbles as _nibbles
from . import pointwise as _pointwise
from . import products as _products
from . import random_numbers as _random_numbers
from . import reductions as _reductions
from . import scans as _scans
from . import tiles as _tiles
from . import views as _views
from .context import Context
from .copies import emit_copies
from .heading import Origin, heading
from .order import barriers
from .parameters import Divisible
from .plan import KernelPlan
from .source import TritonSource
from .table import TRITON

_FAMILIES = (
    _atomics,
    _escapes,
    _full_blocks,
    _histograms,
    _loops,
    _memory,
    _nibbles,
    _pointwise,
    _products,
    _random_numbers,
    _reductions,
    _scans,
    _cluster_loops,
    _exchanges,
    _tiles,
    _views,
)  # imported for their rules

_HEADER = """\
import triton
import triton.language as tl
"""


def emit(
    ir: KernelIR, config: Config, target: Target, divisible: Divisible = "all", origin: Origin | None = None
) -> TritonSource:
    """The Triton program of a region (its structural passes done) under ``config``.

    ``divisible``: in dynamic mode, which sizes and strides are assumed to be divisible by 16. ``origin``: what
    comments say of the author's function.
    """
    return TritonKernel(ir, config, target, divisible).run(origin)


class TritonKernel(Context):
    """One emission: lanes without layouts, barriers where the IR's order needs them, the kernel around its lines."""

    rules = TRITON

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: Divisible) -> None:
        super().__init__(ir, config, target, divisible)
        self._barriers = barriers(self.plan, self.plan.launch(NUM_WARPS) * target.warp_size)

    def arange(self, extent: Expr, group: int = 1) -> str:
        """``tl.arange`` over a dimension's lanes, or its groups: those of the block's part, where a cluster has the
        whole."""
        divisor = f" // {group}" if group > 1 else ""
        lanes = f"tl.arange(0, {self.plan.extent_text(extent)}{divisor})"
        begin = self.plan.begin(extent, group)
        return f"({begin} + {lanes})" if begin else lanes

    def full(self, dims: tuple[Dim, ...], value: str, dtype: str) -> str:
        """``tl.full`` of one number; ``dtype`` in Triton's spelling."""
        return f"tl.full({self.shape(dims)}, {value}, {dtype})"

    def before(self, op: Op) -> None:
        """Write a barrier where the IR's order between memory operations needs one."""
        if id(op) in self._barriers:
            self.writer.line("tl.debug_barrier()")

    def begin_side(self, op: Op, side: Block) -> None:
        """A branch in a turn whose masks stand in branches stays one."""
        _full_blocks.keep_side(self, op, side)

    def run(self, origin: Origin | None) -> TritonSource:
        """The finished source of the region: header, signature, program ids and body. ``origin``: where the user's loop
        stands, for the comments."""
        with self.writer.indented():
            self.writer.at(origin.loop if origin else None)
            emit_copies(self)
            grid.emit_grid(self)
        launch_grid = grid.launch_grid(self)
        name = f"{self.plan.ir.name}_{self.plan.ir.region}"
        if self.plan.launch(CUTLASS_NAME):
            name += "_cutlass"  # by which ptxas takes a kernel for one of CUTLASS' own
        args = self.parameters.args(self.number_dtypes.parameters)
        parameters = [a.name for a in args] + [f"{c}: tl.constexpr" for c in sorted(self.plan.constexprs)]
        inner = "".join(f"    {p},\n" for p in parameters)
        before = f"{self.module.text(_HEADER, '@triton.jit')}\n\n"
        heading_lines = heading(self.plan, origin)
        header = before + "".join(f"{line}\n" for line in heading_lines) + f"@triton.jit\ndef {name}(\n{inner}):\n"
        # Triton learns of arguments only that 16 divides them: of products it finds out
        header += "".join(f"    {n} = {n} // {by} * {by}\n" for n, by in self.parameters.divisors().items())
        first, above = before.count("\n"), header.count("\n")
        return TritonSource(
            name=name,
            region=self.plan.ir.region,
            text=header + self.writer.text,
            args=args,
            constexprs=tuple(sorted(self.plan.constexprs.items())),
            options=options(self.plan),
            grid=launch_grid,
            guards=self.plan.all_guards(),
            mode="static" if self.plan.ir.shape_mode.is_static else "dynamic",
            lines=(0,) * above + self.writer.places,
            cluster=self.plan.cluster,
            comments=(*range(first, first + len(heading_lines)), *(above + n for n in self.writer.comments)),
        )


def options(plan: KernelPlan) -> tuple[tuple[str, int], ...]:
    """Triton's compile options; those that only one vendor's backend has where they are set."""
    found = {knob.word: plan.launch(knob) for knob in (NUM_WARPS, NUM_STAGES)}
    found |= {knob.word: plan.launch(knob) for knob in VENDOR_OPTIONS if plan.launch(knob) != knob.default}
    return tuple(sorted(found.items()))
