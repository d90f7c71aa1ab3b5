"""Target: what the compiler knows of a device, and the catalogue of device classes.

A Target is a frozen value out of the catalogue. The compiler never asks a live GPU; only workers and the
runtime do, to find out which catalogue entry they stand on (:func:`identify`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .errors import SpecError

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
        return int(self.arch.removeprefix("sm_").rstrip("af")) if self.vendor == "nvidia" else 0

    @property
    def has_warp_groups(self) -> bool:
        """Whether warps multiply in groups of four, from shared memory: Hopper, and Blackwell of the data centre."""
        return self.capability // 10 in (9, 10)

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
    siblings: tuple[str, ...] = (),
    display: tuple[str, ...] = (),
) -> Target:
    peaks = {"float32": fp32, "tf32": bf16 / 2, "float16": bf16, "bfloat16": bf16, "int8": bf16 * 2}
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
        dies=8,
        siblings=siblings,
        display_names=display,
    )


_TARGETS = (
    _nvidia("nvidia-a100", "sm_80", 108, smem_kb=164, l2_mb=40, gbps=2039, mem_gb=80, mhz=1410, fp32=19.5,
            bf16=312, display=("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB")),
    _nvidia("nvidia-h100-sxm", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=3350, mem_gb=80, mhz=1980, fp32=67,
            bf16=989, fp8=1979, siblings=("nvidia-h200",), display=("NVIDIA H100 80GB HBM3",)),
    _nvidia("nvidia-h100-pcie", "sm_90a", 114, smem_kb=228, l2_mb=50, gbps=2039, mem_gb=80, mhz=1755, fp32=51,
            bf16=756, fp8=1513, siblings=("nvidia-h100-sxm", "nvidia-h200"), display=("NVIDIA H100 PCIe",)),
    _nvidia("nvidia-h200", "sm_90a", 132, smem_kb=228, l2_mb=50, gbps=4800, mem_gb=141, mhz=1980, fp32=67,
            bf16=989, fp8=1979, siblings=("nvidia-h100-sxm",), display=("NVIDIA H200",)),
    _nvidia("nvidia-b200", "sm_100a", 148, smem_kb=228, l2_mb=126, gbps=8000, mem_gb=180, mhz=1965, fp32=75,
            bf16=2250, fp8=4500, display=("NVIDIA B200",)),
    _nvidia("nvidia-rtx5090", "sm_120", 170, smem_kb=100, threads=1536, l2_mb=96, gbps=1792, mem_gb=32,
            mhz=2407, fp32=105, bf16=210, fp8=419, display=("NVIDIA GeForce RTX 5090",)),
    _amd("amd-mi300x", "gfx942", 304, lds_kb=64, gbps=5300, mem_gb=192, mhz=2100, fp32=163, bf16=1307,
         display=("AMD Instinct MI300X", "AMD Instinct MI300X OAM")),
    _amd("amd-mi350x", "gfx950", 256, lds_kb=160, gbps=8000, mem_gb=288, mhz=2200, fp32=144, bf16=2300,
         display=("AMD Instinct MI350X",)),
)  # fmt: skip

CATALOGUE: Mapping[str, Target] = {t.name: t for t in _TARGETS}


def target(name: str) -> Target:
    """The catalogue entry ``name`` (``nvidia-h200``, ``amd-mi300x`` ...). Raises SpecError."""
    try:
        return CATALOGUE[name]
    except KeyError:
        known = ", ".join(CATALOGUE)
        raise SpecError("a device class must be in the catalogue", got=repr(name), hint=f"known: {known}") from None


def normalise_arch(arch: str) -> str:
    """AMD's ``gfx942:sramecc+:xnack-`` as ``gfx942``; others unchanged."""
    return arch.split(":", 1)[0]


def identify(display_name: str) -> Target:
    """The catalogue entry of a device that its driver calls ``display_name``. Raises SpecError."""
    for entry in _TARGETS:
        if display_name in entry.display_names:
            return entry
    raise SpecError(
        "the device must be in tileflow's catalogue",
        got=repr(display_name),
        hint="add it to tileflow/target.py with its datasheet figures",
    )
