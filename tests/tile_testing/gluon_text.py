"""What tests look for in generated Gluon programs, and in the machine code that they become."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path

import torch

from tileflow.schedule.types import Arrive, Await, AwaitPuts, Copy, Multiply, Put, Step, Wait, steps_of


def role(text: str, name: str) -> str:
    """The text of one function of a program."""
    start = text.index(f"def {name}(")
    return text[start : text.find("@gluon.jit", start)]


def assert_has_each_step(text: str, program: tuple[Step, ...]) -> None:
    """The text of a role has each step of its program, and none besides."""
    steps = list(steps_of(program))

    def count(*kinds: type) -> int:
        return sum(isinstance(s, kinds) for s in steps)

    assert text.count("mbarrier.wait(") == count(Wait)
    assert text.count("mbarrier.arrive(") == count(Arrive)
    assert text.count("mbarrier.expect(") == text.count("async_copy_global_to_shared(") == count(Copy)
    assert text.count(" warpgroup_mma(") == count(Multiply)
    assert text.count("warpgroup_mma_wait(") == count(Await)
    assert text.count("async_copy_shared_to_global(") == text.count("fence_async_shared(") == count(Put)
    assert text.count("tma.store_wait(0)") == count(AwaitPuts)


def advice(assembly: str) -> str:
    """What ptxas says of a kernel."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(assembly)
        words = [knobs.nvidia.ptxas.path, "-v", "-arch=sm_90a", str(path), "-o", str(path.with_suffix(".cubin"))]
        return subprocess.run(words, capture_output=True, text=True, check=True).stderr


def machine_code(code: bytes) -> str:
    """The instructions of a binary."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(code)
        words = [knobs.nvidia.nvdisasm.path, "-c", str(path)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def turns_of_products(code: bytes) -> list[list[str]]:
    """The machine code's innermost loops with products of warp groups, each as its operations."""
    begins, lines, found = dict[str, int](), list[str](), list[tuple[int, int]]()
    for line in machine_code(code).splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            begins[label[1]] = len(lines)
        elif instruction := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?(\S+)(.*);", line):
            lines.append(instruction[1])
            target = re.search(r"`?\(?(\.L_x_\d+)\)?", instruction[2]) if instruction[1].startswith("BRA") else None
            if target and target[1] in begins:
                found.append((begins[target[1]], len(lines)))
    loops = [(a, b) for a, b in found if any("GMMA" in word for word in lines[a:b])]
    inner = [(a, b) for a, b in loops if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]
    return [lines[a:b] for a, b in inner]


def evaluated(text: str, helper: str, dtype: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both halves of the word that a helper's assembly text makes of 32-bit ``inputs``, in ``dtype``. It knows the few
    instructions that conversions are made of."""
    lines = role(text, helper).partition('asm: gl.constexpr = """')[2].partition('"""')[0].splitlines()
    halves, known = getattr(torch, dtype), dict[str, torch.Tensor]()
    outputs = 2 if "=h,=h" in role(text, helper) else 1
    known |= {f"${outputs + n}": value.long() for n, value in enumerate(inputs)}

    def value(name: str) -> torch.Tensor:
        return known[name] if name in known else torch.tensor(int(name, 0))

    def pair(word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = (((word >> shift) & 0xFFFF).to(torch.uint16).view(halves) for shift in (0, 16))
        return low, high

    def word(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        return low.view(torch.uint16).long() | (high.view(torch.uint16).long() << 16)

    for line in lines:
        if not (found := re.match(r"\s*(\w[\w.]*) (.+?);", line)):
            continue
        name, (into, *operands) = found[1], re.findall(r"\{[^}]*\}|[^,\s]+", found[2])
        given = [value(operand) for operand in operands]
        if name == "mul.lo.u32":
            made = given[0] * given[1]
        elif name == "mad.lo.u32":
            made = given[0] * given[1] + given[2]
        elif name == "lop3.b32":
            rows = [_where_bits(given[:3], n) for n in range(8) if int(given[3]) >> n & 1]
            made = functools.reduce(torch.bitwise_or, rows)
        elif name.startswith(("sub.rn.", "add.rn.")):
            sign = 1 if name.startswith("add") else -1
            made = word(*(a + sign * b for a, b in zip(pair(given[0]), pair(given[1]), strict=True)))
        else:
            assert name == "mov.b32", line
            made = given[0]
        known[into] = made & 0xFFFFFFFF
    return pair(known["{$0, $1}" if outputs == 2 else "$0"])


def _where_bits(words: list[torch.Tensor], row: int) -> torch.Tensor:
    """The bits at which three words have those of a row of a truth table, the first word's being its highest."""
    chosen = [word if row >> (2 - n) & 1 else ~word & 0xFFFFFFFF for n, word in enumerate(words)]
    return chosen[0] & chosen[1] & chosen[2]
