"""A call in shared memory: its arguments, and the code of a kernel that no other process can import.

A call is tuned where it is made: in a script, a notebook or a closure. Its kernel then travels by value, in memory
alone and inside one user's session: an anonymous file (``memfd``) of the process that made the call, which its workers
open under ``/proc`` and map for reading. Nothing of it is written to a disk, to Ray's object store or to a journal, no
worker can write to it, and it is gone with its processes. Clusters share kernels by name
(:class:`.protocol.KernelRef`).
"""

from __future__ import annotations

import fcntl
import io
import linecache
import mmap
import os
import pickle
import secrets
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import cloudpickle
import torch

from tileflow.api import Kernel, load_kernel
from tileflow.errors import CallError, HostDataError, SpecError
from tileflow.lowered import Lowered
from tileflow.measure.inputs import leaves
from tileflow.runtime.ambient import float32_precision
from tileflow.runtime.argtree import bind_call, tensors
from tileflow.runtime.describe import check_memory
from tileflow.runtime.files import import_paths
from tileflow.runtime.libraries import is_library
from tileflow.target import Target

from .shared_tensors import ALIGNMENT, Layout, Packer, unpack

MOST_INTERPRETED_BYTES = 1 << 20  # limit for a call that Triton's interpreter checks, at seconds per MiB
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class _Header:
    """What a worker needs besides the tensors.

    ``stream``: a pickle of the kernel and its arguments, tensors left out. ``sources``: the lines of the files that its
    code was made from; a notebook's are on no disk. ``precision``: of products of float32, torch's setting.
    """

    token: str
    name: str
    semantic_hash: str
    stream: bytes
    layout: Layout
    sources: Mapping[str, Sequence[str]]
    sys_path: tuple[str, ...]
    precision: str
    dtype: torch.dtype


class SharedCall(AbstractContextManager["SharedCall"]):
    """A call's arguments as they are now, for the workers of this host, while it is open.

    ``by_value``: whether workers get floats as they are, however many (see :mod:`.shared_tensors`). ``drawn``: the
    names of the arguments that they get drawn anew. ``reference``: the text by which :func:`load` finds it, as long as
    this process lives. Raises CallError for arguments that no kernel takes, that have no by-value form, or that the
    machine has no room for.
    """

    def __init__(self, kernel: Kernel, args: Sequence[Any], device: torch.device, by_value: bool = False) -> None:
        check_memory(kernel.name, bind_call(kernel.host.signature, kernel.name, tuple(args), {}))
        self.kernel = kernel
        pickler = _pickled(kernel, tuple(args), device)
        packer = Packer(pickler.tensors, device, by_value)
        self.drawn = _drawn(kernel, args, pickler.tensors, packer.layout)
        token = secrets.token_hex(8)
        header = pickle.dumps(
            _Header(
                token,
                kernel.name,
                kernel.semantic_hash,
                pickler.stream,
                packer.layout,
                pickler.sources(),
                import_paths(),
                float32_precision(),
                torch.get_default_dtype(),
            )
        )
        self._file = -1
        try:
            self._file = os.memfd_create(f"tileflow-{token}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self._write(header, packer)
        except OSError as error:
            self.close()
            raise _no_memory(kernel.name, _begin(len(header)) + packer.layout.nbytes, error) from error
        except BaseException:
            self.close()
            raise
        self.reference = f"{kernel.name}@/proc/{os.getpid()}/fd/{self._file}@{token}"

    def _write(self, header: bytes, packer: Packer) -> None:
        begin = _begin(len(header))
        os.ftruncate(self._file, begin + packer.layout.nbytes)
        with mmap.mmap(self._file, begin + packer.layout.nbytes) as memory:
            memory[: _LENGTH.size + len(header)] = _LENGTH.pack(len(header)) + header
            packer.write(memory, begin)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)

    def copy(self) -> LoadedCall:
        """Return the call in this process, over memory of its own."""
        return _read(self.reference)

    def close(self) -> None:
        """Free the memory, once the workers have let go of it too. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __exit__(self, *ending: object) -> None:
        self.close()


def _no_memory(kernel: str, nbytes: int, error: OSError) -> CallError:
    """The error of a call that this machine, or a limit of this process, has no room for."""
    return CallError(
        "the arguments of a tuned call must fit into memory that its workers share",
        got=f"{nbytes} bytes: {error.strerror}",
        where=kernel,
        hint="free memory, or raise the process's limits (ulimit -n, -v and -f; a container's memory); without "
        "by_value=True large tensors of floats are not shared",
    )


def _drawn(kernel: Kernel, args: Sequence[Any], stored: Sequence[torch.Tensor], layout: Layout) -> tuple[str, ...]:
    """Return the names of the tensors whose values are drawn, those of the kernel's own after the arguments'."""
    drawn = {id(tensor) for tensor, view in zip(stored, layout.views, strict=True) if view.sample is not None}
    named = zip(kernel.host.signature.parameters, args, strict=False)
    found = {id(leaf): path for name, value in named for path, leaf in leaves(value, name) if id(leaf) in drawn}
    own = len(drawn) - len(found)
    return (*found.values(), *([f"{own} that the kernel itself holds"] if own else []))


def _begin(header: int) -> int:
    """Return where the tensors' bytes begin."""
    return -(-(_LENGTH.size + header) // ALIGNMENT) * ALIGNMENT


# ---- by value -------------------------------------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves tensors and the call's device to whoever loads, and records which files code comes from."""

    def __init__(self, file: io.BytesIO, device: torch.device) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []
        self.stream = b""
        self._numbers: dict[int, int] = {}
        self._device = device
        self._files: dict[str, Mapping[str, Any]] = {}

    def persistent_id(self, value: Any) -> tuple[Any, ...] | None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._numbers:
                self._numbers[id(value)] = len(self.tensors)
                self.tensors.append(value)
            return "tensor", self._numbers[id(value)]
        if isinstance(value, torch.device) and value.type == self._device.type:
            return ("device",) if value.index in (None, self._device.index) else None
        return None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Kernel):
            return (load_kernel, (value.name,)) if is_importable(value) else value.by_value()
        own = getattr(value, "__tileflow_kernel__", None)  # a kernel of another dialect
        if isinstance(own, Kernel) and not isinstance(value, type):
            return value.__reduce__() if is_importable(own) else value.by_value()
        if isinstance(value, FunctionType) and not is_library(value.__module__):
            self._files.setdefault(value.__code__.co_filename, value.__globals__)
        return super().reducer_override(value)

    def sources(self) -> dict[str, list[str]]:
        """Return the lines of the files that functions come from."""
        found = {name: linecache.getlines(name, dict(scope)) for name, scope in self._files.items()}
        return {name: lines for name, lines in found.items() if lines}


