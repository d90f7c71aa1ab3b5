"""The PTX of a kernel's config, for tests of what LLVM makes of a text."""

from __future__ import annotations

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tileflow.build.compile import load_function
from tileflow.target import target


def ptx(kernel: Any, args: Any, **knobs: Any) -> str:
    """The PTX of the default config with these knobs changed, of a kernel with one launch on an H200."""
    lowered = kernel.lower(args, target("nvidia-h200"))
    (source,) = lowered.emit(lowered.space.normalise(lowered.default.with_(knobs)))
    signature = {a.name: a.type for a in source.args} | dict.fromkeys(dict(source.constexprs), "constexpr")
    ast = ASTSource(load_function(source), signature, dict(source.constexprs))
    compiled = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=dict(source.options))
    return str(compiled.asm["ptx"])
