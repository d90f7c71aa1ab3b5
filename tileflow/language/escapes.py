"""Ways out of the language: assembly, Triton's own text and functions, and printing from the GPU.

What stands in another language has no meaning as Python. ``reference``, a function of the same arguments made of torch
operations, gives it one: the eager meaning calls it, and so does Triton's interpreter in place of assembly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import CallError
from . import eager_session
from .marks import device

Reference = Callable[..., Any]
Dtypes = torch.dtype | Sequence[torch.dtype]


@device
def inline_asm_elementwise(
    asm: str,
    constraints: str,
    args: Sequence[Any],
    dtype: Dtypes,
    is_pure: bool = True,
    pack: int = 1,
    *,
    reference: Reference | None = None,
) -> Any:
    """Assembly for each element, or for ``pack`` of them at a time. ``args``: tiles that broadcast together.

    ``asm``: PTX with operands ``$0``, ``$1`` ..., results first; or AMD's own. ``constraints``: LLVM's, ``=r,r`` for
    32-bit registers on NVIDIA, ``=v,v`` on AMD; a kernel with either runs on that vendor's GPUs only. ``dtype``: of the
    result, or of each of several. Not ``is_pure``: it stays even where nobody reads the result.
    """
    return _by_reference("inline_asm_elementwise", reference, args)


@device
def inline_triton(
    text: str, args: Sequence[Any] | Mapping[str, Any], output_like: Any, *, reference: Reference | None = None
) -> Any:
    """Triton's own text: an expression, or statements of which the last is one.

    ``{0}``, ``{1}`` ... in ``text``, or ``{name}`` for a dictionary, are the arguments: tiles, numbers, sizes, and
    captured tensors, which are pointers to their first element. ``output_like``: a tile with the result's dtype and
    shape, a tuple of them for several results, or None where the text only has an effect. ``tl`` and ``triton`` are
    there; names that the text assigns are its own.
    """
    return _by_reference("inline_triton", reference, args)


@device
def triton_kernel(
    function: Any, args: Sequence[Any] | Mapping[str, Any], output_like: Any, *, reference: Reference | None = None
) -> Any:
    """Call a ``@triton.jit`` function that returns: its source, and that of what it calls, becomes part of the kernel.

    ``args``, ``output_like``: as for :func:`inline_triton`; a dictionary passes by name. The globals that the function
    reads must be Triton's, other ``@triton.jit`` functions, or constants.
    """
    return _by_reference("triton_kernel", reference, args)


@device
def device_print(prefix: str, *values: Any) -> None:
    """Print tiles and scalars from the GPU, one line an element, each behind ``prefix``."""
    eager_session.current("device_print")
    print(prefix, *values)


def _by_reference(what: str, reference: Reference | None, args: Sequence[Any] | Mapping[str, Any]) -> Any:
    here = eager_session.current(what)
    if reference is None:
        raise CallError(
            f"tfl.{what} has no meaning as Python of its own",
            got="a kernel that runs as Python",
            hint="give it one: reference=, a function of the same arguments",
        )
    before, here.by_torch = here.by_torch, True
    try:
        return reference(**args) if isinstance(args, Mapping) else reference(*args)
    finally:
        here.by_torch = before
