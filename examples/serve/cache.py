"""Keys and values in pages of 16 tokens that sequences take and give back."""

from __future__ import annotations

import torch

from .model import Decoder

PAGE = 16


class CacheFullError(RuntimeError):
    """A sequence needs more pages than are free."""


class PagedCache:
    """Both caches of all layers, [layers, pages, 16, heads, d]. Padding rows of a batch have page 0, which no
    sequence has."""

    def __init__(self, model: Decoder, pages: int) -> None:
        s = model.sizes
        shape = (s.layers, pages, PAGE, s.kv_heads, s.head_dim)
        self.keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.values = torch.zeros_like(self.keys)
        self.pages_of_a_sequence = -(-s.positions // PAGE)
        self._free = list(range(pages - 1, 0, -1))

    @property
    def free(self) -> int:
        """How many pages no sequence has."""
        return len(self._free)

    def take(self, tokens: int) -> list[int]:
        """Return pages for that many tokens. Raises CacheFullError, and takes none, where fewer are free."""
        count = -(-tokens // PAGE)
        if count > self.free:
            raise CacheFullError(f"{count} pages of {PAGE} tokens are needed, {self.free} are free")
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Return a sequence's pages to the free ones."""
        self._free.extend(reversed(pages))

    @staticmethod
    def slot(pages: list[int], position: int) -> int:
        """Return the row of the cache for a position of the sequence that has ``pages``."""
        return pages[position // PAGE] * PAGE + position % PAGE
