"""The signature of a module, read off the attributes of `@forward` at any level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from lamina.dialects.cache import AttentionOp, PagesType
from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.names import unescape_name
from lamina.dialects.plan import BufferType
from lamina.dialects.tensors import extents
from lamina.dialects.text_codes import ELEMENTS, TEXT, TEXTS
from lamina.errors import FormatError, LoweringError
from lamina.targets.base import Binding, Signature

FORWARD = "forward"

DROPPED = "nn.dropped"
"""The attribute of an output that lists dimensions which go where they have one element."""

NAMED = ("lamina.input", "lamina.output", "lamina.state", "lamina.packed", "lamina.weight")
"""Attributes that give an argument or a result its name."""

PAGE, BLOCK = "cache.page", "cache.block"
"""Attributes of `@forward` where no type or operation says them any more: see `Signature`."""


def forward_of(module: ModuleOp) -> FuncOp:
    """Return `@forward`; LoweringError if the module has none."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if FORWARD in functions:
        return functions[FORWARD]
    there = ", ".join(f"@{name}" for name in functions) or "none"
    raise LoweringError(f"the module has no function @{FORWARD} (there is {there})")


def signature_of(module: ModuleOp) -> Signature:
    """Return what `@forward` takes and gives: named inputs, outputs and states, in order."""
    function = forward_of(module)
    inputs: list[Binding] = []
    outputs: list[Binding] = []
    states: list[Binding] = []
    kinds = {"lamina.input": inputs, "lamina.output": outputs, "lamina.state": states}
    for names, type in (*arguments_of(function), *results_of(function)):
        for key, bindings in kinds.items():
            if key in names and all(names[key] != known.name for known in bindings):
                bindings.append(_binding(names[key], type, names))
    _refuse_repeats(function)
    sides = tuple(inputs), tuple(outputs), tuple(states)
    return Signature(*sides, _facts(function), texts_of(function))


def texts_of(function: FuncOp) -> tuple[str, ...] | None:
    """Return the texts of a function's constants; None if no tensor of it has texts."""
    found = function.attributes.get(TEXTS)
    if not isinstance(found, ArrayAttr):
        return None
    return tuple(unescape_name(text.data) for text in cast("ArrayAttr[StringAttr]", found))


def _refuse_repeats(function: FuncOp) -> None:
    """Raise FormatError if two arguments, or two results, go by one name."""
    for side in (arguments_of(function), results_of(function)):
        seen: set[tuple[str, str]] = set()
        for names, _ in side:
            for role in names.items():
                if role[0] in NAMED and role in seen:
                    raise FormatError(f"@{FORWARD}: two values are {role[0]} {role[1]!r}")
                seen.add(role)


def arguments_of(function: FuncOp) -> Iterator[tuple[Mapping[str, str], Attribute]]:
    """Yield for each argument the names that its attributes say, and its type."""
    types = [arg.type for arg in function.body.block.args]
    yield from zip(_names(function.arg_attrs, len(types)), types, strict=True)


def results_of(function: FuncOp) -> Iterator[tuple[Mapping[str, str], Attribute]]:
    """Yield the same for each result."""
    types = function.function_type.outputs.data
    yield from zip(_names(function.res_attrs, len(types)), types, strict=True)


def _names(entries: ArrayAttr[Any] | None, count: int) -> list[Mapping[str, str]]:
    if entries is None:
        return [{}] * count
    return [
        {
            key: unescape_name(value.data)
            for key, value in entry.data.items()
            if isinstance(value, StringAttr)
        }
        for entry in entries
    ]


def tensor_of(type: Attribute) -> TensorType[Any]:
    """Return the tensor that an argument's value is: a pool's or a buffer's storage."""
    if isinstance(type, PagesType):
        return type.storage
    return cast("TensorType[Any]", type.tensor if isinstance(type, BufferType) else type)


def _binding(name: str, type: Attribute, names: Mapping[str, str]) -> Binding:
    kind = tensor_of(type)
    dropped = tuple(map(int, names.get(DROPPED, "").split()))
    role = names.get("cache.role", "")
    text = names.get(ELEMENTS) == TEXT
    return Binding(name, str(kind.get_element_type()), extents(kind), role, dropped, text)


def _facts(function: FuncOp) -> dict[str, int]:
    facts: dict[str, int] = {}
    for arg in function.body.block.args:
        if isinstance(arg.type, PagesType):
            facts["page"] = arg.type.page.value.data
    for op in function.body.walk():
        if isinstance(op, AttentionOp):
            facts["block"] = op.block.value.data
    for key, fact in ((PAGE, "page"), (BLOCK, "block")):
        value = function.attributes.get(key)
        if isinstance(value, IntegerAttr):
            facts[fact] = cast("IntegerAttr[Any]", value).value.data
    return facts


def source_of(op: Operation) -> str:
    """Return the source nodes of an operation, as a text."""
    names = op.attributes.get("lamina.src")
    if not isinstance(names, ArrayAttr):
        return op.name
    return ", ".join(n.data for n in cast("ArrayAttr[StringAttr]", names))


def equal_extents(function: FuncOp) -> list[tuple[Dim, Dim, str]]:
    """Return the pairs of extents that `@forward` takes to be equal, and the nodes that say so."""
    rows = function.attributes.get("lamina.equal")
    if not isinstance(rows, ArrayAttr):
        return []
    found: list[tuple[Dim, Dim, str]] = []
    for row in cast("ArrayAttr[ArrayAttr[StringAttr]]", rows):
        a, b, node = (text.data for text in row)
        found.append((parse_dim(a), parse_dim(b), node))
    return found
