"""Names to show: of a study (``softmax 64x8192 bf16 h200``) and of a trial (``#07 3.09 us 64x16x16 w4``)."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tileflow.config import Config
from tileflow.runtime.recorded import RECORDED

from ..records import StudyKey, TrialRecord

MODELLED = "modelled"
MOST_KEY = 250  # characters of the columns of parameters' and metrics' names
MOST_NAME = MOST_KEY - len(f" {MODELLED}")  # of that of runs' names, which may end so
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
_VENDORS = ("nvidia-", "amd-")
_BLOCK = "block:"
_FEW = 4  # knobs that still read as a name


def study_name(key: StudyKey) -> str:
    """Return ``softmax 64x8192 bf16 h200``: kernel, sizes, what else tells the problem apart, device. Of a recorded
    call its arguments, ``softmax x=float32[64x8192] h200``."""
    problem = dict(key.problem)
    if RECORDED in problem:
        return cut(" ".join((key.kernel.rpartition(":")[2], key.shown, device_name(key.device_class))))
    sizes = "x".join(str(problem[name]) for name in _by_axis(n for n, v in problem.items() if type(v) is int))
    others = [_word(name, value) for name, value in problem.items() if type(value) is not int]
    return cut(" ".join(filter(None, (key.kernel.rpartition(":")[2], sizes, *others, device_name(key.device_class)))))


def cut(text: str, most: int = MOST_NAME) -> str:
    """Return ``text``, or what a column of MLflow's stores holds of it, ended by eight digits that no other text has.
    PostgreSQL refuses a longer one, and with it all that comes in the same transaction."""
    if len(text) <= most:
        return text
    return f"{text[: most - 12]}... {hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def device_name(device_class: str) -> str:
    """Return the device class without its vendor."""
    for vendor in _VENDORS:
        device_class = device_class.removeprefix(vendor)
    return device_class


def trial_name(record: TrialRecord, number: int) -> str:
    """Return ``#07 3.09 us 64x16x16 w4``; a failed trial has its status in place of the time."""
    if record.time_us is None:
        ended = record.status.value
    else:
        ended = f"{record.time_us:.2f} us" + ("" if record.measured else f" {MODELLED}")
    return cut(f"#{number:02d} {ended} {config_words(record.config)}".rstrip())


def config_words(config: Config) -> str:
    """Return ``64x16x16 w4``: blocks and warps; of a kernel without blocks its first knobs."""
    knobs: dict[str, Any] = config.to_dict()
    blocks = {name.removeprefix(_BLOCK): value for name, value in knobs.items() if name.startswith(_BLOCK)}
    warps = [f"w{knobs['num_warps']}"] if "num_warps" in knobs else []
    if not blocks:
        rest = [f"{name}={value}" for name, value in knobs.items() if name != "num_warps"]
        return " ".join([*rest[:_FEW], *warps])
    return " ".join(["x".join(str(blocks[name]) for name in _by_axis(blocks)), *warps])


@functools.cache
def key_name(name: str) -> str:
    """Return the name as MLflow takes it for a parameter or a metric: letters, digits, ``_-./: `` only."""
    return cut(re.sub(r"[^\w\-./: ]", ".", name, flags=re.ASCII), MOST_KEY)


def problem_words(problem: Mapping[str, Any]) -> str:
    """Return ``m=64 n=8192 dtype=bfloat16``."""
    return " ".join(f"{name}={problem[name]}" for name in [*_by_axis(problem)])


def _by_axis(names: Iterable[str]) -> list[str]:
    """Sort axes by name, but put the reduced axis after the two of the result: m, n, k."""
    return sorted(names, key=lambda name: (name.rpartition("_")[2] == "k", name))


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, str):
        return _DTYPES.get(value, value if "dtype" in name else f"{name}={value}")
    return f"{name}={value}"
