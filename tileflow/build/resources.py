"""Static facts of a binary, without a GPU: registers, local memory, instruction mix, occupancy.

NVIDIA's come from the cubin, an ELF file whose ``.nv.info`` section lists (attribute, symbol, value) triples; AMD's
from the metadata at the end of the assembly text. The tests hold the former to what ``cuobjdump`` prints.
"""

from __future__ import annotations

import re
import struct
from collections import Counter

from ..errors import BuildError
from ..runtime.abi import Resources
from ..target import Target
from .compat import Compiled
from .sass import local_accesses_in_loops

LOOPED_SPILLS = "looped_spill"  # the class of instructions that load or store spilled registers in loops

_REGCOUNT = 0x2F
_FRAME_SIZE = 0x11
_SIZED = 0x04  # an .nv.info entry whose payload's size follows

# mnemonic class -> what starts a line of assembly that belongs to it; the first match wins
_PTX = {
    "wgmma": r"wgmma\.mma_async",
    "tcgen05": r"tcgen05\.mma",
    "mma": r"mma\.sync",
    "async_copy": r"cp\.async\.(?:c[ag]\.|bulk\.(?!commit|wait))",
    "load_global": r"ld\.(?:volatile\.|relaxed\.|acquire\.)?(?:\w+\.)*?global",
    "store_global": r"st\.(?:volatile\.|relaxed\.|release\.)?(?:\w+\.)*?global",
    "load_shared": r"(?:ld\.(?:\w+\.)*?shared|ldmatrix)",
    "store_shared": r"(?:st\.(?:\w+\.)*?shared|stmatrix)",
    "atomic": r"(?:atom|red)\.(?!async)",
    "sfu": r"(?:ex2|lg2|sin|cos|tanh|rsqrt|sqrt|rcp|div)\.(?:\w+\.)*?(?:approx|full)",
    "fma": r"fma\.",
    "barrier": r"(?:bar|barrier)\.",
    "shuffle": r"shfl\.",
}
_AMDGCN = {
    "mma": r"v_(?:mfma|smfmac|wmma)_",
    "load_global": r"(?:global|buffer|flat)_load_",
    "store_global": r"(?:global|buffer|flat)_store_",
    "load_shared": r"ds_(?:read|load)",
    "store_shared": r"ds_(?:write|store)",
    "atomic": r"(?:global|buffer|flat)_atomic_",
    "sfu": r"v_(?:exp|log|sin|cos|rsq|sqrt|rcp)_",
    "fma": r"v_(?:pk_)?(?:fma|fmac|mad|mac)_",
    "barrier": r"s_barrier",
    "shuffle": r"(?:ds_bpermute|ds_swizzle|v_\w+_dpp)",
    "spill": r"scratch_(?:load|store)_",
}
# what LLVM calls the arrays of a function, which make frames of whole eight bytes
_DEPOT, _FRAME_STEP = re.compile(r"\.local\s[^;]*__local_depot\d+\[(\d+)\];"), 8
_PTX_LINE = re.compile(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.:]*)", re.MULTILINE)
_AMDGCN_LINE = re.compile(r"^\s+([a-z]+_[a-z0-9_]+)\b", re.MULTILINE)
MATRIX_CLASSES = frozenset(("wgmma", "tcgen05", "mma"))


def read_resources(compiled: Compiled, target: Target) -> Resources:
    """The facts of a freshly compiled kernel. Raises BuildError where the binary does not carry them."""
    if compiled.format == "cubin":
        registers, local = cubin_registers(compiled.code, compiled.symbol)
        spills = max(local - declared_arrays(compiled.assembly), 0)
    else:
        registers, spills = amdgcn_registers(compiled.assembly)
    mix = instruction_mix(compiled.assembly, target)
    if spills and compiled.format == "cubin" and (looped := _looped_spills(compiled, target)):
        mix = tuple(sorted((*mix, (LOOPED_SPILLS, looped))))
    return Resources(registers, spills, compiled.shared, compiled.warps * target.warp_size, mix)


def _looped_spills(compiled: Compiled, target: Target) -> int:
    """Instructions that spill in loops; one where the code is not as the reader knows it, for all may be."""
    text = elf_sections(compiled.code).get(f".text.{compiled.symbol}")
    return 1 if text is None or not target.has_hopper_code else local_accesses_in_loops(text[0])


