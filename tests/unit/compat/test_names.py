"""The public names of Helion 1.5.1: each is here, or refused by name with what to do instead."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
from tileflow.compat.helion import autotuner, exc, notes, runtime
from tileflow.errors import MissingAttribute, TileflowError, UnsupportedOp

words = str.split
PACKAGE = words("""
Config CuteStructuralConfig CuteStructuralPolicy Kernel OutputCodeOptions RefMode Settings aot_kernel cdiv exc
from_cache jit kernel language next_power_of_2 resolve_cute_structural_policy runtime
""")
LANGUAGE = words("""
AsyncCopyDescriptor ProcessGroupName StackTensor Tile arange associative_scan atomic_add atomic_and atomic_cas
atomic_max atomic_min atomic_or atomic_xchg atomic_xor barrier breakpoint constexpr cumprod cumsum device_print
dot dot_scaled float4_e2m1fn_x2_to_float32 full grid inline_asm_elementwise inline_triton jagged_tile join load
load_bfloat16_x16_to_float16 load_float4_e2m1fn_x16_to_float16 make_async_remote_copy pdl_launch_dependents
pdl_wait rand rand4x randint reduce register_block_size register_tunable remote_barrier specialize split
stacktensor_like static_range store subscript tile tile_begin tile_block_size tile_end tile_id tile_index
triton_kernel zeros
""")
AUTOTUNER = words("""
AOTAutotuneCache AutotuneEffortProfile BooleanFragment CLISourceAgent CachedFiniteSearch ConfigSpec
DESurrogateHybrid DifferentialEvolutionConfig DifferentialEvolutionSearch EnumFragment FinalSelectionConfig
FiniteSearch HandoffAgentResult HandoffAgentRound HandoffBundle HandoffCandidate HandoffCaseResult
HandoffEvaluation HandoffMeasurement HandoffPoint HandoffPolicy HandoffProgress InitialPopulationStrategy
IntegerFragment LFBOPatternSearch LFBOTreeSearch LLMGuidedSearch LLMSearchConfig LLMSeededLFBOTreeSearch
LLMSeededSearch ListOf LocalAutotuneCache NumThreadsFragment PatternSearch PatternSearchConfig
PowerOfTwoFragment RandomSearch RandomSearchConfig RemoteAutotuneCache RemoteCacheBackend
StrictLocalAutotuneCache StrictRemoteAutotuneCache UserConfigSpec autotune build_handoff cache_classes
evaluate_handoff find_handoff from_cache search_algorithms
""")
RUNTIME = words("""
Config Kernel OutputCodeOptions cute_cuda_graph default_cute_launcher default_flydsl_launcher default_launcher
default_metal_launcher default_pallas_launcher get_max_active_clusters get_num_sm get_num_xcd kernel
set_triton_allocator
""")
EXCEPTIONS = words("""
AssignmentMultipleTargets AtomicOnDeviceTensor AutodiffKernelNotCalled AutodiffNotSupported AutotuneError
AutotuningDisallowedInEnvironment BackendImplementationMissing BackendUnsupported BarrierOnlyAllowedAtTopLevel
BarrierRequiresPersistent Base BaseError BaseWarning BlockPtrIndexingUnavailable BlockSizeIgnoredInInterpretMode
BreakpointInDeviceLoopRequiresInterpret CacheAssertionError CannotModifyHostVariableOnDevice
CannotReadDeviceVariableOnHost CantCombineTypesInControlFlow CantReadOnDevice ClosureMutation
ClosuresNotSupported ConfigSpecFragmentWithSymInt ControlFlowTensorMismatch CrossLoopSchedulingError
CrossRootDeviceValue CuteBackendUnavailable DataDependentOutputShapeNotSupported
DecoratorAfterHelionKernelDecorator DeviceAPIOnHost DeviceLoopElseBlock
DeviceTensorSubscriptAssignmentNotAllowed DotBatchDimensionMismatch DuplicateStoreIndicesError
EmptyDeviceLoopAfterDCE ErrorCompilingKernel FailedToUnpackTile FailedToUnpackTupleAssign GlobalMutation
GraphModuleUnsupportedOps HostTensorDirectUsage IncompatibleInterpretModes InconsistantConfigsAcrossRanks
IncorrectTileUsage IndexOffsetOutOfRangeForInt32 InductorLoweringError InputTensorNumelExceedsIndexType
InternalError InvalidAPIUsage InvalidAssignment InvalidConfig InvalidDeviceForLoop InvalidIndexingType
InvalidJaggedTileUsage InvalidReductionDim InvalidSequenceSubscription InvalidSliceStep InvalidTileRange
LoopDependencyError LoopFunctionNotInFor MissingEnableTile MultipleReductionDims NamingConflict
NestedDeviceLoopsConflict NestedGridLoop NestedKernelCallsNotSupported NoAOTHeuristicWarning NoConfigFound
NoDeviceLoopsInKernel NoTensorArgs NonTensorSubscriptAssign NotAllowedInHelperFunction NotAllowedOnDevice
NotEnoughConfigs NotInsideKernel OverpackedTile PdlPlacement PdlStateWithoutWait ProcessGroupNameNotFound
RankMismatch ReductionDimInvalidForShape ReductionOnNonTile RefEagerModeCodePrintError RegisterTunableArgTypes
RequiresTensorInAssignment ShapeMismatch ShapeSpecializingAllocation ShapeSpecializingCall SpecializeArgType
SpecializeOnDevice StackTensorDevPtrDtype StackTensorDevPtrOnHost StackTensorExampleOnDevice StackTensorcOnHost
StarredArgsNotSupportedOnDevice StatementNotSupported TensorOperationInWrapper TensorOperationsInHostCall
TensorSliceBound TileOfTile TiledKMatmulAccumulationWarning TopLevelStatementBetweenLoops TorchOpTracingError
TracedArgNotSupported TritonError TritonUnrecoverableRuntimeError TunableNameConflict TunableTypeNotSupported
TypeInferenceError UndefinedVariable UnsupportedIndexRemapping UnsupportedPythonType
UnsupportedSplitConfiguration UnsupportedSplitOperation WrongDevice
""")
SETTINGS = words("""
backend ignore_warnings index_dtype dot_precision cute_rng_stream fast_math static_shapes
persistent_reserved_sms autotune_force_persistent distributed autotune_log_level autotune_log
autotune_log_details autotune_handoff autotune_handoff_budget_seconds autotune_compile_timeout
autotune_benchmark_subprocess autotune_benchmark_timeout autotune_precompile autotune_precompile_jobs
autotune_random_seed autotune_best_of_k autotune_accuracy_check autotune_rebenchmark_threshold
autotune_suspicious_rebenchmark_ratio autotune_search_acf autotune_progress_bar autotune_max_generations
autotune_budget_seconds autotune_ignore_errors autotune_adaptive_timeout print_output_code print_repro
output_origin_lines force_autotune autotune_config_overrides autotune_seed_configs disable_autotuner_heuristics
autotune_effort allow_warp_specialize debug_dtype_asserts ref_mode autotune_cache autotuner_fn
autotune_baseline_fn autotune_baseline_atol autotune_baseline_rtol autotune_baseline_accuracy_check_fn
autotune_benchmark_fn autotune_best_available_max_configs autotune_best_available_max_cache_scan
autotune_initial_population_strategy torch_compile_fusion autotune_with_torch_compile_fusion
autotune_config_filter pallas_collective_id pallas_interpret pallas_topk_recall_target cute_region_fission
cute_materialize_transformed_operands cute_full_slice_matmul_tiling cute_segmented_matmul_tiling
cute_flatten_nested_reductions triton_do_not_specialize autotune_log_search_space
autotune_log_search_space_verbose autotune_log_search_space_path
""")
KERNEL = words("""
autotune autotune_multi bind cute_structural_policy jax_fn kernel_source normalize_args reset specialization_key
""")
MODULES = {"helion": (helion, PACKAGE), "language": (hl, LANGUAGE), "autotuner": (autotuner, AUTOTUNER)}
MODULES |= {"runtime": (runtime, RUNTIME), "exc": (exc, EXCEPTIONS)}


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_there(name: str) -> None:
    module, names = MODULES[name]
    assert [n for n in names if not hasattr(module, n)] == []


REFUSED: list[tuple[ModuleType, str]] = [
    *((hl, name) for name in hl.REFUSED),
    *((autotuner, name) for name in autotuner.REFUSED),
    *((runtime, name) for name in runtime.REFUSED),
    (helion, "CuteStructuralConfig"),
    (helion, "resolve_cute_structural_policy"),
]


@pytest.mark.parametrize(("module", "name"), REFUSED, ids=lambda x: getattr(x, "__name__", x))
def test_what_is_refused_says_what_to_do(module: ModuleType, name: str) -> None:
    with pytest.raises(UnsupportedOp, match=name) as caught:
        getattr(module, name)(1, size=2)
    assert caught.value.hint


@pytest.mark.parametrize("module", [hl, autotuner, runtime], ids=lambda m: m.__name__)
def test_another_name_is_pythons_own_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_every_setting_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """Those of other backends and searches may say that they have no meaning here; none is an error, or unknown."""
    notes.forget()
    for name in SETTINGS:
        helion.Settings(**{name: helion.Settings().values.get(name)})
    assert "no setting that is known" not in caplog.text


@helion.kernel
def nothing(x):
    for tile in hl.tile(x.size(0)):
        x[tile] = x[tile]


@pytest.mark.parametrize("name", KERNEL)
def test_an_attribute_of_a_kernel_is_there_or_says_what_to_do(name: str) -> None:
    try:
        getattr(nothing, name)
    except MissingAttribute as error:
        assert error.hint


def test_an_attribute_that_no_kernel_has_is_an_attribute_error() -> None:
    assert not hasattr(nothing, "nothing") and "def nothing(x):" in nothing.kernel_source()


def stopped(x):
    for tile in hl.tile(x.size(0)):
        hl.breakpoint()
        x[tile] = x[tile] + 1


def test_a_breakpoint_of_the_language_is_pythons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module had no such attribute."""
    stops: list[int] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(1))
    x, kernel = torch.zeros(3), helion.kernel(stopped)
    kernel.bind((x,)).run_ref(x)
    assert stops and torch.equal(x, torch.ones(3))
    with pytest.raises(TileflowError, match="a breakpoint stops Python"):
        kernel.bind((x,)).to_triton_code()
