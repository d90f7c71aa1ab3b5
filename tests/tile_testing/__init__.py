"""What the tests share: kernels, what runs them in other processes, stand-ins, and where the repository's files are.

Found under this name by pytest (``pythonpath`` in pyproject.toml) and by every process that a test starts (the
``PYTHONPATH`` that ``tests/conftest.py`` sets). The name does not begin with the product's, which is how the product
tells its own modules from those of a user.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
