"""Target: what the compiler knows of a device class, the catalogue of classes, and the description of all others.

A Target is a frozen value. The compiler never asks a live GPU; only workers and the runtime do, to find out which
class they stand on (:func:`classify`). A card that the catalogue lacks is a class of its own, whose name holds its
figures, so that any process makes the same Target of the name alone (:func:`target`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from .errors import SpecError
from .lazy_dataclass import dataclass

Vendor = Literal["nvidia", "amd"]


@dataclass(frozen=True, slots=True)
class Target:
    """One device class. Rates are datasheet figures, for models and rooflines; a benchmark measures its own.

    ``smem_per_block``: bytes one block may use. ``regs_per_sm``: 32-bit registers. ``dram_gbps``: GB/s.
    ``peak_tflops``: dense rate by dtype name (``float32`` without matrix units). ``warp_size``: 32 or 64.
    ``dies``: that have a second-level cache each and are given programs in turn.
    """

    name: str
    vendor: Vendor
    arch: str
    sm_count: int
    smem_per_block: int
    smem_per_sm: int
    regs_per_sm: int
    max_threads_per_sm: int
    l2_bytes: int
    dram_gbps: float
    mem_gb: int
    clock_mhz: int
    peak_tflops: tuple[tuple[str, float], ...]
    warp_size: int = 32
    dies: int = 1
    siblings: tuple[str, ...] = ()
    display_names: tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        """Triton's name of the backend."""
        return "cuda" if self.vendor == "nvidia" else "hip"

    @property
    def capability(self) -> int:
        """NVIDIA compute capability as major * 10 + minor (90 for sm_90a); 0 on AMD."""
        return _capability(self.arch) if self.vendor == "nvidia" else 0

    # ---- abilities: what other files ask instead of comparing architectures ------------------------------------

    @property
    def has_warp_groups(self) -> bool:
        """Whether warps multiply in groups of four, from shared memory: Hopper, and Blackwell of the data centre."""
        return self.has_wgmma or self.has_tensor_memory

    @property
    def has_wgmma(self) -> bool:
        """Whether warp groups multiply asynchronously into their own registers, the left operand from there or from
        shared memory: Hopper alone."""
        return self.capability // 10 == 9

    @property
    def has_tensor_memory(self) -> bool:
        """Whether products accumulate in a memory of their own: Blackwell of the data centre."""
        return self.capability // 10 == 10

    @property
    def has_tensor_maps(self) -> bool:
        """Whether a copy engine moves boxes of tensors by descriptor: NVIDIA from Hopper on."""
        return self.capability >= 90

    @property
    def has_hopper_code(self) -> bool:
        """Whether machine code says where branches go as Hopper's does: from it on."""
        return self.capability >= 90

    @property
    def has_clusters(self) -> bool:
        """Whether blocks are launched in clusters that reach one another's shared memory. Hopper: later architectures
        have them too, where nothing of ours was run."""
        return self.capability // 10 == 9

    @property
    def has_dependent_launches(self) -> bool:
        """Whether a launch may begin while the one before it ends, and its blocks wait for that: NVIDIA from Hopper
        on."""
        return self.capability >= 90

    @property
    def has_bfloat16(self) -> bool:
        """Whether arithmetic of bfloat16 is the hardware's: AMD's, and NVIDIA's from Ampere on."""
        return self.vendor == "amd" or self.capability >= 80

    @property
    def has_e4m3(self) -> bool:
        """Whether Triton converts from and to float8_e4m3fn: for AMD, and for NVIDIA from Ada on."""
        return self.vendor == "amd" or self.capability >= 89

    @property
    def has_fnuz(self) -> bool:
        """Whether the backend knows AMD's own fp8 types."""
        return self.vendor == "amd"

    @property
    def has_float64_products(self) -> bool:
        """Whether Triton multiplies tiles of float64."""
        return self.arch != "gfx942"

    @property
    def has_scaled_products(self) -> bool:
        """Whether Triton multiplies tiles with block scales."""
        return self.arch != "gfx942"

    @property
    def has_tf32_products(self) -> bool:
        """Whether the matrix units round float32 to tf32: NVIDIA's, and gfx942's."""
        return self.vendor == "nvidia" or self.arch == "gfx942"

    @property
    def has_kpack(self) -> bool:
        """Whether the operands of two matrix instructions can be read at once; later architectures read them whole."""
        return self.arch == "gfx942"

    def tflops(self, dtype: str) -> float:
        """Peak dense rate of dot products with operands of ``dtype``; float32's plain rate where unknown."""
        rates = dict(self.peak_tflops)
        return rates.get(dtype, rates["float32"])

    def symbols(self) -> Mapping[str, int]:
        """The fields that Exprs may name, as ``target.<field>``."""
        return {
            "target.sm_count": self.sm_count,
            "target.smem_per_block": self.smem_per_block,
            "target.regs_per_sm": self.regs_per_sm,
            "target.warp_size": self.warp_size,
            "target.l2_bytes": self.l2_bytes,
        }


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What a driver says of one card, or of one slice of it. None: the driver, or this build of torch, does not say."""

    display_name: str
    vendor: Vendor
    arch: str
    sm_count: int
    mem_bytes: int
    smem_per_block: int | None = None
    smem_per_sm: int | None = None
    max_threads_per_sm: int | None = None
    l2_bytes: int | None = None
    warp_size: int | None = None


# ---- the catalogue ------------------------------------------------------------------------------------------------


def _nvidia(
    name: str,
    arch: str,
    sms: int,
    *,
    smem_kb: int,
    threads: int = 2048,
    l2_mb: int,
    gbps: float,
    mem_gb: int,
    mhz: int,
    fp32: float,
    bf16: float,
    fp8: float | None = None,
    int8: float | None = None,
    siblings: tuple[str, ...] = (),
    display: tuple[str, ...] = (),
) -> Target:
    peaks = {"float32": fp32, "tf32": bf16 / 2, "float16": bf16, "bfloat16": bf16, "int8": int8 or bf16 * 2}
    if fp8 is not None:
        peaks |= {"float8_e4m3fn": fp8, "float8_e5m2": fp8}
    return Target(
        name=name,
        vendor="nvidia",
        arch=arch,
        sm_count=sms,
        smem_per_block=(smem_kb - 1) * 1024,
        smem_per_sm=smem_kb * 1024,
        regs_per_sm=65536,
        max_threads_per_sm=threads,
        l2_bytes=l2_mb << 20,
        dram_gbps=gbps,
        mem_gb=mem_gb,
        clock_mhz=mhz,
        peak_tflops=tuple(sorted(peaks.items())),
        siblings=siblings,
        display_names=display,
    )


def _amd(
    name: str,
    arch: str,
    cus: int,
    *,
    lds_kb: int,
    gbps: float,
    mem_gb: int,
    mhz: int,
    fp32: float,
    bf16: float,
    dies: int = 8,
    siblings: tuple[str, ...] = (),
    display: tuple[str, ...] = (),
) -> Target:
    peaks = {"float32": fp32, "tf32": fp32, "float16": bf16, "bfloat16": bf16, "int8": bf16 * 2}
    peaks["float8_e4m3fnuz" if arch == "gfx942" else "float8_e4m3fn"] = bf16 * 2
    return Target(
        name=name,
        vendor="amd",
        arch=arch,
        sm_count=cus,
        smem_per_block=lds_kb * 1024,
        smem_per_sm=lds_kb * 1024,
        regs_per_sm=4 * 512 * 64,
        max_threads_per_sm=2048,
        l2_bytes=256 << 20,
        dram_gbps=gbps,
        mem_gb=mem_gb,
        clock_mhz=mhz,
        peak_tflops=tuple(sorted(peaks.items())),
        warp_size=64,
        dies=dies,
        siblings=siblings,
        display_names=display,
    )


_SM_80 = ("nvidia-a100", "nvidia-a100-pcie")
_SM_89 = ("nvidia-l40s", "nvidia-rtx6000-ada", "nvidia-rtx4090")
_SXM_SM_90 = ("nvidia-h200", "nvidia-h100-sxm", "nvidia-gh200")
_NVL_SM_90 = ("nvidia-h200-nvl", "nvidia-h100-nvl")
_CUT_SM_90 = ("nvidia-h100-pcie", "nvidia-h20")


def _but(name: str, *groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(other for group in groups for other in group if other != name)


# Siblings are the cards whose tuned rows suit best, in that order: as many SMs first, then as fast a memory.
# The first entry of an architecture stands for it.
_TARGETS = (
    _nvidia("nvidia-a100", "sm_80", 108, smem_kb=164, l2_mb=40, gbps=2039, mem_gb=80, mhz=1410, fp32=19.5,
            bf16=312, siblings=_but("nvidia-a100", _SM_80),
            display=("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB")),
    _nvidia("nvidia-a100-pcie", "sm_80", 108, smem_kb=164, l2_mb=40, gbps=1935, mem_gb=80, mhz=1410, fp32=19.5,
            bf16=312, siblings=_but("nvidia-a100-pcie", _SM_80),
            display=("NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB")),
    _nvidia("nvidia-l40s", "sm_89", 142, smem_kb=100, threads=1536, l2_mb=96, gbps=864, mem_gb=48, mhz=2520,
            fp32=91.6, bf16=362, fp8=733, siblings=_but("nvidia-l40s", _SM_89), display=("NVIDIA L40S",)),
    _nvidia("nvidia-rtx6000-ada", "sm_89", 142, smem_kb=100, threads=1536, l2_mb=96, gbps=960, mem_gb=48, mhz=2505,
            fp32=91.1, bf16=364, fp8=728, siblings=_but("nvidia-rtx6000-ada", _SM_89),
            display=("NVIDIA RTX 6000 Ada Generation",)),
    _nvidia("nvidia-rtx4090", "sm_89", 128, smem_kb=100, threads=1536, l2_mb=72, gbps=1008, mem_gb=24, mhz=2520,
            fp32=82.6, bf16=165, fp8=330, int8=661, siblings=_but("nvidia-rtx4090", _SM_89),
            display=("NVIDIA GeForce RTX 4090",)),
    _nvidia("nvidia-h100-sxm", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=3350, mem_gb=80, mhz=1980, fp32=67,
            bf16=989, fp8=1979, siblings=_but("nvidia-h100-sxm", _SXM_SM_90, _NVL_SM_90, _CUT_SM_90),
            display=("NVIDIA H100 80GB HBM3",)),
    _nvidia("nvidia-h100-pcie", "sm_90a", 114, smem_kb=228, l2_mb=50, gbps=2039, mem_gb=80, mhz=1755, fp32=51,
            bf16=756, fp8=1513, display=("NVIDIA H100 PCIe",),
            siblings=("nvidia-h100-sxm", *_but("nvidia-h100-sxm", _SXM_SM_90, _NVL_SM_90), "nvidia-h20")),
    _nvidia("nvidia-h200", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=4800, mem_gb=141, mhz=1980, fp32=67,
            bf16=989, fp8=1979, siblings=_but("nvidia-h200", _SXM_SM_90, _NVL_SM_90, _CUT_SM_90),
            display=("NVIDIA H200",)),
    _nvidia("nvidia-h100-nvl", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=3938, mem_gb=94, mhz=1785, fp32=60,
            bf16=835, fp8=1671, siblings=_but("nvidia-h100-nvl", _NVL_SM_90, _SXM_SM_90, _CUT_SM_90),
            display=("NVIDIA H100 NVL",)),
    _nvidia("nvidia-h200-nvl", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=4800, mem_gb=141, mhz=1785, fp32=60,
            bf16=835, fp8=1671, siblings=_but("nvidia-h200-nvl", _NVL_SM_90, _SXM_SM_90, _CUT_SM_90),
            display=("NVIDIA H200 NVL",)),
    _nvidia("nvidia-gh200", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=4000, mem_gb=96, mhz=1980, fp32=67,
            bf16=989, fp8=1979, siblings=_but("nvidia-gh200", _SXM_SM_90, _NVL_SM_90, _CUT_SM_90),
            display=("NVIDIA GH200 480GB", "NVIDIA GH200 120GB")),
    _nvidia("nvidia-h20", "sm_90a", 78, smem_kb=228, l2_mb=60, gbps=4000, mem_gb=96, mhz=1980, fp32=44, bf16=148,
            fp8=296, siblings=("nvidia-h100-pcie", *_SXM_SM_90, *_NVL_SM_90), display=("NVIDIA H20", "NVIDIA H20-3e")),
    _nvidia("nvidia-b200", "sm_100a", 148, smem_kb=228, l2_mb=126, gbps=8000, mem_gb=180, mhz=1965, fp32=75,
            bf16=2250, fp8=4500, display=("NVIDIA B200",)),
    _nvidia("nvidia-b300", "sm_103a", 148, smem_kb=228, l2_mb=126, gbps=8000, mem_gb=288, mhz=2032, fp32=75,
            bf16=2250, fp8=4500, int8=165, display=("NVIDIA B300 SXM6 AC",)),
    _nvidia("nvidia-rtx5090", "sm_120", 170, smem_kb=100, threads=1536, l2_mb=96, gbps=1792, mem_gb=32,
            mhz=2407, fp32=105, bf16=210, fp8=419, display=("NVIDIA GeForce RTX 5090",)),
    _amd("amd-mi300x", "gfx942", 304, lds_kb=64, gbps=5300, mem_gb=192, mhz=2100, fp32=163, bf16=1307,
         siblings=("amd-mi325x", "amd-mi300a"),
         display=("AMD Instinct MI300X", "AMD Instinct MI300X OAM", "AMD Instinct MI300X VF")),
    _amd("amd-mi325x", "gfx942", 304, lds_kb=64, gbps=6000, mem_gb=256, mhz=2100, fp32=163, bf16=1307,
         siblings=("amd-mi300x", "amd-mi300a"),
         display=("AMD Instinct MI325X", "AMD Instinct MI325X OAM", "AMD Instinct MI325X VF")),
    _amd("amd-mi300a", "gfx942", 228, lds_kb=64, gbps=5300, mem_gb=128, mhz=2100, fp32=123, bf16=981, dies=6,
         siblings=("amd-mi300x", "amd-mi325x"), display=("AMD Instinct MI300A",)),
    _amd("amd-mi350x", "gfx950", 256, lds_kb=160, gbps=8000, mem_gb=288, mhz=2200, fp32=144, bf16=2300,
         display=("AMD Instinct MI350X",)),
)  # fmt: skip

CATALOGUE: Mapping[str, Target] = {t.name: t for t in _TARGETS}
ANY_TARGET = "nvidia-h200"  # where there is no GPU, and any one will do

# Multiplies at a quarter of its architecture's rate, so that its rates say nothing of other cards.
_SLOWED = ("nvidia-h20",)

_at_hand: dict[str, str] = {}


def target(name: str) -> Target:
    """The class ``name``: of the catalogue (``nvidia-h200``), or described (``nvidia-sm_90a-60sm-40gb``). Raises
    SpecError."""
    found = find(name)
    if found is None:
        here = "".join(f"; described here: {known} ({display})" for known, display in described_here().items())
        raise SpecError(
            "a device class must be in the catalogue, or be named by its figures",
            got=repr(name),
            hint=f"known: {', '.join(CATALOGUE)}{here}; others are named as nvidia-sm_90a-60sm-40gb is",
        )
    return found


def find(name: str) -> Target | None:
    """The target of that name, as :func:`target` gives it; None for a name that is neither in the catalogue nor made of
    figures."""
    return (CATALOGUE.get(name) or _parsed(name)) if isinstance(name, str) else None


def classify(found: DeviceProperties) -> Target:
    """The class of a live card: the catalogue's where name, architecture and SM count are an entry's, else described.

    A slice of a card, and a card with fewer SMs under a known name, are therefore never taken for the whole one.
    """
    for entry in _TARGETS:
        figures = (entry.vendor, entry.arch, entry.sm_count)
        if found.display_name in entry.display_names and figures == (found.vendor, found.arch, found.sm_count):
            return entry
    made = described(found)
    _at_hand[made.name] = found.display_name
    return made


def described_here() -> Mapping[str, str]:
    """The classes that :func:`classify` has described in this process, and what their drivers call them."""
    return dict(_at_hand)


def same_architecture(device: Target) -> tuple[str, ...]:
    """The catalogue's other classes of the architecture, those with the nearest number of SMs first."""
    others = [t for t in _TARGETS if t.arch == device.arch and t.name != device.name]
    return tuple(t.name for t in sorted(others, key=lambda t: _distance(t, device.sm_count, device.mem_gb)))


