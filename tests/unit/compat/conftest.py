"""What tests of the dialect share: notes that nobody has seen yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tileflow.compat.helion import notes


@pytest.fixture(autouse=True)
def fresh_notes() -> Iterator[None]:
    notes.forget()
    yield
    notes.forget()
