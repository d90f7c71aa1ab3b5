"""The cache in front of a kernel's calls: keys, what was remembered for them, and calls that come for the first time.

A call whose key is known runs at once. Any other is planned (:mod:`.serving`): attempts are made until one serves it,
and that one is remembered, unless tables were loaded or forgotten meanwhile. What is remembered belongs to what the
kernel read besides its arguments (:mod:`.outside`): where that changes, calls are planned anew, and where it changes
back, what was remembered before serves them again. First calls of one key may run at once in
several threads; what is expensive in them (machine code to load, configs to compile) is done by one of them.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Any, Protocol

from ..errors import CallError, OutOfResources, VariantError
from ..lazy_dataclass import dataclass
from ..locks import Lock
from .argtree import Signature, leaves, nests_too_deep, tensors
from .bounded import BoundedCache
from .dispatch import KeyedContext, KeyedRegion, RuntimeContext
from .key_invariants import FLOAT32_PRECISION, DeviceReads
from .keys import MISS, Form, call_key, form_of
from .metrics import register_gauge
from .native import tensors_key
from .numpy_numbers import plain_call
from .outside import Outside, passed_code, read_outside
from .registry import on_change
from .serving import Attempt

MOST_KEYS = 16_384  # of each form
MOST_FORMS = 8
MOST_STATES = 16  # of what a kernel reads besides its arguments
MOST_PASSED = 256  # functions that calls passed, by their code


@dataclass(slots=True, eq=False)
class Direct:
    """What serves calls without launching what was built: ``run(*args, **kwargs)``, counted in ``counter``."""

    run: Callable[..., Any]
    counter: Any


class Host(Signature, Protocol):
    """A kernel's host code; a ``tileflow.frontend.split.HostFunction`` is one.

    ``ambient``: the settings of torch's that it can see; ``restartable``: whether a call whose first launch was
    declined has launched nothing yet; ``reads``: what device code reads besides arguments.
    """

    @property
    def fn(self) -> Any:
        """The author's function."""

    @property
    def reads(self) -> DeviceReads:
        """What device code reads besides arguments."""

    @property
    def run(self) -> Callable[..., Any]:
        """The host code, whose first argument answers its launches."""

    @property
    def flat(self) -> Callable[..., Any] | None:
        """The host code that hands its locals to each launch; None where that is not possible."""

    @property
    def regions(self) -> Sequence[Any]:
        """The device code of each launch, in the order of the text."""

    @property
    def ambient(self) -> frozenset[str]:
        """The settings of torch's that host code can see."""

    @property
    def restartable(self) -> bool:
        """Whether a call whose first launch was declined has launched nothing yet."""


