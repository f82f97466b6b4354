"""How large what a template makes may be: the measure of values, and of what operations add."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from jinja2.exceptions import SecurityError
from markupsafe import Markup

T = TypeVar("T")

MAX_SIZE: Final = 1 << 24
"""Characters in any value of a template, and in its output."""
ITEM_SIZE: Final = 16
"""What an item of a container counts, beside the characters in it."""
_MAX_BITS: Final = 4096
_MAX_INDENT: Final = 64
_ESCAPED: Final = 5
"""The most characters that one becomes when it is escaped for HTML."""


def bounded(value: T) -> T:
    """Return `value`; `SecurityError` if its text, repeats counted, is beyond `MAX_SIZE`."""
    size, todo = 0, [cast(object, value)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, Collection):
            items = cast(Collection[object], item)
            todo += items
            if isinstance(item, Mapping):
                todo += cast(Mapping[object, object], item).values()
            size += ITEM_SIZE * len(items)
        check_size(size)
    return value


def shallow_size(value: object) -> int:
    """Return the characters that a value takes by itself and in the texts directly in it.

    What is deeper was made before, and counted then.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, Collection) or isinstance(value, range):
        return 0
    items = cast(Collection[object], value)
    return ITEM_SIZE * len(items) + sum(len(item) for item in items if isinstance(item, str))


def check_size(size: int) -> None:
    """Raise `SecurityError` for a value of more than `MAX_SIZE` characters."""
    if size > MAX_SIZE:
        raise SecurityError(f"it makes a value of more than {MAX_SIZE} characters")


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return `value` as JSON without HTML escapes, as the filter `tojson` of chat templates."""
    if indent is not None and indent > _MAX_INDENT:
        raise SecurityError(f"it indents by more than {_MAX_INDENT}")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return joined(encoder.iterencode(value))


def joined(pieces: Iterable[object]) -> str:
    """Return the pieces' text in a row; `SecurityError` if it is longer than `MAX_SIZE`."""
    texts: list[str] = []
    size = 0
    for piece in pieces:
        texts.append(str(bounded(piece)))
        size += len(texts[-1])
        check_size(size)
    return "".join(texts)


def items_size(values: object) -> int:
    """Return what a text takes as a list of its characters; anything else is one already."""
    return ITEM_SIZE * len(values) if isinstance(values, str) else 0


def _list_growth(values: Any, *args: Any, **kwargs: Any) -> int:
    return items_size(values)


def _split_growth(text: Any, *args: Any, **kwargs: Any) -> int:
    separators = [each for each in (*args, *kwargs.values()) if isinstance(each, str)]
    parts = str(text).count(separators[0]) if separators and separators[0] else len(text) // 2
    return ITEM_SIZE * (parts + 1)


def _replace_growth(text: Any, old: Any = "", new: Any = "", count: Any = None) -> int:
    return str(text).count(str(old)) * len(str(new))


def _join_growth(left: Any, right: Any = "", attribute: Any = None, *, d: Any = "") -> int:
    return len(left) * max(len(right), len(d)) + items_size(left) + items_size(right)


def _escape_growth(text: Any) -> int:
    return _ESCAPED * len(str(text))


def _indent_growth(s: Any, width: Any = 4, first: Any = False, blank: Any = False) -> int:
    step = len(width) if isinstance(width, str) else int(width)
    return step * (str(s).count("\n") + 1)


def _round_growth(value: Any, precision: Any = 0, method: Any = "common") -> int:
    return abs(int(precision)) * _MAX_BITS


GROWTHS: Final[dict[str, Callable[..., int]]] = {
    "e": _escape_growth,
    "escape": _escape_growth,
    "indent": _indent_growth,
    "join": _join_growth,
    "replace": _replace_growth,
    "round": _round_growth,
    "rsplit": _split_growth,
    "split": _split_growth,
    "splitlines": _split_growth,
    **dict.fromkeys(
        (
            "count dictsort first groupby items last length list map max min reject rejectattr "
            "reverse select selectattr sort sum unique"
        ).split(),
        _list_growth,
    ),
}
"""About how many characters a filter or method adds to its arguments."""


def _check_sum(left: object, right: object) -> None:
    if isinstance(left, Markup) or isinstance(right, Markup):
        # It escapes what is added to it.
        check_size(_ESCAPED * (len(str(left)) + len(str(right))))
    elif isinstance(left, Collection) and isinstance(right, Collection):
        check_size(len(cast(Collection[object], left)) + len(cast(Collection[object], right)))


def _check_product(left: object, right: object) -> None:
    for times, other in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(other, Collection):
            check_size(times * len(cast(Collection[object], other)))
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def _check_power(left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


def _check_remainder(left: object, right: object) -> None:
    if isinstance(left, str):
        raise SecurityError("it formats text with %")


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise SecurityError(f"it makes a number of more than {_MAX_BITS} bits")


OPERATOR_CHECKS: Final[dict[str, Callable[[object, object], None]]] = {
    "+": _check_sum,
    "*": _check_product,
    "**": _check_power,
    "%": _check_remainder,
}
"""What an operator must not be given."""
