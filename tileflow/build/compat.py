"""All that differs between Triton 3.6 and 3.9, and every use of Triton's internals, in one file.

Checked against the sources of 3.6.0 and 3.7.1. A compiled kernel takes, on both vendors and in both versions: the
arguments whose signature is not ``constexpr``, in the function's order; then a pointer to global scratch; then a
pointer to profile scratch. Specialising an argument that equals 1 is ``JITFunction``'s doing: ``ASTSource`` drops
nothing that is not declared ``constexpr``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO

from ..config import Choice
from ..errors import BuildError
from ..parsing import undisturbed
from ..streams import say
from ..target import Target
from . import dependent_launch, ptxas_faults
from .together import Together

_REPRODUCER = "please share the reproducer above with Triton project"
_FORMATS = {"cuda": ("ptx", "cubin"), "hip": ("amdgcn", "hsaco")}


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Triton made of one source: machine code, its assembly text, and the facts that a launch needs.

    ``warps``: per block, warp specialisation counted. ``ctas``: blocks per program (a cluster). ``shared``: dynamic
    shared memory, bytes. ``tensor_memory``: columns. ``scratch``: (name, bytes per block, alignment), in the order of
    the parameters. ``tensor_maps``: for each descriptor argument, the fields of a TensorMap that Triton chose.
    """

    symbol: str
    format: str
    code: bytes
    assembly: str
    warps: int
    ctas: int
    shared: int
    tensor_memory: int
    scratch: tuple[tuple[str, int, int], ...]
    cooperative: bool
    pdl: bool
    tensor_maps: tuple[Mapping[str, Any], ...] = ()


def compile_ast(
    function: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Choice],
    aligned: Sequence[int],
    target: Target,
    options: Mapping[str, Choice],
    language: str = "triton",
) -> Compiled:
    """Compile a jitted function for ``target``; ``aligned`` arguments (by index) are divisible by 16. ``language``:
    whether it is Triton's own, or Gluon's.

    Line tables are left out: they carry the path of the generated file, so equal sources would give unequal
    binaries on two machines. Whatever Triton raises comes through, and says where.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    architecture = target.capability or target.arch
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    if language == "gluon":
        source = _gluon_source(function, signature, constexprs, attributes)
    else:
        source = _parsed_alone(ASTSource)(function, dict(signature), dict(constexprs), attributes)
    gpu = GPUTarget(target.backend, architecture, target.warp_size)
    with _quietly(), dependent_launch.dependent(target):
        try:
            kernel = triton.compile(source, target=gpu, options=dict(options))
        except (OSError, json.JSONDecodeError):
            # A cache entry that another process or a full disk left torn is read back as it is: compile once anew.
            triton.knobs.compilation.always_compile = True
            kernel = triton.compile(source, target=gpu, options=dict(options))
        code = _assembled_anew(kernel, gpu, options) if target.backend == "cuda" else None
    return _facts(kernel, target, code)


def _assembled_anew(kernel: Any, gpu: Any, options: Mapping[str, Choice]) -> bytes | None:
    """The machine code of a text that the assembler gets right; None where it did (:mod:`.ptxas_faults`)."""
    from triton.compiler import make_backend

    version = ptxas_version(gpu.arch)
    text = ptxas_faults.mended(kernel.asm["ptx"]) if ptxas_faults.is_at_fault(version) else None
    if text is None:
        return None
    backend = make_backend(gpu)
    return bytes(backend.make_cubin(text, {}, backend.parse_options(dict(options)), gpu.arch))


@contextmanager
def _without_paths_and_reproducers() -> Iterator[None]:
    """Triton's settings and the process's output, both the whole process's, as they are while Triton compiles."""
    import triton

    with triton.knobs.compilation.scope(), _stages(), redirect_stdout(_WithoutReproducers(sys.stdout)):
        triton.knobs.compilation.disable_line_info = True
        yield


@contextmanager
def _stages() -> Iterator[None]:
    """Triton's one hook of its compiler's stages is ours, which asks the hook that was there before."""
    import triton

    runtime = triton.knobs.runtime
    before = runtime.add_stages_inspection_hook
    ours = runtime.add_stages_inspection_hook = dependent_launch.in_stages(before)
    try:
        yield
    finally:
        if runtime.add_stages_inspection_hook is ours:  # and no other one that the program has set meanwhile
            runtime.add_stages_inspection_hook = before


_quietly = Together(_without_paths_and_reproducers)


