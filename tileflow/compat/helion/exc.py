"""The dialect's exceptions: its names for tileflow's classes.

Several of its names are one class here, so that ``except`` clauses catch at least what they did. Warnings are classes
of their own: they stand in ``ignore_warnings`` and are never given, since host code may compute on tensors here.
"""

from __future__ import annotations

from ... import errors

Base = BaseError = errors.TileflowError

# the kernel's structure
StatementNotSupported = NotAllowedOnDevice = DeviceAPIOnHost = CantReadOnDevice = errors.KernelError
NotAllowedInHelperFunction = InvalidDeviceForLoop = NestedDeviceLoopsConflict = errors.KernelError
DecoratorAfterHelionKernelDecorator = ClosuresNotSupported = NamingConflict = errors.KernelError
StarredArgsNotSupportedOnDevice = InvalidAssignment = AssignmentMultipleTargets = errors.KernelError
ClosureMutation = GlobalMutation = NestedGridLoop = TopLevelStatementBetweenLoops = errors.KernelError
BarrierOnlyAllowedAtTopLevel = CrossRootDeviceValue = CrossLoopSchedulingError = errors.KernelError
AutodiffKernelNotCalled = AutodiffNotSupported = errors.GradientError
MultipleDeviceLoops = MaximumGridRank = errors.SplitError
LoopFunctionNotInFor = DeviceLoopElseBlock = LoopDependencyError = errors.SplitError
CannotReadDeviceVariableOnHost = CannotModifyHostVariableOnDevice = errors.SplitError

# tiles, indices, types
IncorrectTileUsage = FailedToUnpackTile = OverpackedTile = InvalidIndexingType = errors.TraceError
HostTensorDirectUsage = RequiresTensorInAssignment = NonTensorSubscriptAssign = errors.TraceError
BooleanMaskIndexingNotSupported = DeviceTensorSubscriptAssignmentNotAllowed = errors.TraceError
FailedToUnpackTupleAssign = UndefinedVariable = UnsupportedPythonType = TypeInferenceError = errors.TraceError
TracedArgNotSupported = InvalidAPIUsage = TorchOpTracingError = ControlFlowTensorMismatch = errors.TraceError
ShapeSpecializingCall = ShapeSpecializingAllocation = SpecializeArgType = SpecializeOnDevice = errors.TraceError
RankMismatch = ShapeMismatch = CantCombineTypesInControlFlow = errors.TraceError
InductorLoweringError = TorchNonzeroNotSupported = errors.TraceError
InvalidSliceStep = TensorSliceBound = DotBatchDimensionMismatch = errors.TraceError
IndexOffsetOutOfRangeForInt = IndexOffsetOutOfRangeForInt32 = InvalidSliceType = errors.TraceError
InvalidTileUsage = CantReadTypeFromHost = ExpectedTensorName = TypePropagationError = errors.TraceError
DataDependentOutputShapeNotSupported = UnsupportedSplitOperation = UnsupportedSplitConfiguration = errors.TraceError
InvalidTileRange = InvalidJaggedTileUsage = TileOfTile = ReductionOnNonTile = InvalidReductionDim = errors.TraceError
MultipleReductionDims = ReductionDimInvalidForShape = UnsupportedIndexRemapping = errors.TraceError
AtomicOnDeviceTensor = InvalidSequenceSubscription = GraphModuleUnsupportedOps = errors.TraceError
DuplicateStoreIndicesError = EmptyDeviceLoopAfterDCE = NoDeviceLoopsInKernel = errors.TraceError
StackTensorcOnHost = StackTensorDevPtrOnHost = StackTensorDevPtrDtype = errors.TraceError
StackTensorExampleOnDevice = BreakpointInDeviceLoopRequiresInterpret = errors.TraceError
PdlPlacement = PdlStateWithoutWait = NestedKernelCallsNotSupported = errors.TraceError
NotInsideKernel = NoTensorArgs = InputTensorNumelExceedsIndexType = errors.CallError
IncompatibleInterpretModes = RefEagerModeCodePrintError = errors.CallError

# configs and knobs
InvalidConfig = NotEnoughConfigs = ConfigSpecFragmentWithSymInt = RegisterTunableArgTypes = errors.ConfigError
TunableTypeNotSupported = TunableNameConflict = BarrierRequiresPersistent = errors.ConfigError
MissingEnableTile = InconsistantConfigsAcrossRanks = NoConfigFound = errors.ConfigError
AutotuningDisallowedInEnvironment = AutotuneError = errors.SpecError

# compiling and launching
ErrorCompilingKernel = errors.KernelError
TritonError = BackendUnsupported = BackendImplementationMissing = CuteBackendUnavailable = errors.BuildError
TritonUnrecoverableRuntimeError = errors.LaunchError
CacheAssertionError = errors.TableError
ShapeCheckError = errors.LaunchError
InternalError = errors.InternalError


class BaseWarning(UserWarning):
    """Base of the warnings."""


class TensorOperationInWrapper(BaseWarning):
    """Host code computes on tensors."""


class TensorOperationsInHostCall(TensorOperationInWrapper):
    """Host code calls a function that computes on tensors."""


class WrongDevice(BaseWarning):
    """An operation returned a tensor on another device."""


class BlockSizeIgnoredInInterpretMode(BaseWarning):
    """The eager meaning took another block size."""


class BlockPtrIndexingUnavailable(BaseWarning):
    """Block pointers are not there."""


class TiledKMatmulAccumulationWarning(BaseWarning):
    """A product over a tiled dimension that is not accumulated."""


class NoAOTHeuristicWarning(BaseWarning):
    """No table was loaded."""


class ProcessGroupNameNotFound(BaseWarning):
    """A distributed kernel without its group."""
