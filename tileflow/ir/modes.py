"""Shape modes: what a trace takes over from the call that it is traced from, and what stays open until a launch.

``static``: every size is a constant. ``dynamic``: sizes and strides are run-time arguments, of 32 bits as long as the
example's fit; those of 0 and 1 that decide how memory is read are constants, and a pointer that is aligned stays so.
``wide``: the same, in 64 bits. ``generic``: nothing is taken over. ``generic_ones``: nothing but the sizes of 1, for a
kernel that broadcasts them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShapeMode:
    """``is_static``: sizes are constants. ``is_wide``: sizes, indices and offsets have 64 bits whatever the example's.

    ``keeps_layout``: strides of 0 and 1, alignment and loops that begin at 0 are assumed. ``keeps_ones``: sizes of 1
    are constants.
    """

    name: str
    is_static: bool = False
    is_wide: bool = False
    keeps_layout: bool = True
    keeps_ones: bool = True


SHAPE_MODES = {
    mode.name: mode
    for mode in (
        ShapeMode("static", is_static=True),
        ShapeMode("dynamic"),
        ShapeMode("wide", is_wide=True),
        ShapeMode("generic", is_wide=True, keeps_layout=False, keeps_ones=False),
        ShapeMode("generic_ones", is_wide=True, keeps_layout=False),
    )
}