def declared_arrays(assembly: str) -> int:
    """Bytes of local memory a thread of the arrays that PTX declares itself. CUDA's sine has one, in which it reduces
    arguments of more than 100000: no other argument comes near it, so that it is no spill."""
    sizes = (int(size) for size in _DEPOT.findall(assembly))
    return sum(-(-size // _FRAME_STEP) * _FRAME_STEP for size in sizes)


def cubin_registers(code: bytes, symbol: str) -> tuple[int, int]:
    """(registers a thread, bytes of local memory a thread) of the kernel ``symbol`` in a cubin."""
    try:
        sections = elf_sections(code)
        names = _symbol_names(*sections[".symtab"], strings=sections[".strtab"][0])
        found = {
            attribute: value
            for attribute, index, value in _nv_info(sections[".nv.info"][0])
            if names[index] == symbol and attribute in (_REGCOUNT, _FRAME_SIZE)
        }
        return found[_REGCOUNT], found[_FRAME_SIZE]
    except (KeyError, IndexError, struct.error) as error:
        raise BuildError(
            f"a cubin must state the registers of {symbol}",
            got=f"{type(error).__name__}: {error}",
            hint="the binary is damaged, or its assembler is newer than this reader",
        ) from error


def amdgcn_registers(assembly: str) -> tuple[int, int]:
    """(32-bit vector registers a lane, accumulation registers counted; bytes of scratch a lane) of an AMD kernel.

    From gfx90a on vector and accumulation registers share one file: ``.vgpr_count`` is their sum.
    """

    def fact(name: str) -> int:
        match = re.search(rf"^\s*(?:- )?\.{name}:\s*(\d+)", assembly, re.MULTILINE)
        if match is None:
            raise BuildError("AMD assembly must end with the kernel's metadata", got=f"no .{name}")
        return int(match[1])

    return fact("vgpr_count"), fact("private_segment_fixed_size")


def instruction_mix(assembly: str, target: Target) -> tuple[tuple[str, int], ...]:
    """Static counts of instructions by class, sorted by name; ``total`` counts every instruction."""
    line, classes = (_PTX_LINE, _PTX) if target.vendor == "nvidia" else (_AMDGCN_LINE, _AMDGCN)
    table = [(name, re.compile(pattern)) for name, pattern in classes.items()]
    counts = Counter[str]()
    for mnemonic, times in Counter(line.findall(assembly)).items():
        counts["total"] += times
        name = next((name for name, pattern in table if pattern.match(mnemonic)), None)
        if name is not None:
            counts[name] += times
    return tuple(sorted(counts.items()))


def occupancy(resources: Resources, target: Target) -> float:
    """Active warps over the most that an SM (AMD: a compute unit) holds; 0 where not one block fits.

    The limits are threads, registers (allocated by 8 a thread and by 256 a warp on NVIDIA) and shared memory (of which
    each NVIDIA block reserves 1 KiB); after the CUDA occupancy calculator. Block slots (32) bind small blocks.
    """
    warps = -(-resources.threads // target.warp_size)
    granule = 8
    registers = max(-(-max(resources.registers, 1) // granule) * granule, granule)
    reserved = 1024 if target.vendor == "nvidia" else 0
    shared = resources.shared + reserved
    limits = [
        32,
        target.max_threads_per_sm // (warps * target.warp_size),
        target.regs_per_sm // (registers * target.warp_size * warps),
    ]
    if shared:
        limits.append(target.smem_per_sm // shared)
    return min(min(limits) * warps * target.warp_size / target.max_threads_per_sm, 1.0)


def elf_sections(code: bytes) -> dict[str, tuple[bytes, int]]:
    """(contents, entry size) of each section of a 64-bit little-endian ELF file, by name."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise KeyError("not a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", code, 0x28)
    entry, count, names_at = struct.unpack_from("<HHH", code, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, offset + i * entry) for i in range(count)]
    names = code[headers[names_at][4] :]
    return {_text(names, h[0]): (code[h[4] : h[4] + h[5]], h[9]) for h in headers}


def _symbol_names(table: bytes, entry: int, *, strings: bytes) -> list[str]:
    return [_text(strings, struct.unpack_from("<I", table, at)[0]) for at in range(0, len(table), entry)]


def _nv_info(section: bytes) -> list[tuple[int, int, int]]:
    """(attribute, symbol index, value) of the entries that have all three."""
    entries, at = [], 0
    while at < len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != _SIZED:
            continue
        if size == 8:
            entries.append((attribute, *struct.unpack_from("<II", section, at)))
        at += size
    return entries


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
