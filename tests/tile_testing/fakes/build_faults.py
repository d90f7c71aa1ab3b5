"""What a child is asked to do in tests: behave, hang, crash, grow. Standard library only, so that it starts fast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tileflow.build.serve import report
from tileflow.errors import ConfigError

_hoard: list[bytes] = []


def double(value: int) -> int:
    return value * 2


def environment(name: str) -> str | None:
    return os.environ.get(name)


def group_and_parent() -> tuple[int, int]:
    return os.getpgrp(), os.getppid()


def refuse(text: str) -> None:
    raise ConfigError("this config must not be tried", got=text)


def surprise() -> None:
    raise ZeroDivisionError("an error that is not tileflow's")


def unpicklable() -> Any:
    return lambda: None


def hang_with_grandchild(pid_file: str) -> None:
    """Hangs as a build does whose assembler hangs: in a process of its own."""
    child = subprocess.Popen(["sleep", "600"])
    with open(pid_file, "w") as file:
        file.write(str(child.pid))
    child.wait()


def crash(signal_number: int = signal.SIGSEGV) -> None:
    os.write(2, b"LLVM ERROR: planted\n")
    os.kill(os.getpid(), signal_number)


def leave(code: int) -> None:
    os._exit(code)


def grow(megabytes: int) -> int:
    _hoard.append(os.urandom(megabytes << 20))
    return os.getpid()


def slow_phases(first_s: float, second_s: float) -> str:
    report("first")
    time.sleep(first_s)
    report("second")
    time.sleep(second_s)
    return "done"


def has_gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether the process ends in time; what nobody has waited for yet has ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def modules() -> list[str]:
    """The modules that this process has imported."""
    return list(sys.modules)
