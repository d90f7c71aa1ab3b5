"""Triton's key is made beside the work that does not need it, and is there after it."""

from __future__ import annotations

import threading

import pytest

from tileflow.build import triton_key


def test_the_key_is_made_beside_the_block_and_awaited_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    in_block, made = threading.Event(), list[bool]()
    monkeypatch.setattr(triton_key, "make_key", lambda: made.append(in_block.wait(10.0)))
    with triton_key.made_aside():
        assert not made, "the block runs before the key is there"
        in_block.set()
    assert made == [True]


def test_it_is_the_key_that_triton_keeps() -> None:
    from triton.runtime.cache import triton_key as kept

    with triton_key.made_aside():
        pass
    before = kept.cache_info()
    kept()
    after = kept.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
