"""Functions of floats that are more than an expression: beside the kernel that calls them.

Two are the vendor's own. The remainder is exact for quotients of any size, as torch's on a GPU, where Triton's ``%``
multiplies the rounded quotient back; rounding to a whole number is one instruction. Triton's interpreter knows no
vendor: its ``%`` is exact, and it rounds by floors.
"""

from __future__ import annotations

import re

from .module import INTERPRETED, ModuleText

_IMPORT = "from triton.language.extra import libdevice"
_FMOD, _INTERPRETED_FMOD = "libdevice.fmod", "(lambda a, b: a % b) if triton.knobs.runtime.interpret else "
# by name: the text after it, and the functions that it calls
_FUNCTIONS: dict[str, str] = {
    "_remainder": """(a, b):
    rest = _fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
""",
    # quotient and product are exact; of a negative number so small that its quotient is zero the floor is too
    "_remainder_by_power": """(a, b):
    rest = a - tl.floor(a * (1.0 / b)) * b
    rest = tl.where(rest < 0, rest + b, rest)
    return tl.where(rest == 0, a * 0.0, rest)
""",
    # the quotient less its remainder is a whole number but for its rounding; a 0 has the quotient's sign
    "_floor_divide": """(a, b):
    rest = _fmod(a, b)
    whole = (a - rest) / b - tl.where((rest != 0) & ((rest < 0) != (b < 0)), 1.0, 0.0)
    below = tl.floor(whole)
    found = below + tl.where(whole - below > 0.5, 1.0, 0.0)
    return tl.where(b == 0, a / b, tl.where(found == 0, a / b * 0.0, found))
""",
    # a negative base has real powers for whole exponents only, and infinity's are those of its size; Triton subtracts
    # from 0 where it negates, which makes 0.0 of 0.0
    "_power": """(a, b):
    size = tl.exp2(b * tl.log2(tl.abs(a)))
    size = tl.where((a == 1) | ((a == -1) & (b == b)), 1.0, size)
    is_whole = b == tl.floor(b)
    is_odd = b - 2.0 * tl.floor(b * 0.5) == 1.0
    is_negative = (a < 0) | ((a == 0) & (1.0 / a < 0))
    found = tl.where(is_odd & is_negative, size * -1.0, size)
    found = tl.where((a < 0) & (a > float("-inf")) & (is_whole == 0), float("nan"), found)
    return tl.where(b == 0, 1.0, found)
""",
}
# half to even
_ROUND = """(a):
    return libdevice.nearbyint(a)
"""
# by floors: one more above the middle, or in it beside an odd number; a 0 has the number's sign
_INTERPRETED_ROUND = f"""(a):
    if {INTERPRETED[0]}:
        below = tl.floor(a)
        middle = below + 0.5
        is_odd = below - 2.0 * tl.floor(below * 0.5) == 1.0
        found = below + tl.where((a > middle) | ((a == middle) & is_odd), 1.0, 0.0)
        return tl.where(found == 0, a * 0.0, found)
    else:
        return libdevice.nearbyint(a)
"""
_CALL = re.compile(r"\b_[a-z_]+(?=\()")


def calls_functions(template: str) -> bool:
    """Whether a row's text calls functions beside the kernel."""
    return _CALL.search(template) is not None


def provide(module: ModuleText, template: str, is_interpreted: bool) -> None:
    """Write the functions that a row's text calls beside the kernel. ``is_interpreted``: whether Triton's interpreter
    may run the module."""
    for name in _CALL.findall(template):
        if name == "_fmod":
            module.imports(_IMPORT)
            module.constant("_fmod", f"{_INTERPRETED_FMOD}{_FMOD}" if is_interpreted else _FMOD)
        elif name == "_round":
            module.imports(_IMPORT)
            if is_interpreted:
                module.constant(*INTERPRETED)
            module.helper(name, _INTERPRETED_ROUND if is_interpreted else _ROUND)
        else:
            provide(module, _FUNCTIONS[name], is_interpreted)
            module.helper(name, _FUNCTIONS[name])
