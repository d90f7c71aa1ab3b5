"""The wheel installed beside the runtime's alone, and its kernels called from a process without a compiler.

This process makes the arguments and the references; the other one has nothing of tileflow but what was installed. Each
call must be served by a row of exactly its problem, and be right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tileflow.api import load_kernel
from tileflow.errors import BuildError
from tileflow.measure.check import check_call, reference_of
from tileflow.runtime.argtree import tensors

from ..spec import KernelSpec
from . import alone

EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A call by the installed package. ``step``: what served it. ``wrong``: what was wrong with it, or raised."""

    kernel: str
    problem: str
    step: str
    wrong: str

    @property
    def is_ok(self) -> bool:
        """Whether a row of this very problem served it, rightly."""
        return self.step == EXACT and not self.wrong


def installed(wheels: Sequence[Path], folder: Path) -> None:
    """Install wheels into ``folder``, without what they depend on. Raises BuildError where pip fails."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps"]
    done = subprocess.run([*pip, "--target", folder, *wheels], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError("pip must install the wheels", got=done.stderr[-2000:], where=", ".join(map(str, wheels)))


class Alone:
    """The other process. ``called``: runs a call there as if it were here."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder, self.step = process, folder, ""
        self.found = self._answer()

    def called(self, kernel: str, *args: Any) -> Any:
        """Call a kernel of the package on ``args``, which hold afterwards what the call left in them.

        Raises RuntimeError with what the call raised. ``step``: what served it.
        """
        given, into, device = self._folder / "args.pt", self._folder / "into.pt", _device(args)
        torch.save(args, given)
        asked = {"kernel": kernel, "args": str(given), "into": str(into), "device": device}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "raised" in answer:
            raise RuntimeError(answer["raised"])
        self.step = answer["step"]
        result, after = torch.load(into, map_location=device, weights_only=False)
        for mine, there in zip(tensors(args), tensors(after), strict=True):
            mine.copy_(there)
        return result

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process without a compiler ended with {self._process.wait()}")
        return dict(json.loads(line))


@contextmanager
def started(packages: Path, folder: Path, environment: dict[str, str] | None = None) -> Iterator[Alone]:
    """A process whose tileflow is that of ``packages``; calls travel through files in ``folder``. Raises BuildError
    where it finds another."""
    own = {**os.environ, **(environment or {}), "PYTHONPATH": str(packages)}
    command = [sys.executable, "-P", str(Path(alone.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own) as process:
        try:
            found = Alone(process, folder)
            if found.found["has_compiler"] or not Path(found.found["tileflow"]).is_relative_to(packages):
                raise BuildError("the process must find the installed runtime alone", got=str(found.found))
            yield found
        finally:
            assert process.stdin is not None
            process.stdin.close()


def dispatched(there: Alone, specs: Iterable[KernelSpec], most: int, device: str = "cuda") -> Iterator[Dispatched]:
    """Call each kernel at its first ``most`` problems; 0: at all."""
    for spec in specs:
        kernel = load_kernel(spec.kernel)
        for pairs in spec.problems[: most or None]:
            problem: dict[str, Any] = dict(pairs)
            args = kernel.inputs(device=device, **problem)
            reference, there.step = reference_of(kernel, args), ""
            try:
                verdict = check_call(partial(there.called, kernel.__name__), args, reference)
                wrong = "" if verdict.ok else verdict.reason
            except RuntimeError as error:
                wrong = str(error)
            yield Dispatched(spec.kernel, json.dumps(problem), there.step, wrong)


def _device(args: tuple[Any, ...]) -> str:
    return str(next(iter(tensors(args))).device)
