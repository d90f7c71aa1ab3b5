"""The traced meaning of what leaves the language: ops ``inline_asm``, ``foreign`` and ``device_print``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...errors import TraceError
from ...ir.attributes import ForeignAttrs, InlineAsmAttrs, PrintAttrs
from ...ir.graph import Block, Op, Operand
from ...ir.kinds import OpKind
from ...ir.types import TileType, Value
from ..language_registry import REPLACEABLE, register_language
from ..promotion import dtype_name
from ..trace import Tracer
from ..values import SymInt, TensorRef, TileValue
from .triton_text import ARGUMENT, has_result, jit_function, parse

Reference = Callable[..., Any]


@register_language("inline_asm_elementwise")
def inline_asm_elementwise(
    t: Tracer,
    asm: str,
    constraints: str,
    args: Sequence[Any],
    dtype: Any,
    is_pure: bool = True,
    pack: int = 1,
    *,
    reference: Reference | None = None,
) -> Any:
    """An op ``inline_asm`` over tiles that broadcast to one shape, with one result for each dtype. A ``v`` among the
    constraints says that the text is AMD's."""
    operands = [t.operand(a) for a in args]
    tiles = t.facing([t.wrap(o) if isinstance(o, Value) else t.full((), o, _number_dtype(o)) for o in operands])
    dims = t.broadcast([tile.value.dims for tile in tiles])
    inputs = tuple(t.expand(tile, dims).value for tile in tiles)
    dtypes = [dtype] if isinstance(dtype, torch.dtype) else list(dtype)
    outputs = tuple(t.builder.value(TileType(dtype_name(d), dims), t.location()) for d in dtypes)
    vendor = "amd" if re.search(r"=&?v", constraints) else "nvidia"
    attrs = InlineAsmAttrs(asm, constraints, pack, is_pure, vendor)
    regions = () if reference is None else (_traced_reference(t, reference, args, outputs),)
    t.builder.append(Op(OpKind.INLINE_ASM, inputs, outputs, attrs, regions, t.location()))
    found = tuple(t.wrap(o) for o in outputs)
    return found[0] if isinstance(dtype, torch.dtype) else found


def _number_dtype(x: Operand) -> str:
    return "float32" if isinstance(x, float) else "int32"


def _traced_reference(t: Tracer, reference: Reference, args: Sequence[Any], outputs: tuple[Value, ...]) -> Block:
    """What the interpreter runs in place of the assembly."""
    t.open_scope()
    results = reference(*args)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if len(results) != len(outputs):
        raise TraceError(
            "a reference gives what the assembly gives",
            got=f"{len(results)} for {len(outputs)} results",
            where=t.location(),
        )
    pairs = zip(results, outputs, strict=True)
    yields = tuple(t.expand(t.cast(r, o.type.dtype), o.dims).value for r, o in pairs)
    return Block((), t.close_scope(), yields)


@register_language("inline_triton")
def inline_triton(t: Tracer, text: str, args: Any, output_like: Any, *, reference: Reference | None = None) -> Any:
    """An op ``foreign`` of the author's Triton text. Raises TraceError where a result is wanted and the text does not
    end with an expression."""
    named = dict(args) if isinstance(args, Mapping) else {str(n): a for n, a in enumerate(args)}
    body = parse(text, list(named))
    if output_like is not None and not has_result(body):
        raise TraceError(
            "inline Triton with a result ends with an expression", got=body.splitlines()[-1], where=t.location()
        )
    return foreign(t, body, named, output_like, ())


@register_language("triton_kernel")
def triton_kernel(t: Tracer, function: Any, args: Any, output_like: Any, *, reference: Reference | None = None) -> Any:
    """An op ``foreign`` that calls a ``triton.jit`` function, with the functions that it calls in turn."""
    known: dict[str, str] = {}
    name = jit_function(function, known)
    by_name = isinstance(args, Mapping)
    named = dict(args) if by_name else {str(n): a for n, a in enumerate(args)}
    passed = ", ".join(f"{n}={ARGUMENT.format(n)}" if by_name else ARGUMENT.format(n) for n in named)
    return foreign(t, f"{name}({passed})", named, output_like, tuple(known.items()))