def _pickled(kernel: Kernel, args: tuple[Any, ...], device: torch.device) -> _Pickler:
    """Return a pickler that has written both. Raises CallError."""
    file = io.BytesIO()
    pickler = _Pickler(file, device)
    module = sys.modules.get(kernel.scope.__module__)
    by_value = module is not None and module.__name__ != "__main__" and not _is_found(module)
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickler.dump((kernel, args))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise CallError(
            "what a tuned kernel and its arguments hold must reach other processes of this host",
            got=f"{type(error).__name__}: {error}",
            where=kernel.name,
            hint="no open files, locks or generators in globals, closures and arguments",
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    pickler.stream = file.getvalue()
    return pickler


def is_importable(kernel: Kernel) -> bool:
    """Whether another process with this one's ``sys.path`` finds this very kernel by its name."""
    module = sys.modules.get(kernel.name.partition(":")[0])
    if module is None or module.__name__ == "__main__" or "<locals>" in kernel.name or not _is_found(module):
        return False
    try:
        return load_kernel(kernel.name) is kernel
    except SpecError:
        return False


def _is_found(module: Any) -> bool:
    """Whether a module is in a file where its name says, below a folder of ``sys.path``."""
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file).resolve()
    parts = module.__name__.split(".")
    parts += ["__init__"] if path.name == "__init__.py" else []
    if path.with_suffix("").parts[-len(parts) :] != tuple(parts) or not path.is_file():
        return False
    root = path.parents[len(parts) - 1]
    return any(Path(folder).resolve() == root for folder in import_paths())


# ---- on a worker ----------------------------------------------------------------------------------------------------


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: bytes, made: Sequence[torch.Tensor], device: torch.device) -> None:
        super().__init__(io.BytesIO(stream))
        self._made, self._device = made, device

    def persistent_load(self, name: Any) -> Any:
        return self._device if name[0] == "device" else self._made[name[1]]


def load(reference: str) -> LoadedCall:
    """Return the call of a :class:`SharedCall` that is open on this host, for a worker.

    From then on its sources are readable here, its modules importable, and torch's settings those of the call. Raises
    SpecError.
    """
    return _read(reference, _apply_header)