# ---- architectures ------------------------------------------------------------------------------------------------

_ARCHES = {"nvidia": re.compile(r"sm_\d{2,3}[af]?"), "amd": re.compile(r"gfx[0-9a-f]{3,4}")}
# NVIDIA's systems on a chip: their machine code runs on no other capability, and no other's on them.
_TEGRA = (72, 87, 101, 110)
_ARCH_SPECIFIC = 90  # Triton compiles for this capability and all later ones with the suffix "a"


def normalise_arch(arch: str) -> str:
    """AMD's ``gfx942:sramecc+:xnack-`` as ``gfx942``; others unchanged."""
    return arch.split(":", 1)[0]


def nvidia_arch(major: int, minor: int) -> str:
    """The architecture of a compute capability, as the catalogue writes it: ``sm_90a`` for 9 and 0."""
    capability = major * 10 + minor
    known = next((t.arch for t in _TARGETS if t.capability == capability), None)
    return known or f"sm_{capability}{'a' if capability >= _ARCH_SPECIFIC else ''}"


def vendor_of(name: str) -> Vendor:
    """The vendor of a device class or an architecture, also of one that a newer tileflow knows. Raises SpecError."""
    if name.startswith(("nvidia-", "sm_")):
        return "nvidia"
    if name.startswith(("amd-", "gfx")):
        return "amd"
    raise SpecError("a device class is named nvidia-... or amd-..., an architecture sm_... or gfx...", got=repr(name))


