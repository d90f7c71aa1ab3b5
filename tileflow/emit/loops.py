"""Loops and branches inside a kernel: carried values are Triton variables, assigned at the end of each iteration."""

from __future__ import annotations

from ..expr import Expr
from ..ir.attributes import IfAttrs, LoopAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, Op, Operand, Tile, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS, having
from ..ir.opdef import Trait
from ..ir.ops import POINTWISE
from ..ir.types import Value
from ..space.knobs import MULTI_BUFFER, NUM_STAGES, STAGES, STATIC, UNROLL, WARP_SPECIALIZE
from ..space.names import loop_site
from .accumulators import OPAQUE, accumulators
from .context import Context
from .dtypes import compute_dtype
from .table import TRITON

OWN = "(x):\n    return tl.where(x == x, x, x)\n"  # a value of its own, which Triton folds later
_FEW = 4  # operations an element, of a branch that is not worth a jump
_NOT_STREAMED = frozenset({OpKind.DOT, OpKind.DOT_SCALED, OpKind.FOR, OpKind.WHILE, OpKind.IF})
_WITHOUT_EFFECT = having(Trait.SPECULATIVE)


@TRITON.emits(OpKind.FOR)
def emit_for(e: Context, op: Op) -> None:
    """``for tile_begin in tl.range(begin, end, BLOCK, ...)``."""
    (body,) = op.regions
    tile = e.plan.ir.tiles[TileAttrs.of(op).tile]
    _carry(e, op, op.inputs[LoopAttrs.of(op).bounds :])
    name = e.tile(tile.name)
    counter = f"{name}_at" if tile.wide else f"{name}_begin"
    e.writer.line(f"for {counter} in {_range(e, tile, body)}:")
    with e.inner():
        if tile.wide:
            e.writer.line(f"{name}_begin = tl.cast({counter}, tl.int64)")
        e.tile_header(tile)
        e.block(body)
        _assign(e, body.params, body.results)


@TRITON.emits(OpKind.WHILE)
def emit_while(e: Context, op: Op) -> None:
    """``while c0:``, of which each turn says whether there is another.

    The condition is the last variable. Nothing reads it behind the loop, so that MLIR drops it from the loop's results,
    and Triton (3.6, 3.7) takes what a turn hands on to be as many as those: it asks for the last one's layout.
    """
    (body,) = op.regions
    _carry(e, op, op.inputs)
    e.writer.line(f"while {e.name(body.params[0])}:")
    with e.inner():
        e.block(body)
        _assign(e, body.params, body.results)


def _carry(e: Context, op: Op, entry: tuple[Operand, ...]) -> None:
    """The variables that a loop carries, with their values before it. Triton takes a variable for the same in all turns
    where the first one leaves in it the value that was there before, and two may begin as one: Clenshaw's recurrence
    from ``b1 = b2 = zeros`` lost its last term on every GPU. Each therefore begins as a value of its own."""
    (body,) = op.regions
    lines = []
    for number, (initial, param, out) in enumerate(zip(entry, body.params, op.outputs, strict=True)):
        held = compute_dtype(param.type.dtype)
        name = e.names.of(param, "c")
        text = e.as_dtype(initial, held)
        if op.kind is OpKind.FOR and accumulators(e.plan.ir).starts_opaque(op, number):
            text = f"{e.module.helper('_opaque', OPAQUE)}({text})"
        elif isinstance(initial, Value) and (initial in entry[:number] or _hands_on(body, number)):
            text = f"{e.module.helper('_own', OWN)}({text})"
        lines.append(f"{name} = {text}")
        e.bind(param, name, held)
        e.bind(out, name, held)
    for line in lines[1:] + lines[:1] if op.kind is OpKind.WHILE else lines:
        e.writer.line(line)


def _hands_on(body: Block, number: int) -> bool:
    """Whether a turn leaves in this variable what it found in another, as ``old, new = new, f(old)`` does."""
    return body.results[number] in body.params and body.results[number] != body.params[number]


def _range(e: Context, tile: Tile, body: Block) -> str:
    """The values of a loop's counter, and what the config asks of the loop."""
    site = loop_site(e.plan.ir, tile.name)
    if e.plan.choice(STATIC, site):
        assert isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)
        begin, end = e.plan.number(tile.begin), e.plan.number(tile.end)
        return f"tl.static_range({begin}, {end}, {e.plan.step_text(tile.block)})"
    words = [e.bound(tile, tile.begin), e.bound(tile, tile.end), e.plan.step_text(tile.block)]
    if tile.dealt:
        words[0] = f"{words[0]} + {e.tile(tile.dealt)}_begin * {words[2]}"
        words[2] = f"{e.plan.turns_at_once(tile)} * {words[2]}"
    stages = e.plan.choice(STAGES, site)
    if stages == 0 and _is_memory_loop(body):
        # Triton pipelines a loop without products only when the loop itself asks for it
        stages = e.plan.launch(NUM_STAGES)
    if stages:
        words.append(f"num_stages={stages}")
    if (turns := e.plan.choice(UNROLL, site)) > 1:
        guard_turns(e, tile)  # Triton 3.6 runs an empty loop that it unrolled
        words.append(f"loop_unroll_factor={turns}")
    if not e.plan.choice(MULTI_BUFFER, site):
        words.append("disallow_acc_multi_buffer=True")
    if e.plan.choice(WARP_SPECIALIZE, site):
        words.append("warp_specialize=True")
    return f"tl.range({', '.join(words)})"


