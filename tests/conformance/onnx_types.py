"""What becomes of each operator of ONNX with elements of each type, as it is found by compiling.

    python tests/conformance/onnx_types.py [--only PATTERN]

Writes `onnx_types.txt`, from which the table of docs/onnx.md is made: a line for each type of an
operator's versions. `make test-onnx` finds some of it again.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from onnx import ModelProto, TensorProto, checker, defs, shape_inference
from onnx_one_node import models, numbers_of

from lamina.compiler import lower
from lamina.errors import LaminaError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.legacy import is_same
from lamina.frontend.onnx.model_file import open_onnx

FOUND = Path(__file__).with_suffix(".txt")
COMPILED, BY_MEANING, REFUSED = STATES = ("compiled", "meaning", "refused")
TARGET = "cpu"


class Cell(NamedTuple):
    """A type of an operator's version, by the name that its schema has, and its elements."""

    operator: str
    version: int
    variable: str
    element: str


def cells(only: str = "") -> Iterator[Cell]:
    """Yield every cell of operators whose names match a pattern."""
    for schema in sorted(schemas(), key=lambda s: (s.domain, s.name, s.since_version)):
        if re.search(only, schema.name):
            for variable, numbers in variables(schema):
                for number in numbers:
                    name = TensorProto.DataType.Name(number).lower()
                    yield Cell(schema.name, schema.since_version, variable, name)


def variables(schema: defs.OpSchema) -> Iterator[tuple[str, list[int]]]:
    """Yield the types of a schema, with what elements may be: several, or those of input 0."""
    used = {each.type_str for each in (*schema.inputs, *schema.outputs)}
    first = [each.type_str for each in schema.inputs[:1]]
    for each in schema.type_constraints:
        numbers = numbers_of(each.allowed_type_strs)
        name = each.type_param_str
        if name in used and (len(numbers) > 1 or name in first):
            yield name, numbers


def schemas() -> list[defs.OpSchema]:
    """Return the operators of the standard in all their versions that are known."""
    return [
        schema
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and not schema.deprecated
        if is_same(schema.name, schema.since_version)
    ]


def became(cell: Cell) -> str | None:
    """Return what becomes of a cell, the best of several models; None if none can be made."""
    schema = defs.get_schema(cell.operator, cell.version, "")
    number = TensorProto.DataType.Value(cell.element.upper())
    best: str | None = None
    for model in models(schema, cell.variable, number):
        state = judged(model)
        if state != REFUSED or is_valid(model):
            best = state if best is None else min(best, state, key=STATES.index)
        if best == COMPILED:
            break
    return best


def is_valid(model: ModelProto) -> bool:
    """Whether the package onnx has nothing against the types in a model."""
    try:
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (shape_inference.InferenceError, checker.ValidationError):
        return False
    return True


def judged(model: ModelProto) -> str:
    """Return what becomes of a model."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            lower(model_of(open_onnx(model)), TARGET)
        except LaminaError:
            return REFUSED
    hosted = any("by its NumPy meaning" in str(each.message) for each in said)
    return BY_MEANING if hosted else COMPILED


def read() -> dict[Cell, str]:
    """Return what was found before."""
    found: dict[Cell, str] = {}
    for line in FOUND.read_text(encoding="utf-8").splitlines():
        operator, version, variable, state, *elements = line.split()
        for element in elements:
            found[Cell(operator, int(version), variable, element)] = state
    return found


def written(found: Mapping[Cell, str]) -> str:
    """Return the text of what was found."""
    order = [name.lower() for name in TensorProto.DataType.keys()]
    lines: dict[tuple[str, int, str, str], list[str]] = defaultdict(list)
    for cell, state in found.items():
        lines[cell.operator, cell.version, cell.variable, state].append(cell.element)
    return "".join(
        f"{' '.join(map(str, key))} {' '.join(sorted(elements, key=order.index))}\n"
        for key, elements in sorted(lines.items())
    )


def main() -> None:
    """Find every cell of operators that match, and keep what was found of others."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a pattern of operators' names")
    only = options.parse_args().only
    kept = read() if FOUND.exists() else {}
    kept = {cell: state for cell, state in kept.items() if not re.search(only, cell.operator)}
    new = {cell: state for cell in cells(only) if (state := became(cell)) is not None}
    FOUND.write_text(written(kept | new), encoding="utf-8")


if __name__ == "__main__":
    main()
