"""Finds the helpers of ``tests/unit``; ``--update-golden`` and ``golden`` are in the conftest above."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "unit"))
