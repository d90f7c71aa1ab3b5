"""The addition of a box to memory by the copy engine, which Gluon says from Triton 3.9 on, as text of a generated
module, which needs Triton alone."""

ADD_TO_GLOBAL = """\
from triton._C.libtriton import ir
from triton.experimental.gluon.language._core import builtin


@builtin
def add_to_global(box, place, shared, _semantic=None):
    # The copy engine adds a box of shared memory to the tensor, past whose ends it adds nothing.
    place = _semantic._convert_to_ir_values(place, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, box.handle, place, shared.handle)
"""
