"""The table of ONNX operators: versions, and what becomes of elements of each type."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from runpy import run_path
from typing import Final

from onnx import defs
from onnx.defs import OpSchema

from lamina.frontend.onnx.hosted import HOSTED
from lamina.frontend.onnx.legacy import is_same
from lamina.frontend.onnx.registry import CONVERTERS, MICROSOFT, converter_of

NEWEST: Final = 28
"""The newest operator set of which the table tells."""

STATES: Final = ("compiled", "meaning", "refused")
ANY: Final = "any"

Types = Mapping[str, Mapping[str, str]]
"""What becomes of elements, by a type of the schema and then by the elements."""

SHORT: Final = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float": "f32",
    "double": "f64",
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
    "float8e8m0": "f8e8m0",
    "float6e2m3": "f6e2m3",
    "float6e3m2": "f6e3m2",
    "float4e2m1": "f4",
} | {f"{sign}int{n}": f"{sign or 'i'}{n}" for sign in ("", "u") for n in (2, 4, 8, 16, 32, 64)}
"""What elements are called in the table, in its order; others by their own names, behind."""

RUNS: Final = (
    ("f8", "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz"),
    ("i8…i64", "i8 i16 i32 i64"),
    ("u8…u64", "u8 u16 u32 u64"),
)
"""What stands for several that are all there."""


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield each operator with versions that agree, and the types of each state."""
    found = _found()
    for name, schemas in sorted(_schemas().items()):
        merged: list[tuple[list[int], Types]] = []
        for schema in schemas:
            types = found.get((schema.name, schema.since_version)) or {"": {ANY: _state(schema)}}
            for versions, known in merged:
                if _agree(known, types):
                    versions.append(schema.since_version)
                    known.update(_joined(known, types))
                    break
            else:
                merged.append(([schema.since_version], dict(types)))
        for versions, types in merged:
            yield f"`{name}`", ", ".join(map(str, versions)), *(_said(types, s) for s in STATES)
    yield from _of_microsoft()


def _found() -> dict[tuple[str, int], dict[str, dict[str, str]]]:
    path = Path(__file__).parent.parent / "tests/conformance/onnx_types.py"
    found: dict[tuple[str, int], dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for cell, state in run_path(str(path))["read"]().items():
        found[cell.operator, cell.version][cell.variable][cell.element] = state
    return found


def _schemas() -> dict[str, list[OpSchema]]:
    every = defs.get_all_schemas_with_history()
    every = sorted(every, key=lambda schema: schema.since_version)
    found: dict[str, list[OpSchema]] = defaultdict(list)
    for schema in every:
        if schema.since_version <= NEWEST and not schema.deprecated:
            domain = f"{schema.domain}." if schema.domain else ""
            found[f"{domain}{schema.name}"].append(schema)
    return found


def _state(schema: OpSchema) -> str:
    """What becomes of an operator of which no model was made."""
    if schema.domain == "" and not is_same(schema.name, schema.since_version):
        return "refused"
    if schema.name in ("Shape", "Size") and schema.domain == "":
        return "compiled"
    if converter_of(CONVERTERS, schema.domain, schema.name, schema.since_version):
        return "compiled"
    if schema.domain == "" and schema.name in HOSTED:
        return "meaning"
    whole = schema.has_function or schema.has_context_dependent_function
    return "compiled" if whole else "refused"


def _agree(a: Types, b: Types) -> bool:
    if (ANY in a.get("", {})) != (ANY in b.get("", {})):
        return False
    return all(
        a.get(variable, {}).get(element, state) == state
        for variable, states in b.items()
        for element, state in states.items()
    )


def _joined(a: Types, b: Types) -> dict[str, dict[str, str]]:
    names = dict.fromkeys([*a, *b])
    return {name: {**a.get(name, {}), **b.get(name, {})} for name in names}


def _said(types: Types, state: str) -> str:
    """What the table says of the types that have a state."""
    texts = {
        variable: _listed([element for element, found in states.items() if found == state])
        for variable, states in types.items()
    }
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{variable}: {text}" for variable, text in texts.items() if text)


def _listed(elements: list[str]) -> str:
    order = [*SHORT.values(), "bool", "string", ANY]
    names = sorted((SHORT.get(each, each) for each in elements), key=order.index)
    text = f" {' '.join(names)} "
    for short, run in RUNS:
        text = text.replace(f" {run} ", f" {short} ")
    return text.strip()


def _of_microsoft() -> Iterator[tuple[str, str, str, str, str]]:
    for (domain, name), entries in sorted(CONVERTERS.items()):
        if domain == MICROSOFT:
            since = ", ".join(str(version) for version, _ in entries)
            yield f"`{domain}.{name}`", since, ANY, "", ""
