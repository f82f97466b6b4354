"""What operators on texts mean: functions of a node's inputs, in which texts are str objects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.onnx.kinds import BOOL, KINDS, STRING, Kind
from lamina.frontend.onnx.model_file import loaded_form, stored_form
from lamina.frontend.onnx.tensors import TensorReader
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from lamina.frontend.onnx.hosted import Call

Array = npt.NDArray[Any]


def _mapped(function: Callable[[Any], Any], x: Array, dtype: Any = np.object_) -> Array:
    """Return a function of each element, as an array of the same shape."""
    found = np.empty(x.size, dtype)
    found[:] = [function(each) for each in x.ravel().tolist()]
    return found.reshape(x.shape)


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _normalized(call: Call) -> Sequence[Array]:
    x = call.x()
    if x.ndim != 1 and (x.ndim != 2 or x.shape[0] != 1):
        raise InputError(f"{call.op}: expected texts of shape [C] or [1, C], got {list(x.shape)}")
    stops = {_text(each) for each in call.get("stopwords", ())}
    given = x.ravel().tolist()
    if call.get("is_case_sensitive", 0):
        kept = [each for each in given if each not in stops]
    else:
        low = {each.lower() for each in stops}
        kept = [each for each in given if each.lower() not in low]
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    named = _text(call.get("case_change_action", b"NONE"))
    if named not in change:
        raise FormatError(f"{call.op}: attribute case_change_action: {shown(named)} is none")
    found = np.array([change[named](each) for each in kept] or [""], np.object_)
    return [found.reshape((1,) * (x.ndim - 1) + (-1,))]


def _joined(call: Call) -> Sequence[Array]:
    x, y = np.broadcast_arrays(call.x(0), call.x(1))
    found = np.empty(x.size, np.object_)
    found[:] = [a + b for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]
    return [found.reshape(x.shape)]


def _split(call: Call) -> Sequence[Array]:
    x, most = call.x(), call.get("maxsplit", None)
    delimiter = _text(call.get("delimiter", b"")) or None
    rows = [each.split(delimiter, -1 if most is None else most) for each in x.ravel().tolist()]
    counts = np.array([len(row) for row in rows], np.int64)
    width = int(counts.max(initial=0))
    found = np.full((len(rows), width), "", np.object_)
    for row, parts in zip(found, rows, strict=True):
        row[: len(parts)] = parts
    return [found.reshape((*x.shape, width)), counts.reshape(x.shape)][: call.outputs]


def _matched(call: Call) -> Sequence[Array]:
    pattern = _pattern(call.get("pattern", b""))
    return [_mapped(lambda text: _fits(pattern, text), call.x(), np.bool_)]


def _fits(pattern: Any, text: str) -> bool:
    return pattern.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


@lru_cache(maxsize=64)
def _pattern(pattern: bytes) -> Any:
    """Return a pattern of RE2, which takes a time that grows with the text and no faster."""
    try:
        import re2
    except ImportError:
        raise UnsupportedError(
            "RegexFullMatch needs the package google-re2: pip install 'lamina[onnx]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise FormatError(
            f"RegexFullMatch: attribute pattern: {shown(_text(pattern))} is none: {error}"
        ) from None


# Casts

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_TRUTHS: Final = {"true": True, "false": False}
_LONGEST: Final = 400
"""Characters of a whole number that is read: more than any number that fits has."""


def _cast(call: Call) -> Sequence[Array]:
    """Elements of another type, where either is a text."""
    x, own = call.x(), call.kinds[0]
    wanted = call.kinds[1] if call.op == "CastLike" else KINDS[call.get("to", STRING.number)]
    assert own is not None
    assert wanted is not None
    if wanted == STRING:
        numbers = loaded_form(x, own).ravel() if own.is_float else x.ravel()
        found = np.empty(x.size, np.object_)
        found[:] = [_spelt(each) if own.is_float else str(each) for each in numbers]
        return [found.reshape(x.shape)]
    numbers = _mapped(lambda text: _read(text, wanted), x)
    return [stored_form(numbers.astype(np.float64 if wanted.is_float else np.object_).astype(
        wanted.dtype))]  # fmt: skip


def _spelt(number: Any) -> str:
    """Return a float in the standard's plain notation, with as many digits as tell it apart."""
    value = float(number)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    text = format(Decimal(str(number)), "f")
    return text if "." in text else f"{text}.0"


