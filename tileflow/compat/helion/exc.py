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
NotInsideKernel = NoTensorArgs = errors.CallError

# configs and knobs
InvalidConfig = NotEnoughConfigs = ConfigSpecFragmentWithSymInt = RegisterTunableArgTypes = errors.ConfigError
TunableTypeNotSupported = TunableNameConflict = errors.ConfigError
AutotuningDisallowedInEnvironment = AutotuneError = errors.SpecError

# compiling and launching
ErrorCompilingKernel = errors.KernelError
TritonError = BackendUnsupported = errors.BuildError
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
