"""Where commands find the kernels that are named on the command line."""

from __future__ import annotations

import os
import sys


def import_from_here() -> None:
    """Make kernels importable from the folder that the command runs in, as with ``python -m``."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