@functools.cache
def _parsed_alone(kind: type[Any]) -> type[Any]:
    """A class of Triton's sources whose text Triton parses while no other thread parses."""

    class ParsedAlone(kind):  # type: ignore[misc]
        def hash(self) -> Any:
            of_kind: Any = super()
            return undisturbed(of_kind.hash) + dependent_launch.key()

        def make_ir(self, *args: Any, **kwargs: Any) -> Any:
            of_kind: Any = super()
            return undisturbed(lambda: of_kind.make_ir(*args, **kwargs))

    return ParsedAlone


def _gluon_source(
    function: Any, signature: Mapping[str, str], constexprs: Mapping[str, Choice], attributes: Mapping[Any, Any]
) -> Any:
    """A Gluon function as a source. Its descriptors say which layout their boxes have in shared memory: the default one
    of a box, which is what generated kernels take over from them."""
    from triton.experimental.gluon._runtime import GluonASTSource

    types = {name: _with_layout(type_) for name, type_ in signature.items()}
    return _parsed_alone(GluonASTSource)(function, types, dict(constexprs), dict(attributes))


def _with_layout(type_: str) -> str:
    """``tensordesc<bf16[1, 64],NVMMASharedLayout(...)>`` of ``tensordesc<bf16[1, 64]>``; all else as it is."""
    if not type_.startswith("tensordesc<"):
        return type_
    from triton.experimental.gluon import language as gl
    from triton.language import str_to_ty

    element = type_.removeprefix("tensordesc<").partition("[")[0]
    dtype = str_to_ty(element, None)
    layout = gl.NVMMASharedLayout.get_default_for(block_shape(type_), dtype)
    return f"{type_.removesuffix('>')},{layout!r}>"


class _WithoutReproducers(io.TextIOBase):
    """A stream without what Triton prints when the assembler fails: all of the PTX. Its error says the rest. What a
    kernel prints while it is compiled, and what was asked of Triton, comes through, where somebody reads it."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if _REPRODUCER not in text:
            say(text, self._stream, end="")
        return len(text)

    def flush(self) -> None:
        say("", self._stream, end="")


def check_options(options: Mapping[str, Choice], target: Target) -> None:
    """Raises BuildError for an option that Triton's backend does not have: Triton itself drops it in silence."""
    module = importlib.import_module(f"triton.backends.{target.vendor}.compiler")
    known = {f.name for f in dataclasses.fields(module.CUDAOptions if target.vendor == "nvidia" else module.HIPOptions)}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise BuildError(
            f"compile options must be known to Triton's {target.backend} backend",
            got=", ".join(unknown),
            hint="known: " + ", ".join(sorted(known)),
        )


# ptxas' words where the warps of a block, or ``maxnreg``, leave a thread too few
TOO_FEW_REGISTERS = ("Insufficient registers", "Register allocation failed")


def resource_errors() -> tuple[type[Exception], ...]:
    """The exceptions by which Triton says that a kernel needs more than the device has."""
    from triton.runtime.errors import OutOfResources

    return (OutOfResources,)


def tool(name: str) -> str:
    """The path of ``cuobjdump``, ``nvdisasm`` or ``ptxas`` that Triton's package carries."""
    import triton

    return str(getattr(triton.knobs.nvidia, name).path)


@functools.cache
def lanes_follow_rows() -> bool:
    """Whether, of a tile's dimensions that run on equally far in memory, lanes are given to the first one first: up to
    3.6. Since 3.7 they are given to the last one. False where Triton is not installed."""
    try:
        major, minor = importlib.metadata.version("triton").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return False
    return (int(major), int(minor)) < (3, 7)


def ptxas_version(capability: int = 90) -> str:
    """The version of the assembler in Triton's package for a compute capability, as ``12.9.86``."""
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(capability).version)


def block_shape(descriptor: str) -> list[int]:
    """``[128, 64]`` of ``tensordesc<bf16[128, 64]>``."""
    return [int(n) for n in descriptor.partition("[")[2].partition("]")[0].split(",")]


def host_descriptor(tensor: Any, block: list[int]) -> Any:
    """Triton's own descriptor of a tensor, for its interpreter."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(tensor, block)


def interpreting() -> bool:
    """Whether this process imports ``@triton.jit`` functions as interpreted ones."""
    import triton

    return bool(triton.knobs.runtime.interpret)


def mend_interpreter() -> None:
    """Make the interpreter's ``tl.dot`` right for bfloat16 operands, of which it multiplies the raw bits (3.6 to 3.9);
    give it constants and differences of bfloat16, sums of it by atomics and scaled products; round to the short types;
    make masks of comparisons of scalars, and atomics of broadcast operands;
    let it reduce and scan whole slices at a time, where a function of the kernel's own combines them; and have it parse
    a source while no other thread parses.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    from .interpreted_ops import reduce_slices, scan_slices

    if hasattr(interpreter.InterpreterBuilder, "tileflow_dot"):
        return
    _mend_products(interpreter, tl)
    _mend_scaled_products(interpreter, tl)
    _mend_bfloat16(interpreter, tl)
    _mend_conversions(interpreter)
    _mend_atomics(interpreter, tl.bfloat16)
    _mend_tensors(interpreter)
    _make_masks(interpreter, tl.int1)
    _parse_alone(interpreter.FunctionRewriter)
    interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan = reduce_slices, scan_slices


