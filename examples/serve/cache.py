"""Keys and values in pages of 16 tokens that sequences take and give back."""

from __future__ import annotations

import torch

from .model import Decoder

PAGE = 16


class CacheFullError(RuntimeError):
    """A sequence needs more pages than are free."""


class PagedCache:
    """Both caches of all layers, [layers, pages, 16, heads, d]. Page 0 is nobody's: rows that fill a batch have it."""

    def __init__(self, model: Decoder, pages: int) -> None:
        s = model.sizes
        shape = (s.layers, pages, PAGE, s.kv_heads, s.head_dim)
        self.keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.values = torch.zeros_like(self.keys)
        self.pages_of_a_sequence = -(-s.positions // PAGE)
        self._free = list(range(pages - 1, 0, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, tokens: int) -> list[int]:
        """Pages for so many tokens. Raises CacheFullError, and takes none, where fewer are free."""
        count = -(-tokens // PAGE)
        if count > self.free:
            raise CacheFullError(f"{count} pages of {PAGE} tokens are needed, {self.free} are free")
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        self._free.extend(reversed(pages))

    @staticmethod
    def slot(pages: list[int], position: int) -> int:
        return pages[position // PAGE] * PAGE + position % PAGE
