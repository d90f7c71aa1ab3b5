"""What has changed since a recording was made.

The header holds the knobs that a recording was made with, so strategies are replayed against a stale one as before.
Only its statements about the kernel's present space are out of date.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileflow_experiments.records import StudyKey
from tileflow_experiments.tuning_task import Prepare

from tileflow.config import Knob
from tileflow.errors import TileflowError

from .recording import Header


def stale(header: Header, prepare: Prepare) -> str:
    """Return what of the kernel has changed since it was recorded, with the knobs by name; empty where nothing has."""
    key = StudyKey(header.kernel, tuple(sorted(header.problem.items())), header.device_class)
    try:
        task = prepare(key, "static")
    except (TileflowError, ImportError) as error:
        return f"its kernel cannot be lowered here: {error}".partition("\n")[0]
    changed = []
    if task.kernel.semantic_hash != header.semantic_hash:
        changed.append("the kernel")
    if task.space.fingerprint != header.space_fingerprint:
        changed.append(f"its space ({_difference(header.knobs, task.space.knobs)})")
    elif task.default != header.default:
        changed.append("its default config, which the replays begin with")
    return f"changed since it was recorded: {' and '.join(changed)}" if changed else ""


def _difference(before: Sequence[Knob], now: Sequence[Knob]) -> str:
    old, new = ({knob.name: knob.choices for knob in knobs} for knobs in (before, now))
    found = {
        "new": [name for name in new if name not in old],
        "gone": [name for name in old if name not in new],
        "other choices": [name for name in old if name in new and old[name] != new[name]],
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names) or "its constraints"