def _widened(interpreter: Any, tl: Any, handle: Any) -> Any:
    """A tile of bfloat16, which the interpreter holds as bits, as the float32 that these are the upper half of."""
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    bits = handle.data.view("uint16").astype("uint32") << 16
    return interpreter.TensorHandle(bits.view("float32"), tl.float32)


def _mend_products(interpreter: Any, tl: Any) -> None:
    """Products of bfloat16, and in however many parts a GPU would take them: they are exact here."""
    builder, options = interpreter.InterpreterBuilder, interpreter.interpreter_builder.options
    create_dot = builder.create_dot
    interpreter.interpreter_builder.options = dataclasses.replace(
        options, allowed_dot_input_precisions=(*options.allowed_dot_input_precisions, "bf16x6")
    )

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return create_dot(self, _widened(interpreter, tl, a), _widened(interpreter, tl, b), *rest)

    builder.tileflow_dot = builder.create_dot = dot


def _mend_scaled_products(interpreter: Any, tl: Any) -> None:
    """Products with block scales, of which the interpreter has none."""
    from triton.language.semantic import TritonSemantic

    from .interpreted_floats import scaled_product

    semantic_dot_scaled = TritonSemantic.dot_scaled

    def dot_scaled_of_names(
        self: Any, a: Any, a_scale: Any, a_format: str, b: Any, b_scale: Any, b_format: str, *rest: Any
    ) -> Any:
        names = tl.constexpr(a_format), tl.constexpr(b_format)
        return semantic_dot_scaled(self, a, a_scale, names[0], b, b_scale, names[1], *rest)

    def dot_scaled(
        self: Any, a: Any, a_scale: Any, a_format: Any, b: Any, b_scale: Any, b_format: Any, *rest: Any
    ) -> Any:
        scales = (None if scale is None else scale.data for scale in (a_scale, b_scale))
        left, right = zip((a.data, b.data), scales, (a_format.name, b_format.name), strict=True)
        return interpreter.TensorHandle(scaled_product(left, right) + rest[-1].data, tl.float32)

    builder = interpreter.InterpreterBuilder
    builder.create_dot_scaled, TritonSemantic.dot_scaled = dot_scaled, dot_scaled_of_names


def _mend_conversions(interpreter: Any) -> None:
    """Conversions to and from the short types, which round as a GPU's do."""
    from .interpreted_floats import convert, is_ours

    builder = interpreter.InterpreterBuilder
    create_fp_to_fp, cast_impl = builder.create_fp_to_fp, builder.cast_impl

    def fp_to_fp(self: Any, source: Any, target: Any, rounding: Any) -> Any:
        types = source.dtype.scalar.name, target.scalar.name
        if not is_ours(*types):
            return create_fp_to_fp(self, source, target, rounding)
        return interpreter.TensorHandle(convert(source.data, *types), target.scalar)

    def cast(self: Any, source: Any, target: Any) -> Any:
        types = source.dtype.scalar.name, target.scalar.name
        if not is_ours(*types):
            return cast_impl(self, source, target)
        return interpreter.TensorHandle(convert(source.data, *types), target.scalar)

    builder.create_fp_to_fp, builder.cast_impl = fp_to_fp, cast


def _mend_bfloat16(interpreter: Any, tl: Any) -> None:
    """Differences and constants of bfloat16, and the largest unsigned number, of which numpy takes no -1."""
    from .interpreted_ops import bfloat16_bits

    builder = interpreter.InterpreterBuilder
    create_fsub = builder.create_fsub

    def fsub(self: Any, a: Any, b: Any) -> Any:
        if a.dtype.scalar != tl.bfloat16:
            return create_fsub(self, a, b)
        difference = _widened(interpreter, tl, a).data - _widened(interpreter, tl, b).data
        return interpreter.TensorHandle(bfloat16_bits(difference), tl.bfloat16)

    def constant(self: Any, value: float) -> Any:
        return interpreter.TensorHandle(bfloat16_bits([value]), tl.bfloat16)

    def all_ones(self: Any, type_: Any) -> Any:
        bits = (1 << type_.scalar.primitive_bitwidth) - 1
        is_signed = type_.scalar.is_int_signed()
        return interpreter.TensorHandle(
            interpreter.np.full(1, -1 if is_signed else bits, dtype=interpreter._get_np_dtype(type_)), type_.scalar
        )

    builder.get_bf16, builder.create_fsub, builder.get_all_ones_value = constant, fsub, all_ones


