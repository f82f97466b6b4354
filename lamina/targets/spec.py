"""A target as text and back: `cpu{features="avx2" activations="f32"}`.

An option whose field has `metadata={"spec": False}` says how code is run and not what it is: it
is left out of the text, as are options at their defaults.
"""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, Final, get_type_hints

from lamina.errors import InputError
from lamina.targets.base import Target


def target_spec(target: Target) -> str:
    """Return the name of `target` and those options that shape its code."""
    chosen = [
        f"{field.name}={_shown(value)}"
        for field in _options(target)
        if (value := getattr(target, field.name)) != field.default
    ]
    return f"{target.name}{{{' '.join(chosen)}}}" if chosen else target.name


_EXPECTED: Final = {bool: "true or false", int: "a whole number", str: "a word"}
"""How an option's type is called where its value is of another."""


def target_name(spec: str) -> str:
    """Return the name at the head of a spec."""
    return spec.partition("{")[0].strip()


AUTO: Final = "auto"
"""In place of a target's name: the one that a stage or a file was made for, or else the CPU."""


def join_options(spec: str, more: str) -> str:
    """Return a target's spec with the options of another: `cpu{a=1}`, `auto{b=2}` -> both."""
    name, _, own = spec.strip().rstrip("}").partition("{")
    given = more.strip().rstrip("}").partition("{")[2]
    options = " ".join(filter(None, (own.strip(), given.strip())))
    return f"{name}{{{options}}}" if options else name


def parse_target(kind: type[Target], spec: str) -> Target:
    """Return the target that `spec` describes; `InputError` names a wrong option."""
    if spec == kind.name:
        return kind()
    from xdsl.utils.arg_spec import parse_spec
    from xdsl.utils.exceptions import ArgSpecParseError
    from xdsl.utils.hints import isa

    try:
        given = parse_spec(spec).normalize_parameter_names().parameters
    except ArgSpecParseError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"the target {spec!r} cannot be read: {reason}") from None
    types, known = get_type_hints(kind), {field.name for field in fields(kind)}
    options: dict[str, Any] = {}
    for name, values in given.items():
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InputError(f"the target {kind.name} has no option {name!r} (known: {listed})")
        value = values[0] if len(values) == 1 else values
        if types[name] is str and type(value) is int:
            value = str(value)
        if not isa(value, types[name]):
            expected = _EXPECTED.get(types[name], types[name])
            raise InputError(
                f"the target {kind.name}, option {name}: expected {expected}, got {value!r}"
            )
        options[name] = value
    return kind(**options)


def _options(target: Target) -> list[Field[Any]]:
    return [field for field in fields(target) if field.metadata.get("spec", True)]


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_shown(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