def _read(text: str, kind: Kind) -> Any:
    text = text.strip()
    if kind.is_float:
        if _NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text):
            return float(text)
    elif kind == BOOL and text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    elif (number := _whole(text)) is not None:
        if kind == BOOL:
            return number != 0
        low = 0 if kind.is_unsigned else -(1 << kind.bits - 1)
        if low <= number < low + (1 << kind.bits):
            return number
    raise InputError(f"Cast: the text {shown(text)} is no {kind.name}")


def _whole(text: str) -> int | None:
    if len(text) > _LONGEST:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return int(number) if math.isfinite(number) else None


# Labels

_KEYS: Final = ("strings", "int64s", "floats", "tensor")
_DTYPES: Final[Mapping[str, Any]] = {
    "strings": np.object_,
    "int64s": np.int64,
    "floats": np.float32,
}
_DEFAULTS: Final[Mapping[str, tuple[str, Any]]] = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}


def _labelled(call: Call) -> Sequence[Array]:
    """Elements replaced by the values of equal keys."""
    x = call.x()
    if "classes_strings" in call.attributes:
        keys = _listed("strings", call.get("classes_strings", ()))
        values, default = np.arange(keys.size), np.array(call.get("default_int64", -1))
        if x.dtype != np.object_:
            keys, values = values, keys
            default = _listed("strings", [call.get("default_string", b"_Unused")])
    else:
        (_, keys), (name, values) = _given(call, "keys"), _given(call, "values")
        default = _default(call, name, values)
    if keys.size != values.size:
        raise FormatError(f"{call.op}: has {keys.size} keys, and {values.size} values")
    table = dict(zip(map(_key, keys.ravel().tolist()), values.ravel().tolist(), strict=True))
    other = default.ravel().tolist()[0]
    return [_mapped(lambda each: table.get(_key(each), other), x, values.dtype)]


def _given(call: Call, role: str) -> tuple[str, Array]:
    for name in _KEYS:
        found = call.get(f"{role}_{name}", None)
        if found is not None:
            return name, _tensor(call, found) if name == "tensor" else _listed(name, found)
    raise FormatError(f"{call.op}: attribute {role}_*: is missing")


def _default(call: Call, name: str, values: Array) -> Array:
    tensor = call.get("default_tensor", None)
    if tensor is not None:
        return _tensor(call, tensor)
    if name == "tensor":
        of_kind = {"O": "strings", "i": "int64s", "f": "floats"}
        name = of_kind.get(values.dtype.kind, "int64s")
    attribute, usual = _DEFAULTS[name]
    return _listed(name, [call.get(attribute, usual)])


def _tensor(call: Call, proto: Any) -> Array:
    array, _ = TensorReader(call.op, None).array(proto, "attribute of a tensor")
    return array


def _listed(name: str, values: Sequence[Any]) -> Array:
    found = np.empty(len(values), _DTYPES[name])
    found[:] = [_text(each) if name == "strings" else each for each in values]
    return found


def _key(value: Any) -> Any:
    """Return what stands for a value among keys: all NaN are one."""
    return "NaN of floats" if isinstance(value, float) and math.isnan(value) else value


TEXT_OPERATORS: Final[dict[str, Callable[[Call], Sequence[Array]]]] = {
    "RegexFullMatch": _matched,
    "StringConcat": _joined,
    "StringNormalizer": _normalized,
    "StringSplit": _split,
    "ai.onnx.ml.LabelEncoder": _labelled,
}
"""The operators that run so, by domain, if it is not the standard's, and name."""

TEXT_CASTS: Final = {"Cast": _cast, "CastLike": _cast}
"""Operators of which only the forms with texts run so."""