def runs_on(binary_arch: str, device_arch: str) -> bool:
    """Whether machine code for one architecture runs on a device of another.

    AMD's runs on its own architecture. NVIDIA's runs on later minor capabilities of its major one (``sm_80`` on
    ``sm_86`` and ``sm_89``), except what is specific to an architecture: that runs on its very capability. Specific is
    what has the suffix ``a``, and all that Triton makes from ``sm_90`` on.
    """
    binary_arch, device_arch = normalise_arch(binary_arch), normalise_arch(device_arch)
    if not (_is_sm(binary_arch) and _is_sm(device_arch)):
        return binary_arch == device_arch
    built, here = _capability(binary_arch), _capability(device_arch)
    family = binary_arch.endswith("f") or (built < _ARCH_SPECIFIC and not binary_arch.endswith("a"))
    if built == here or not family or built in _TEGRA or here in _TEGRA:
        return built == here
    return built // 10 == here // 10 and built < here


def _is_sm(arch: str) -> bool:
    return _ARCHES["nvidia"].fullmatch(arch) is not None


def _capability(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


# ---- classes that the catalogue lacks -----------------------------------------------------------------------------

_DESCRIBED = re.compile(
    rf"(nvidia-{_ARCHES['nvidia'].pattern}|amd-{_ARCHES['amd'].pattern})"
    r"-([1-9]\d{0,3})(?:sm|cu)-([1-9]\d{0,4})gb((?:-[a-z]+[1-9]\d{0,6})*)"
)
# What a name says only where it is not what the nearest catalogue entry has: word, field, unit. A name is a label of a
# Ray node too, of 63 characters at most.
_WORDS = (
    ("smem", "smem_per_block", 1024),
    ("persm", "smem_per_sm", 1024),
    ("threads", "max_threads_per_sm", 1),
    ("cache", "l2_bytes", 1 << 20),
    ("warp", "warp_size", 1),
)


def described(found: DeviceProperties) -> Target:
    """A class of the card's own, named by its figures: ``nvidia-sm_90a-60sm-40gb-cache25``.

    Sizes are the driver's (shared memory in whole KiB, the cache in whole MiB; memory to a sixteenth, which differs a
    little from driver to driver); rates are those of the nearest catalogue entry, of the architecture where there is
    one, in proportion. Clocks are left out: not every build of torch reports them, and a class has one name.
    Raises SpecError for an architecture that is none.
    """
    if not _ARCHES[found.vendor].fullmatch(found.arch) or not 0 < found.sm_count < 10_000:
        raise SpecError(
            "a device must have an architecture sm_... or gfx..., and SMs or CUs",
            got=f"{found.arch!r} with {found.sm_count}",
            where=found.display_name,
        )
    plain = _scaled(found.vendor, found.arch, found.sm_count, _rounded_gb(found.mem_bytes))
    return _with_figures(plain, _differing(plain, found))


@lru_cache(maxsize=1024)
def _parsed(name: str) -> Target | None:
    match = _DESCRIBED.fullmatch(name)
    if match is None:
        return None
    plain = _scaled(vendor_of(name), match[1].partition("-")[2], int(match[2]), int(match[3]))
    said = {word: int(number) for word, number in re.findall(r"([a-z]+)(\d+)", match[4])}
    made = _with_figures(plain, tuple((word, said[word]) for word, _, _ in _WORDS if word in said))
    return made if made.name == name and made.warp_size in (32, 64) else None


def _differing(plain: Target, found: Target | DeviceProperties) -> tuple[tuple[str, int], ...]:
    """The words and numbers by which ``found`` is not ``plain``."""
    said = []
    for word, field, unit in _WORDS:
        number = (getattr(found, field) or 0) // unit  # a driver that does not know says 0
        if number and number * unit != getattr(plain, field):
            said.append((word, number))
    return tuple(said)


def _with_figures(plain: Target, said: tuple[tuple[str, int], ...]) -> Target:
    fields = {word: (field, unit) for word, field, unit in _WORDS}
    other: dict[str, int] = {fields[word][0]: number * fields[word][1] for word, number in said}
    name = "-".join((plain.name, *(f"{word}{number}" for word, number in said)))
    return replace(plain, name=name, **other)  # type: ignore[arg-type]


def _scaled(vendor: Vendor, arch: str, sm_count: int, mem_gb: int) -> Target:
    """A class of ``sm_count`` SMs and ``mem_gb`` GB; all else as the nearest catalogue entry has it, rates in
    proportion. Less memory than the entry's is taken to hang on as many fewer channels; more is not."""
    entries = [t for t in _TARGETS if t.vendor == vendor]
    away = min(_arch_distance(t.arch, arch) for t in entries)
    nearest = [t for t in entries if _arch_distance(t.arch, arch) == away]
    base = min((t for t in nearest if t.name not in _SLOWED), key=lambda t: _distance(t, sm_count, mem_gb))
    share = sm_count / base.sm_count
    made = replace(
        base,
        name=f"{vendor}-{arch}-{sm_count}{'sm' if vendor == 'nvidia' else 'cu'}-{mem_gb}gb",
        arch=arch,
        sm_count=sm_count,
        mem_gb=mem_gb,
        dram_gbps=_figure(base.dram_gbps * min(mem_gb / base.mem_gb, 1.0)),
        peak_tflops=tuple((dtype, _figure(rate * share)) for dtype, rate in base.peak_tflops),
        dies=max(round(base.dies * share), 1) if base.arch == arch else 1,
        display_names=(),
    )
    return replace(made, siblings=same_architecture(made))


def _distance(entry: Target, sm_count: int, mem_gb: int) -> tuple[int, int]:
    return abs(entry.sm_count - sm_count), abs(entry.mem_gb - mem_gb)


def _arch_distance(one: str, other: str) -> int:
    if _is_sm(one) and _is_sm(other):
        return abs(_capability(one) - _capability(other))
    return abs(int(one.removeprefix("gfx"), 16) - int(other.removeprefix("gfx"), 16))


def _rounded_gb(size: int) -> int:
    gib = size / (1 << 30)
    step = 1 << max(int(gib).bit_length() - 4, 0)
    return max(round(gib / step) * step, 1)


def _figure(rate: float) -> float:
    """``rate`` rounded to four digits."""
    return float(f"{rate:.4g}")
