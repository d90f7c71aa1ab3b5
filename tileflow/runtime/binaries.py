"""Machine code in device memory: one module for each digest and device, as long as something may launch it.

A module is freed once no launcher holds it any more, and only where somebody asks for it (``runtime.unload``,
``runtime.clear``): a captured graph may hold its functions, and freeing waits for the device, which must happen neither
in the middle of a call nor while a graph is captured.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from ..locks import Lock
from .abi import Binary
from .bounded import BoundedCache
from .metrics import register_gauge


class Module:
    """Machine code on one device: ``handle`` as its driver gave it. ``free`` unloads it, and says whether it
    could; ``retire`` is given it once nothing holds the module any more."""

    __slots__ = ("__weakref__", "handle", "size")

    def __init__(self, handle: Any, size: int, free: Callable[[], bool], retire: Callable[[Callable[[], bool]], None]):
        self.handle, self.size = handle, size
        weakref.finalize(self, retire, free).atexit = False


class ModuleCache:
    """The modules that are in use, and those that wait to be freed."""

    def __init__(self) -> None:
        self._modules: weakref.WeakValueDictionary[Hashable, Module] = weakref.WeakValueDictionary()
        self._loading: BoundedCache[Lock] = BoundedCache(1 << 16)
        self._retired: list[Callable[[], bool]] = []  # a finalizer may run anywhere: it only appends
        self.loads = 0

    def get_or_load(self, binary: Binary, index: int, load: Callable[[], Module]) -> Module:
        """The module of a binary's code on device ``index``; one thread loads it, others that ask meanwhile wait."""
        key = (binary.sha256, index)
        lock = self._loading.get(key) or self._loading.put(key, Lock())
        with lock:
            found = self._modules.get(key)
            if found is None:
                found = self._modules[key] = load()
                self.loads += 1
            return found

    def retire(self, free: Callable[[], bool]) -> None:
        """Nothing launches this module's functions any more."""
        self._retired.append(free)

    def free_retired(self) -> None:
        """Unload what nothing launches any more. What cannot be unloaded now waits for the next time."""
        waiting, self._retired = self._retired, []
        self._retired += [free for free in waiting if not free()]

    def __len__(self) -> int:
        return len(self._modules)

    @property
    def bytes(self) -> int:
        """What the modules in use take as files; in device memory they take somewhat more."""
        return sum(module.size for module in list(self._modules.values()))


MODULES = ModuleCache()

register_gauge("tileflow_modules", "Modules of machine code in device memory.", lambda: len(MODULES))
register_gauge("tileflow_module_bytes", "Their size.", lambda: MODULES.bytes)