def _mend_tensors(interpreter: Any) -> None:
    """Tiles of one element as ints: 3.6 asks numpy for the int of an array of one, which numpy 2.4 and later refuse."""
    patch_lang_tensor = interpreter._patch_lang_tensor

    def patch_tensor(tensor: Any, scope: Any) -> None:
        patch_lang_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_tensor


def _mend_atomics(interpreter: Any, bfloat16: Any) -> None:
    """Have the interpreter's atomics take what was broadcast, of which they read on from the first element, and
    bfloat16."""
    from .interpreted_ops import add_bfloat16

    builder = interpreter.InterpreterBuilder
    create_atomic_rmw, create_atomic_cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def dense(handle: Any) -> Any:
        return interpreter.TensorHandle(interpreter.np.require(handle.data, requirements="C"), handle.dtype)

    def atomic_rmw(self: Any, op: Any, pointers: Any, values: Any, mask: Any, *rest: Any) -> Any:
        pointers, values, mask = map(dense, (pointers, values, mask))
        if values.dtype.scalar != bfloat16:
            return create_atomic_rmw(self, op, pointers, values, mask, *rest)
        found = add_bfloat16(interpreter._interpreter, pointers.data, values.data, mask.data)
        return interpreter.TensorHandle(found, bfloat16)

    def atomic_cas(self: Any, pointers: Any, expected: Any, values: Any, *rest: Any) -> Any:
        return create_atomic_cas(self, *map(dense, (pointers, expected, values)), *rest)

    builder.create_atomic_rmw, builder.create_atomic_cas = atomic_rmw, atomic_cas


def _make_masks(interpreter: Any, int1: Any) -> None:
    """Have the interpreter make a mask of what compares scalars. That keeps their type there, so that a tile of floats
    was made of it, which no mask goes with."""
    create_splat = interpreter.InterpreterBuilder.create_splat

    def splat(self: Any, type_: Any, given: Any) -> Any:
        if given.data.dtype != bool:
            return create_splat(self, type_, given)
        return interpreter.TensorHandle(interpreter.np.full(type_.shape, given.data), int1)

    interpreter.InterpreterBuilder.create_splat = splat


def _parse_alone(rewriter: Any) -> None:
    """Have the interpreter parse a source while no other thread parses."""
    rewrite_ast = rewriter.rewrite_ast

    def rewrite_alone(self: Any) -> Any:
        return undisturbed(lambda: rewrite_ast(self))

    rewriter.rewrite_ast = rewrite_alone


def _facts(kernel: Any, target: Target, code: bytes | None) -> Compiled:
    """What Triton made, with ``code`` in place of its own where there is some."""
    metadata = kernel.metadata
    assembly, binary = _FORMATS[target.backend]
    return Compiled(
        symbol=metadata.name,
        format=binary,
        code=kernel.asm[binary] if code is None else code,
        assembly=kernel.asm[assembly],
        warps=metadata.num_warps,
        ctas=metadata.num_ctas,
        shared=metadata.shared,
        # AMD kernels have no tensor memory and no global scratch; their metadata does not name them.
        tensor_memory=getattr(metadata, "tmem_size", None) or 0,
        scratch=(
            ("global", getattr(metadata, "global_scratch_size", 0), getattr(metadata, "global_scratch_align", 1)),
            ("profile", metadata.profile_scratch_size, metadata.profile_scratch_align),
        ),
        cooperative=metadata.launch_cooperative_grid,
        # a cooperative launch has all blocks run at once, and so waits for the launch before it anyway
        pdl=not metadata.launch_cooperative_grid and dependent_launch.waits(kernel.asm[assembly]),
        tensor_maps=tuple(_tensor_map(m) for m in getattr(metadata, "tensordesc_meta", None) or ()),
    )


# Triton numbers element types as its device-made descriptors do; the driver's enum swaps three of them.
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}


def _tensor_map(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "box": tuple(found["block_size"]),
        "element_bytes": found["elem_size"],
        "element_type": _ELEMENT_TYPES.get(found["elem_type"], found["elem_type"]),
        "swizzle": found["swizzle"],
    }
