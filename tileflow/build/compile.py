"""TritonSource + Target -> Binary, on a machine that needs no GPU."""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..emit.source import TritonSource
from ..errors import BuildError, ClusterError, OutOfResources, SpecError, TileflowError
from ..runtime.abi import Binary, LaunchAbi, LaunchArg
from ..target import Target
from . import compat, dependent_launch, ptxas_faults
from .code_object import check_code_object
from .resources import read_resources

_TENSOR_MEMORY_COLUMNS = 512  # of a Blackwell SM
_ERROR_LINES = 12
CACHE = "TILEFLOW_CACHE"
_VECTOR_BYTES = 16  # that an instruction stores
_SYSTEMS_WORDS = tuple(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What a binary's machine code depends on besides its source and target."""

    torch: str
    triton: str
    ptxas: str

    @property
    def key(self) -> str:
        """The versions as text, a part of the key of a compiled binary."""
        return f"torch {self.torch}, triton {self.triton}, ptxas {self.ptxas}"


@functools.cache
def toolchain() -> Toolchain:
    """The versions installed here. torch is not imported; its local version (``+cu128``) is part of it. What tileflow
    changes of the assembler's text is part of the assembler's."""
    ptxas = f"{compat.ptxas_version()}, mended {ptxas_faults.REVISION}, waits {dependent_launch.REVISION}"
    return Toolchain(importlib.metadata.version("torch"), importlib.metadata.version("triton"), ptxas)


def cache_folder() -> Path:
    """``$TILEFLOW_CACHE``, else ``~/.cache/tileflow``. Raises SpecError where neither says a folder."""
    chosen = os.environ.get(CACHE)
    try:
        return Path(chosen) if chosen else Path.home() / ".cache" / "tileflow"
    except RuntimeError as error:
        raise SpecError(
            "compiled kernels lie below a home folder that is known",
            got=str(error),
            where=CACHE,
            hint=f"name a folder: {CACHE}=/path/to/one",
        ) from error


def build(source: TritonSource, target: Target) -> Binary:
    """Compile one region for one device class.

    Raises OutOfResources where the device has too little shared or tensor memory for it (a config that need not be
    tried), BuildError where Triton or the assembler refuses it, ClusterError where the host lets nobody compile.
    """
    if compat.interpreting():
        raise BuildError("a process that compiles must not interpret", got="TRITON_INTERPRET=1", hint="unset it")
    compat.check_options(dict(source.options), target)
    try:
        compiled = compile_source(source, target)
    except TileflowError:
        raise
    except compat.resource_errors() as error:
        raise OutOfResources("a kernel must fit the device", got=str(error), where=_place(source, target)) from error
    except Exception as error:  # Triton raises anything, AssertionError and MLIR's RuntimeError among it
        if any(words in str(error) for words in compat.TOO_FEW_REGISTERS):
            raise OutOfResources(
                "the assembler must find registers enough for a kernel",
                got=_summary(error, source),
                where=_place(source, target),
                hint="smaller blocks or fewer warps leave more to a thread",
            ) from error
        if _is_the_hosts(error):
            raise ClusterError(
                "a host must let kernels be compiled: their files be written, the compiler's programs be started",
                got=_summary(error, source),
                where=_place(source, target),
                hint="the compiler's folders are those of TMPDIR, TRITON_CACHE_DIR and TILEFLOW_CACHE",
            ) from error
        raise BuildError(
            "Triton must accept a generated source", got=_summary(error, source), where=_place(source, target)
        ) from error
    _check_limits(compiled, source, target)
    abi = LaunchAbi(
        symbol=compiled.symbol,
        args=_with_tensor_maps(source, compiled),
        grid=source.grid,
        threads=compiled.warps * target.warp_size,
        shared=compiled.shared,
        scratch=compiled.scratch,
        cluster=(compiled.ctas * source.cluster, 1, 1),
        cooperative=compiled.cooperative,
        pdl=compiled.pdl,
    )
    if compiled.format == "hsaco":
        check_code_object(compiled.code, abi, target.arch, target.warp_size)
    resources = read_resources(compiled, target)
    return Binary(
        source.region, target.name, compiled.format, compiled.code, abi, source.guards, resources, source.mode
    )


def load_function(source: TritonSource) -> Any:
    """The jitted function of ``source``, imported from a file that holds its code.

    ``triton.jit`` reads its function's source from a file, so the code is written to one named by its digest.
    """
    return generated_functions(source.code)[source.name]


def compile_source(source: TritonSource, target: Target) -> compat.Compiled:
    """Compile in this process. Raises what Triton raises; :func:`build` translates it."""
    function = load_function(source)
    types = {arg.name: arg.type for arg in source.args}
    constexprs = dict(source.constexprs)
    names: list[str] = function.arg_names
    missing = [name for name in names if name not in types and name not in constexprs]
    run_time = [name for name in names if name in types]
    if missing or run_time != [arg.name for arg in source.args]:
        raise BuildError(
            "a source's args must be its function's run-time parameters in order, the others its constexprs",
            got=f"{names} against {list(types)} and {list(constexprs)}",
        )
    signature = {name: types.get(name, "constexpr") for name in names}
    by_name = {arg.name: arg for arg in source.args}
    aligned = [i for i, name in enumerate(names) if name in by_name and by_name[name].divisible_by_16]
    options = dict(source.options)
    compiled = compat.compile_ast(function, signature, constexprs, aligned, target, options, source.language)
    if not source.given:
        return compiled
    own = -(-compiled.shared // _VECTOR_BYTES) * _VECTOR_BYTES
    return replace(compiled, shared=own + source.given)


@functools.lru_cache(maxsize=256)
def generated_functions(text: str) -> Mapping[str, Any]:
    """The names that the generated module ``text`` defines, imported once for each text."""
    path = write_module(text)
    spec = importlib.util.spec_from_file_location(f"tileflow_generated_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # a .py path always has both
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def write_module(text: str) -> Path:
    """A file with ``text``, named by its digest; whole whenever it is there, whoever writes it at the same time. Raises
    SpecError where the cache's folder takes none."""
    digest, folder = hashlib.sha256(text.encode()).hexdigest()[:32], cache_folder()
    path = folder / "sources" / digest[:2] / f"{digest}.py"
    try:
        if not path.exists() or path.read_text() != text:
            _write_whole(path, text)
    except OSError as error:
        raise SpecError(
            "the folder of compiled kernels can be made and written",
            got=f"{type(error).__name__}: {error}",
            where=f"{CACHE}={folder}" if os.environ.get(CACHE) else str(folder),
            hint=f"name one that can: {CACHE}=/path/to/one",
        ) from error
    return path


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            file.write(text)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _with_tensor_maps(source: TritonSource, compiled: compat.Compiled) -> tuple[LaunchArg, ...]:
    """The arguments, with what Triton chose for each descriptor."""
    chosen = iter(compiled.tensor_maps)
    args = []
    for arg in source.args:
        if arg.tensor_map is not None:
            fields = next(chosen, None)
            if fields is None:
                raise BuildError(
                    "Triton must lower a descriptor to a tensor map",
                    got=arg.type,
                    where=source.name,
                    hint="the target must be Hopper or later",
                )
            arg = replace(arg, tensor_map=replace(arg.tensor_map, **fields))
        args.append(arg)
    return tuple(args)


def _check_limits(compiled: compat.Compiled, source: TritonSource, target: Target) -> None:
    for resource, needed, limit in (
        ("bytes of shared memory a block", compiled.shared, target.smem_per_block),
        ("columns of tensor memory", compiled.tensor_memory, _TENSOR_MEMORY_COLUMNS),
        ("threads a block", compiled.warps * target.warp_size, 1024),
    ):
        if needed > limit:
            raise OutOfResources(
                f"a kernel must use at most {limit} {resource}",
                got=needed,
                where=_place(source, target),
                hint="smaller blocks or fewer stages need less",
            )


def _place(source: TritonSource, target: Target) -> str:
    return f"launch {source.region} ({source.name}) for {target.name}"


def _is_the_hosts(error: Exception) -> bool:
    """Whether no config would have compiled: a disk is full, a file cannot be opened, a program not be started. The
    assembler says so by the system's words alone."""
    return any(isinstance(e, OSError) or any(words in str(e) for words in _SYSTEMS_WORDS) for e in _causes(error))


def _summary(error: Exception, source: TritonSource) -> str:
    """The lines of Triton's message that a person reads: the last ones of each error down the chain of causes."""
    chain = _causes(error)
    deepest = chain[-1]
    message = [line for line in str(deepest).splitlines() if line.strip()]
    lines = [f"{type(deepest).__name__}: {message[-1] if message else 'no message'}"]
    if len(message) > 1:
        lines += message[: _ERROR_LINES - 1]
    user = _user_line(chain, source)
    if user:
        lines.append(f"from line {user} of the kernel's file")
    return "\n".join(lines)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the deepest last."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def _user_line(chain: list[BaseException], source: TritonSource) -> int:
    """The user's line under the deepest error that carries a position in the generated text; 0 where none does."""
    for error in reversed(chain):
        node = getattr(error, "node", None)
        if node is not None and hasattr(node, "lineno") and source.lines:
            lines = source.code_lines
            # Triton counts a function's lines from its def; the decorator is one line above.
            start = next(i for i, line in enumerate(source.code.splitlines()) if f"def {source.name}(" in line)
            at = start + node.lineno - 1
            return lines[at] if at < len(lines) else 0
    return 0