def foreign(
    t: Tracer, text: str, named: Mapping[str, Any], output_like: Any, functions: tuple[tuple[str, str], ...]
) -> Any:
    """Record Triton text; its arguments are the op's inputs, captured tensors, sizes and constants."""
    inputs: list[Operand] = []
    arguments = tuple((ARGUMENT.format(name), _argument(t, value, inputs)) for name, value in named.items())
    likes = [] if output_like is None else output_like if isinstance(output_like, (tuple, list)) else [output_like]
    types = [_type_of(t, like) for like in likes]
    outputs = tuple(t.builder.value(type_, t.location()) for type_ in types)
    tensors = tuple(a.removeprefix("tensor ") for _, a in arguments if isinstance(a, str) and a.startswith("tensor "))
    attrs = ForeignAttrs(text, arguments, functions, tensors)
    t.builder.append(Op(OpKind.FOREIGN, tuple(inputs), outputs, attrs, (), t.location()))
    found = tuple(t.wrap(o) for o in outputs)
    return None if output_like is None else found if isinstance(output_like, (tuple, list)) else found[0]


def _argument(t: Tracer, value: Any, inputs: list[Operand]) -> Any:
    """The number of an input, ``tensor <path>``, an Expr, or Python text of a constant."""
    if isinstance(value, TensorRef) and value.is_part:
        value = value.all()  # its elements: text has a tensor's address alone
    if isinstance(value, TensorRef):
        return f"tensor {value.path}"
    if isinstance(value, SymInt):
        return value.expr
    if isinstance(value, TileValue):
        inputs.append(t.operand(value))
        return len(inputs) - 1
    if isinstance(value, (bool, int, float, str)) or value is None:
        return repr(value)
    t.operand(value)  # says what is wrong with it
    raise TraceError(
        "an argument of Triton text is a tile, a tensor, a size or a constant",
        got=repr(value)[:200],
        where=t.location(),
    )


def _type_of(t: Tracer, like: Any) -> TileType:
    if not isinstance(like, TileValue):
        raise TraceError("output_like is a tile, a tuple of tiles or None", got=repr(like)[:200], where=t.location())
    value = t.operand(like)
    assert isinstance(value, Value)
    return TileType(value.type.dtype, value.dims)


@register_language("device_print")
def device_print(t: Tracer, prefix: str, *values: Any) -> None:
    """An op ``device_print`` of one text and any number of tiles and numbers. Raises TraceError for more texts than
    one."""
    if not isinstance(prefix, str) or any(isinstance(v, str) for v in values):
        raise TraceError(
            "a kernel prints one text, then tiles and numbers",
            got=repr((prefix, *values))[:200],
            where=t.location(),
            hint='tfl.device_print("x and y", x, y)',
        )
    inputs = tuple(t.operand(v) for v in values)
    t.builder.append(Op(OpKind.DEVICE_PRINT, inputs, (), PrintAttrs(prefix), (), t.location()))


def print_(t: Tracer, *values: Any, **options: Any) -> None:
    """Python's ``print`` in device code: texts first, then tiles and numbers."""
    if options:
        raise TraceError(
            "print in device code takes values only",
            got=", ".join(options),
            where=t.location(),
            hint='tfl.device_print("text", *values) prints from the GPU',
        )
    texts = [str(v) if _is_text(v) else v for v in values]
    count = next((n for n, v in enumerate(texts) if not isinstance(v, str)), len(texts))
    device_print(t, " ".join(texts[:count]), *texts[count:])


REPLACEABLE["print"] = print_


def _is_text(value: Any) -> bool:
    """Whether Python knows how ``value`` prints: a shape, a dtype, None."""
    if isinstance(value, tuple):
        return all(isinstance(v, int) or _is_text(v) for v in value)
    return value is None or isinstance(value, (torch.dtype, str))
