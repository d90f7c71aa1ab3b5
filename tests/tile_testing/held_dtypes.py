"""Generated text that says behind each definition in which dtype the emitter takes the value to be held.

Whatever is computed from a value wraps, compares and converts as in the dtype that the emitter believes. Where Triton
gives another one, as ``tl.sum`` of an int8 does, results are wrong only where something looks at the difference, which
few kernels do: so each value is asked for its dtype, whoever looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tileflow.emit.context import Context
from tileflow.emit.dtypes import triton_dtype
from tileflow.ir.types import Value


@contextmanager
def asserted() -> Iterator[None]:
    """What is emitted meanwhile asserts its dtypes, in the process that interprets: its numbers may be Python's."""
    plain = Context.define

    def define(self: Context, out: Value, text: str, held: str) -> None:
        plain(self, out, text, held)
        name, dtype = self.name(out), triton_dtype(held)
        if not text.isidentifier():
            belief = f"{name} = {text} is held in {held}".replace('"', "'")
            self.writer.line(f'assert not hasattr({name}, "dtype") or {name}.dtype == {dtype}, "{belief}"')

    Context.define = define  # type: ignore[method-assign]
    try:
        yield
    finally:
        Context.define = plain  # type: ignore[method-assign]