class Owner(Protocol):
    """The kernel that a cache belongs to."""

    @property
    def host(self) -> Host:
        """The kernel's host code."""

    @property
    def multiplies(self) -> bool:
        """Whether the kernel may hold a matrix product, about which torch's setting for float32 operands decides."""

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Attempt | Direct]:
        """What may serve a call, in order. Raises TileflowError where the call is refused."""
        ...

    def changes_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether host code writes into its arguments before it launches."""
        ...


class CallCache:
    """What serves calls of one kernel, by their keys.

    ``plain``, ``named``: forms of calls without and with keywords, tried in turn by a warm call; ``by_value``: the
    names of arguments whose ints tell calls apart; ``number``: of the kernel in this process and what it reads besides
    its arguments, which no other one ever has; ``forgotten``: how often all keys were.
    """

    def __init__(self, owner: Owner) -> None:
        self.number = next(_numbers)
        self.forgotten = 0
        self._owner = owner
        host = owner.host
        self._run = host.flat or host.run
        self._regions = [KeyedRegion(r.locals, r.invariants) for r in host.regions] if host.flat is not None else []
        self._names = tuple(host.signature.parameters)
        self._positional = _positions(host.signature)
        # host code's settings are asked for while it is held, which may read the outside
        self._lock = Lock(self.invalidate)
        self._token = 0
        self._outside: Outside | None = None  # once it was read
        self._passed: dict[Hashable, Any] = {}  # functions that calls passed
        self._others: dict[Hashable, _State] = {}  # what was remembered while the outside was another
        self._entries: BoundedCache[Any] = BoundedCache(MOST_KEYS)
        self._use(())
        self.by_value = frozenset(host.constants)
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries) + sum(len(form.held) for form in self.forms)

    @property
    def forms(self) -> tuple[Form, ...]:
        """All forms of calls, those without keywords first."""
        return (*self.plain, *self.named)

    @property
    def evicted(self) -> int:
        """How many keys had to go since tables changed last."""
        return self._entries.evicted + sum(form.held.evicted for form in self.forms)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no form served: by what is remembered for its key, else planned."""
        if self.refresh():
            result = self.by_form(args, kwargs)
            if result is not MISS:
                return result
        key = self.key(args, kwargs)
        context = self._entries.get(key)
        if context is None:
            return self._first(key, args, kwargs)
        context.counter.calls += 1
        try:
            return context.run(*args, **kwargs) if isinstance(context, Direct) else self._run(context, *args, **kwargs)
        except VariantError as error:
            return self.declined(error, args, kwargs)

    def by_form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call by what is remembered for its form; MISS where nothing is."""
        try:
            for form in self.named if kwargs else self.plain:
                result = form.call(args, kwargs)
                if result is not MISS:
                    return result
        except VariantError as error:
            return self.declined(error, args, kwargs)
        return MISS

    def refresh(self) -> bool:
        """Turn to what belongs to what the kernel reads now besides its arguments. False: nothing of it changed."""
        outside = self._outside
        if outside is not None and outside.holds():
            return False
        with self._lock:
            self._turn()
        return True

    def _turn(self) -> None:
        host, before = self._owner.host, self._outside
        now = read_outside(host.fn, host.reads, self._passed.values())
        if before is not None and before.signature != now.signature:
            self._token += 1
            self._others[before.signature] = _State(before, self.number, self.forms, self._entries)
            found = self._others.pop(now.signature, None)
            if found is None:
                found = _State(now, next(_numbers), (), BoundedCache(MOST_KEYS))
            while len(self._others) >= MOST_STATES:
                del self._others[next(iter(self._others))]
            self.number, self._entries = found.number, found.entries
            self._use(found.forms)
        self._use([form for form in self.forms if form.watch(now.unchanged)])
        self._outside = now  # last: other threads take what they find from here on

    def watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What the functions of a call read is part of the outside from now on."""
        new = {key: code for key, code in passed_code((*args, *kwargs.values())) if key not in self._passed}
        if not new:
            return
        if len(self._passed) + len(new) > MOST_PASSED:
            self._passed = {}
            self.invalidate()
        with self._lock:
            self._passed |= new
            host = self._owner.host
            # what is remembered was made without them, and still holds
            self._outside = now = read_outside(host.fn, host.reads, self._passed.values())
            self._others = {}
            self._use([form for form in self.forms if form.watch(now.unchanged)])

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """The key of any call. Raises CallError where an argument has none."""
        constants = self._owner.host.constants
        try:
            values = [
                (_by_value if n in constants else _ints)(args[i] if i < len(args) else kwargs.get(n))
                for i, n in enumerate(self._names)
                if n in self.by_value
            ]
            key = call_key(args, kwargs, self._ambient), *values
            hash(key)
        except TypeError as error:
            raise CallError(
                "a constexpr argument is a number, a string or a tuple of them",
                got=str(error),
                hint="pass tuple(...) in place of a list",
            ) from error
        except RecursionError:
            raise nests_too_deep() from None
        return key

    @property
    def _ambient(self) -> tuple[str, ...]:
        seen = self._owner.host.ambient
        return tuple(sorted({*seen, FLOAT32_PRECISION} if self._owner.multiplies else seen))

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Any call: as a kernel makes it, which spells out the first step."""
        result = self.by_form(args, kwargs)
        return self.run(args, kwargs) if result is MISS else result

    def declined(self, error: VariantError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call again that what was remembered for its key declined. Raises ``error`` where something was launched."""
        self.begin_again(error, args, kwargs)
        key = self.key(args, kwargs)
        self._entries.drop(key)
        return self._first(key, args, kwargs)

    def begin_again(self, error: VariantError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """A declined call may be made again, with its ints told apart by value. False: they were already.

        Raises ``error`` where the call has launched something, or written into its arguments.
        """
        owner = self._owner
        if error.region or not owner.host.restartable:
            raise error
        if owner.host.flat is None and owner.changes_arguments(args, kwargs):
            raise error
        return self.specialize_ints(args, kwargs)

    def specialize_ints(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Make the ints of these arguments part of the key from now on, for they select code. False where they already
        were."""
        ints = self.with_ints(args, kwargs) - self.by_value
        if ints:
            self.invalidate(self.by_value | ints)
        return bool(ints)

    def with_ints(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> frozenset[str]:
        """The names of the arguments with ints."""
        given = self._owner.host.signature.bind(*args, **kwargs).arguments
        return frozenset(name for name, value in given.items() if _ints(value))

    def invalidate(self, by_value: frozenset[str] | None = None) -> None:
        """Forget all keys. No call is warm any more, and running calls are not remembered."""
        with self._lock:
            self._token += 1
            self.forgotten += 1
            self._use(())
            self._others = {}
            self._entries = BoundedCache(MOST_KEYS)
            self.by_value = self.by_value if by_value is None else by_value

    def _first(self, key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Plan, run, remember. Calls with numbers of numpy's are those with Python's."""
        plain = plain_call(args, kwargs)
        if plain is not None:
            return self.run(*plain)
        self.watch(args, kwargs)
        token, last = self._token, None
        for attempt in self._owner.plan(args, kwargs):
            if isinstance(attempt, Direct):
                self._keep(token, key, args, kwargs, attempt)
                attempt.counter.calls += 1
                return attempt.run(*args, **kwargs)
            before = self._versions(args, kwargs)
            try:
                run = partial(self._owner.host.run, attempt)
                result = (run if attempt.around is None else attempt.around(run))(*args, **kwargs)
            except (VariantError, OutOfResources) as error:
                if attempt.launched or before is None or before != self._versions(args, kwargs):
                    raise
                last = error
                continue
            attempt.counter.calls += 1
            kept = self._keyed(attempt)
            if attempt.around is not None:
                kept = Direct(attempt.around(partial(self._run, kept)), kept.counter)
            self._keep(token, key, args, kwargs, kept)
            return result
        assert last is not None, "a plan ends with an attempt or an error"
        raise last

    def _keyed(self, context: RuntimeContext) -> Any:
        """What calls with the key run with: launches leave out what the key fixes, where it fixes something."""
        return KeyedContext(context, self._regions) if self._regions else context

    def _versions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int] | None:
        """What torch counts of writes into the arguments; None where it does not count: inference tensors. Host code
        that is known to write nothing, or the same again, has nothing to count."""
        if self._owner.host.flat is not None:
            return []
        found = [*tensors((*args, *kwargs.values()))]
        return None if any(tensor.is_inference() for tensor in found) else [tensor._version for tensor in found]

    def remember(self, args: tuple[Any, ...], context: RuntimeContext) -> None:
        """Calls with positional arguments like these run with ``context`` until tables change."""
        self.refresh()
        self.watch(args, {})
        self._keep(self._token, self.key(args, {}), args, {}, self._keyed(context))

    def _keep(self, token: int, key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any], context: Any) -> None:
        with self._lock:
            if token != self._token or not (self._outside is None or self._outside.holds()):
                return
            form = None if isinstance(context, Direct) else self._form(args, kwargs)
            if form is None:
                self._entries.replace(key, context)
            else:
                form.held.replace(form.key(args, kwargs), context)

    def _form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form | None:
        """The form that reads calls like this one, made where there is room for another."""
        if any(tensor.is_complex() for tensor in tensors((*args, *kwargs.values()))):
            return None
        found = next((form for form in self.forms if form.key(args, kwargs) is not None), None)
        if found is None and len(self.forms) < MOST_FORMS:
            unchanged = None if self._outside is None else self._outside.unchanged
            found = form_of(
                args,
                kwargs,
                self._run,
                self._owner.host.constants,
                self._names,
                self._ambient,
                MOST_KEYS,
                self._positional,
                tensors_key(),
                unchanged,
                self.by_value,
            )
            self._use(self.forms if found is None else (*self.forms, found))
        return found

    def _use(self, forms: Sequence[Form]) -> None:
        self.plain = tuple(form for form in forms if not form.words)
        self.named = tuple(form for form in forms if form.words)


