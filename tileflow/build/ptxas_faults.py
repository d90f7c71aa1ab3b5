"""What NVIDIA's assembler gets wrong, and text that means the same, of which it makes right code.

**Halves of packed pairs.** ``cvt.rn.satfinite.e4m3x2.f32`` gives two numbers in 16 bits. Where such a pair becomes half
of a longer word, and its upper byte is taken as well, ptxas 12.8 and 12.9 merge the conversion with the packing, and
take the byte from a register that was not written yet: of a tile that is stored as it lies and turned, a quarter of the
turned one is what the register held before (H100, 2026-11-28, by Triton 3.6.0 and 3.7.1; ptxas 13.0 and 13.1 are
right). Here the byte comes from a conversion of its own.
"""

from __future__ import annotations

import re

REVISION = 1  # of the text that is made: of the binaries' key
_RIGHT_SINCE = (13, 0)

_REG = r"%rs\d+"
_PAIRS = re.compile(
    rf"^\s*(cvt\.rn\.satfinite\.(?:relu\.)?e[45]m[23]x2\.(f32|f16x2))\s+({_REG}), ([^;]+);.*$", re.MULTILINE
)
_PACKED = re.compile(r"^[^{;]*\.(?:v[248]\.)?[bu](?:16|32|64)\b[^{;]*\{([^}]*)\}", re.MULTILINE)  # not of single bytes
_TAKEN = re.compile(
    rf"^(?P<lead>\s*)(?:shr\.(?P<sign>[us])16\s+(?P<half>{_REG}), (?P<of>{_REG}), 8"
    rf"|cvt\.u32\.u16\s+(?P<whole>%r\d+), (?P<from>{_REG}))\s*;",
    re.MULTILINE,
)


def is_at_fault(version: str) -> bool:
    """Whether an assembler of that version, as ``12.8.93``, has one of the faults."""
    return tuple(map(int, version.split(".")[:2])) < _RIGHT_SINCE


def mended(ptx: str) -> str | None:
    """The text with the same meaning that such an assembler gets right; None where it gets ``ptx`` right."""
    pairs = {found[3]: found for found in _PAIRS.finditer(ptx)}
    packed = {register for found in _PACKED.finditer(ptx) for register in re.findall(_REG, found[1])}
    taken = {found["of"] or found["from"] for found in _TAKEN.finditer(ptx)}
    broken = [register for register in pairs if register in packed & taken]
    if not broken:
        return None
    text = _PAIRS.sub(lambda found: found[0] + _own_bytes(found) if found[3] in broken else found[0], ptx)
    text = _TAKEN.sub(lambda found: _byte_of(found, broken), text)
    registers = "".join(f"\t.reg .b16 \t{_upper(r)}, {_lower(r)};\n" for r in broken) + "\t.reg .b16 \t%mended;\n"
    head, brace, body = text.partition("{\n")
    return head + brace + registers + "\t.reg .b32 \t%mended_half;\n" + body


def _upper(register: str) -> str:
    return f"{register}_upper"


def _lower(register: str) -> str:
    return f"{register}_lower"


def _own_bytes(found: re.Match[str]) -> str:
    """Conversions of each number of a pair alone, in the lower byte of a register."""
    convert, source, register, operands = found.groups()
    if source == "f32":
        upper, lower = (number.strip() for number in operands.split(","))
        alone = (f"{convert} \t{own}, 0f00000000, {number};" for own, number in (
            (_upper(register), upper), (_lower(register), lower)))  # fmt: skip
        return "".join(f"\n\t{line}" for line in alone)
    (both,) = (operands.strip(),)
    return (
        f"\n\tshr.u32 \t%mended_half, {both}, 16;\n\t{convert} \t{_upper(register)}, %mended_half;"
        f"\n\tand.b32 \t%mended_half, {both}, 65535;\n\t{convert} \t{_lower(register)}, %mended_half;"
    )


def _byte_of(found: re.Match[str], broken: list[str]) -> str:
    """An instruction that takes the upper byte of a pair, or both, of the bytes converted alone."""
    register, lead = found["of"] or found["from"], found["lead"]
    if register not in broken:
        return found[0]
    if found["whole"]:
        return (
            f"{lead}shl.b16 \t%mended, {_upper(register)}, 8;{lead}or.b16 \t%mended, %mended, {_lower(register)};"
            f"{lead}cvt.u32.u16 \t{found['whole']}, %mended;"
        )
    if found["sign"] == "u":
        return f"{lead}mov.b16 \t{found['half']}, {_upper(register)};"
    return f"{lead}shl.b16 \t%mended, {_upper(register)}, 8;{lead}shr.s16 \t{found['half']}, %mended, 8;"