def _apply_header(header: _Header) -> None:
    sys.path += [folder for folder in header.sys_path if folder not in sys.path]
    for name, lines in header.sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, list(lines), name)
    torch.set_default_dtype(header.dtype)
    if float32_precision() != header.precision:
        torch.set_float32_matmul_precision(header.precision)


def _read(reference: str, apply: Callable[[_Header], None] = lambda header: None) -> LoadedCall:
    _, path, token = reference.rsplit("@", 2)
    try:
        with _mapped(path) as memory:
            (length,) = _LENGTH.unpack(memory[: _LENGTH.size])
            header: _Header = pickle.loads(memory[_LENGTH.size : _LENGTH.size + length])
    except (OSError, ValueError, struct.error, pickle.UnpicklingError) as error:
        raise _gone(reference, error) from error
    if header.token != token:
        raise _gone(reference, "another file")
    apply(header)
    return LoadedCall(header, path, _begin(length))


def _mapped(path: str) -> mmap.mmap:
    """Map the file privately: what is written to the map stays here."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _gone(reference: str, why: object) -> SpecError:
    return SpecError(
        "a call is tuned on its own host, while its process lives",
        got=str(why),
        where=reference,
        hint="for other hosts, sweep a kernel of a module by name: tileflow sweep run",
    )


class LoadedCall:
    """A kernel whose ``inputs`` are one call's own arguments. Other attributes are the kernel's."""

    def __init__(self, header: _Header, path: str, begin: int) -> None:
        self._header, self._path, self._begin = header, path, begin
        self._device = ""
        self._kernel: Kernel
        self.inputs(device="meta")
        if self._kernel.semantic_hash != header.semantic_hash:
            raise SpecError(
                "a kernel must mean in a worker what it meant where it was called",
                where=header.name,
                got=f"semantic_hash {self._kernel.semantic_hash[:12]}, {header.semantic_hash[:12]} there",
                hint="was a module edited since it was imported?",
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    @property
    def kernel(self) -> Kernel:
        """The kernel over tensors of the device that inputs were last made for."""
        return self._kernel

    def inputs(
        self, *, device: str = "cpu", seed: int = 0, interpreted: bool = False, **problem: Any
    ) -> tuple[Any, ...]:
        """Return the call's arguments in memory of their own. ``problem`` is the call's and not read.

        Raises ValueError where they are ``interpreted`` and too large for that.
        """
        layout, on = self._header.layout, torch.device(device)
        if interpreted and sum(span.nbytes for span in layout.spans) > MOST_INTERPRETED_BYTES:
            raise ValueError(f"an interpreter is given {MOST_INTERPRETED_BYTES} bytes of arguments at most")
        if device == "meta":
            made = unpack(layout, None, self._begin, device, seed)
        else:
            # Closed without its views: the tensors that were made have memory of their own.
            memory = _mapped(self._path)
            made = unpack(layout, memory, self._begin, device, seed)
            memory.close()
        try:
            kernel, args = _Unpickler(self._header.stream, made, on).load()
        except (ImportError, AttributeError) as error:
            raise SpecError(
                "what a tuned kernel imports must import in other processes too",
                where=self._header.name,
                got=f"{type(error).__name__}: {error}",
            ) from error
        except TypeError as error:  # of a class whose objects are made of other arguments than they hold
            raise SpecError(
                "what a tuned kernel and its arguments hold must be made again in other processes",
                where=self._header.name,
                got=f"{type(error).__name__}: {error}",
                hint="a __reduce__ says of what an object is made",
            ) from error
        if device != self._device:
            self._kernel, self._device = kernel, device
        return tuple(args)

    def reference(self, *args: Any) -> Any:
        """Return the kernel's reference result, over the tensors that it holds in place of ``args``."""
        return self._kernel.reference(*args)

    def kind(self, *args: Any) -> LoadedCall:
        """Return this call with the host code and the launches that ``args`` select. Its inputs stay the call's own."""
        self._kernel = self._kernel.kind(*args)
        return self

    def small(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """Return the problem itself for the interpreter: a call's arguments have no smaller version."""
        return {**problem, "interpreted": True}

    def lower(self, args: Sequence[Any], target: Target, mode: str = "static") -> Lowered:
        """Lower the kernel. Where its host code reads data, it reads the call's own, on the CPU."""
        try:
            return self._kernel.lower(args, target, mode)
        except HostDataError:
            if any(tensor.device.type != "meta" for tensor in tensors(args)):
                raise
        return self._kernel.lower(self.inputs(device="cpu"), target, mode)