def _positions(signature: inspect.Signature) -> int:
    """How many parameters, from the first on, may be passed by position and by name alike."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return len([*takewhile(lambda parameter: parameter.kind is either, signature.parameters.values())])


@dataclass(slots=True, eq=False)
class _State:
    """What was remembered while the outside was as ``outside`` says."""

    outside: Outside
    number: int
    forms: tuple[Form, ...]
    entries: BoundedCache[Any]


def _ints(value: Any) -> tuple[int, ...]:
    """The ints of an argument, wherever they are."""
    return tuple(leaf for leaf in leaves(value) if type(leaf) is int)


def _by_value(value: Any) -> Hashable:
    """True, 1 and 1.0 are equal and select different code; so are 0.0 and -0.0. NaN is none of itself."""
    if isinstance(value, tuple):
        return (type(value), *map(_by_value, value))
    return (type(value), repr(value) if isinstance(value, float) else value)


_numbers = count()
_caches: weakref.WeakSet[CallCache] = weakref.WeakSet()


def _invalidate_all() -> None:
    for cache in list(_caches):
        cache.invalidate()


on_change(_invalidate_all)
register_gauge("tileflow_call_keys", "Keys of calls that are remembered.", lambda: sum(map(len, list(_caches))))

__all__ = ["MISS", "CallCache", "Direct", "Host", "Owner"]
