"""A dictionary with a limit, for caches that must not grow with the shapes that a server sees."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..locks import Lock

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """A dictionary of at most ``limit`` values; the one that was put in first goes first.

    ``get`` is a dictionary's own and takes no lock: one thread may read while others write. Writers take turns.
    """

    __slots__ = ("_lock", "_making", "_values", "evicted", "get", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.evicted = 0
        self._values: dict[Hashable, V] = {}
        self._lock = Lock()
        self._making: dict[Hashable, Lock] = {}
        self.get: Callable[[Hashable], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: Hashable, value: V) -> V:
        """Keep ``value`` unless another thread has kept one for ``key`` meanwhile; what is kept now."""
        with self._lock:
            while len(self._values) >= self.limit and key not in self._values:
                del self._values[next(iter(self._values))]
                self.evicted += 1
            return self._values.setdefault(key, value)

    def get_or_make(self, key: Hashable, make: Callable[[], V]) -> V:
        """What is kept for ``key``, else what ``make`` gives: one thread makes it, others that ask meanwhile wait.

        Where ``make`` raises, the next one that waits tries.
        """
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            lock = self._making.setdefault(key, Lock())
        with lock:
            found = self.get(key)
            if found is None:
                found = self.put(key, make())
        with self._lock:
            self._making.pop(key, None)
        return found

    def replace(self, key: Hashable, value: V) -> None:
        """Keep ``value`` in the place of what was kept for ``key``."""
        with self._lock:
            self._values.pop(key, None)
        self.put(key, value)

    def drop(self, key: Hashable) -> None:
        """Forget what is kept for ``key``, if anything is."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