def guard_turns(e: Context, tile: Tile) -> None:
    """Guard that a loop over open sizes has a turn: each launch checks it."""
    if not e.plan.ir.shape_mode.is_static and isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
        e.plan.guard(tile.begin.lt(tile.end))


def _is_memory_loop(body: Block) -> bool:
    """A loop that streams tiles. One with branches is left alone: Triton 3.6 pipelines a branch's loads wrongly."""
    ops = list(walk(body))
    streams = any(op.kind is OpKind.LOAD and op.output.dims for op in ops)
    return streams and not {op.kind for op in ops} & _NOT_STREAMED


@TRITON.emits(OpKind.IF)
def emit_if(e: Context, op: Op) -> None:
    """Both branches assign the same variables; where the config answers, one of them is written."""
    test = IfAttrs.of(op).test
    answer = e.plan.number(test) if test is not None else None
    if answer is not None:
        emit_side(e, op, op.regions[0 if answer else 1])
        return
    condition = e.name(op.inputs[0]) if test is None else e.plan.text(test)
    if _is_choice(e, op):
        if IfAttrs.of(op).first_holds:
            emit_side(e, op, op.regions[0])
        else:
            _emit_choice(e, op, condition)
        return
    names = [(e.names.of(out, "b"), compute_dtype(out.type.dtype)) for out in op.outputs]
    for keyword, side in zip((f"if {condition}:", "else:"), op.regions, strict=True):
        if keyword == "else:" and not side.ops and not side.results:
            continue
        e.writer.line(keyword)
        with e.inner():
            e.begin_side(op, side)
            e.block(side)
            for (name, held), result in zip(names, side.results, strict=True):
                e.writer.line(f"{name} = {e.as_dtype(result, held)}")
            if not side.ops and not side.results:
                e.writer.line("pass")
    for out, (name, held) in zip(op.outputs, names, strict=True):
        e.bind(out, name, held)


def _is_choice(e: Context, op: Op) -> bool:
    """Whether both sides are computed and chosen from by element. Single warps' products of one another's results have
    one layout only if Triton can follow the values between them, which it does within a block; else what passes through
    a branch goes by way of shared memory."""
    if e.target.has_warp_groups or not any(o.kind in PRODUCTS for o in e.plan.ir.walk()):
        return False
    ops = [inner for side in op.regions for inner in side.ops]
    work = sum(POINTWISE[PointwiseAttrs.of(o).fn].flops for o in ops if o.kind is OpKind.POINTWISE)
    return work <= _FEW and all(o.kind in _WITHOUT_EFFECT for o in ops) and all(out.dims for out in op.outputs)


def _emit_choice(e: Context, op: Op, condition: str) -> None:
    held = [compute_dtype(out.type.dtype) for out in op.outputs]
    sides = []
    for side in op.regions:
        e.block(side)
        sides.append([e.as_dtype(r, h) for r, h in zip(side.results, held, strict=True)])
    for out, first, second, h in zip(op.outputs, *sides, held, strict=True):
        e.define(out, f"tl.where({condition}, {first}, {second})", h)


def emit_side(e: Context, op: Op, side: Block) -> None:
    """The side that is taken in any case, in place of the branch."""
    e.block(side)
    for out, result in zip(op.outputs, side.results, strict=True):
        held = compute_dtype(out.type.dtype)
        e.bind(out, e.as_dtype(result, held), held)


def _assign(e: Context, params: tuple[Value, ...], results: tuple[Operand, ...]) -> None:
    """Carry the results over: by way of temporaries where one is read after it was assigned."""
    changed = [(p, r) for p, r in zip(params, results, strict=True) if r != p]
    targets = {e.name(p) for p, _ in changed}
    texts = [(e.name(p), e.as_dtype(r, compute_dtype(p.type.dtype))) for p, r in changed]
    if any(isinstance(r, Value) and e.name(r) in targets - {e.name(p)} for p, r in changed):
        temporaries = []
        for name, text in texts:
            temporary = e.fresh("t")
            e.writer.line(f"{temporary} = {text}")
            temporaries.append((name, temporary))
        texts = temporaries
    for name, text in texts:
        e.writer.line(f"{name} = {text}")
