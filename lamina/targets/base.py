"""What a target is: passes, code it emits, and a way to run that code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt

from lamina.dialects.dims import Dim
from lamina.errors import InputError

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

Array = npt.NDArray[Any]

MOST_THREADS = 512
"""The largest number of threads that a step can be run by."""


@dataclass(frozen=True)
class Binding:
    """One named array of a signature: its element type (`f32`, `i32`, …) and extents.

    `role` is the part it plays in a ragged batch (`positions`, `query_start`, `table`, `work`,
    `tokens`, `rows`), empty elsewhere. `dropped` are dimensions of an output that the caller does
    not see where they have one element. `text` says that elements are codes of texts, an i64 each
    (`lamina.dialects.text_codes`), which callers see as str.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    role: str = ""
    dropped: tuple[int, ...] = ()
    text: bool = False

    @property
    def elements(self) -> str:
        """What its elements are to a caller: `text`, or an element type."""
        return "text" if self.text else self.dtype

    def seen(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that the caller sees of an array of this one."""
        return tuple(n for d, n in enumerate(shape) if n != 1 or d not in self.dropped)

    def shown(self, array: Array) -> Array:
        """Return an output as the caller sees it."""
        return array.reshape(self.seen(array.shape)) if self.dropped else array


@dataclass(frozen=True)
class Signature:
    """What `@forward` takes and gives: inputs, outputs, and state that a call updates in place.

    `attributes` are facts that a caller needs about the code (for a ragged batch: the positions
    in a page, the tokens in a work entry). `texts` are those of its constants, None of code in
    which no tensor has texts.
    """

    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    states: tuple[Binding, ...] = ()
    attributes: Mapping[str, int] = field(default_factory=dict[str, int])
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Artifact:
    """Compiled code: safe to hash, to write to disk, and to load elsewhere.

    `sections` are its parts by name (code, plan, module text); `facts` is JSON-ready: versions,
    the features that the code needs, the hash of the module it came from.
    """

    target: str
    signature: Signature
    sections: Mapping[str, bytes]
    facts: Mapping[str, Any]


class Executable(Protocol):
    """Loaded code: immutable, so threads may share it."""

    @property
    def signature(self) -> Signature:
        """What a call takes and gives."""
        ...

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """What a call takes, in order."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[Binding, ...]:
        """What a call gives, in order."""
        return self.signature.outputs

    def __call__(self, *args: Array, **kwargs: Array) -> dict[str, Array]:
        """Run once: inputs by position or name, states by name (updated in place)."""
        ...


class Weights(Protocol):
    """Weights by name, as the front end reads them."""

    def __getitem__(self, name: str) -> Any:
        """Return the weight of this name."""
        ...


@dataclass(frozen=True)
class Target(ABC):
    """A place code can run. Its dataclass fields are its options."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def accepts(self) -> frozenset[str]:
        """The names of the operations that `emit` understands."""

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes that bring an imported module within this target's reach."""
        return ()

    def host(self) -> str | None:
        """Return what of this machine the code depends on; None if it is not to be kept on disk."""
        return None

    @abstractmethod
    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Translate a fully lowered module. Needs no device."""

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return what `emit` made of each kernel, to be read: text by file name (`n0.ll`)."""
        return {}

    def pack(self, artifact: Artifact, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the weights as they are to be carried with `artifact`, for `load`.

        A target that computes on weights before it runs returns `PackedWeights`, and is given
        an equal mapping; by default they are carried as the model's files have them.
        """
        return weights

    @abstractmethod
    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Make `artifact` callable, or raise `TargetUnavailable`; `weights` may be `pack`'s."""


def by_name(
    signature: Signature, args: Sequence[Array], kwargs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return a call's inputs, by position or name, and states, by name, under their names.

    Raises InputError naming an argument that is missing, unknown or given twice.
    """
    names = [binding.name for binding in signature.inputs]
    if len(args) > len(names):
        raise InputError(f"expected at most {len(names)} inputs, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    if twice := sorted(given.keys() & kwargs.keys()):
        raise InputError(f"input {twice[0]!r} is given twice")
    given |= kwargs
    known = [*names, *(binding.name for binding in signature.states)]
    if missing := [name for name in known if name not in given]:
        raise InputError(f"input {missing[0]!r} is missing")
    if unknown := [name for name in given if name not in known]:
        raise InputError(f"there is no input {unknown[0]!r}: expected {', '.join(known)}")
    return given


def bind(bindings: Sequence[Binding], arrays: Mapping[str, Array]) -> dict[str, int]:
    """Return the symbols' values that the arrays' shapes imply.

    Raises InputError naming the argument where a name, dtype, rank or extent does not fit.
    """
    values: dict[str, int] = {}
    for binding in bindings:
        array = arrays[binding.name]
        if str(array.dtype) != str(np.dtype(NUMPY[binding.dtype])):
            raise InputError(
                f"input {binding.name!r}: expected {NUMPY[binding.dtype]}, got {array.dtype}"
            )
        shape = tuple(str(dim) for dim in binding.dims)
        if len(array.shape) != len(binding.dims):
            raise InputError(f"input {binding.name!r}: expected shape {shape}, got {array.shape}")
        for dim, size in zip(binding.dims, array.shape, strict=True):
            _solve(binding, dim, size, values)
    return values


def input_array(binding: Binding, value: object) -> Array:
    """Return what an input is given as an array; InputError if it cannot be one."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        kind = NUMPY[binding.dtype]
        raise InputError(f"input {binding.name!r}: is no array, expected {kind}") from None


def state_array(binding: Binding, value: object) -> Array:
    """Return what a state is given; InputError unless it can be updated in place."""
    if not isinstance(value, np.ndarray):
        kind = type(value).__name__
        raise InputError(f"input {binding.name!r}: expected an array to be updated, got {kind}")
    array = cast("Array", value)
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise InputError(f"input {binding.name!r}: expected a contiguous, writable array")
    return array


NUMPY: dict[str, str] = {
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "bf16": "bfloat16",
}
"""How NumPy (with ml_dtypes) spells each element type."""


def _solve(binding: Binding, dim: Dim, size: int, values: dict[str, int]) -> None:
    unknown = dim.symbols - values.keys()
    if len(unknown) == 1:
        (name,) = unknown
        zero = dim.evaluate({**values, name: 0})
        slope = dim.evaluate({**values, name: 1}) - zero
        if slope and (size - zero) % slope == 0 and (size - zero) // slope >= 0:
            values[name] = (size - zero) // slope
    if dim.symbols <= values.keys() and dim.evaluate(values) == size:
        return
    known = {name: values[name] for name in sorted(dim.symbols & values.keys())}
    raise InputError(
        f"input {binding.name!r}: extent {dim} cannot be {size}"
        + (f" where {', '.join(f'{k} = {v}' for k, v in known.items())}" if known else "")
    )
