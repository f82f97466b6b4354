"""Where a stranger's template runs: a Jinja sandbox with bounds on steps, time and sizes."""

import functools
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import BuiltinMethodType
from typing import Any, Final, TypeVar, cast

from jinja2 import nodes
from jinja2.environment import Template
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

T = TypeVar("T")

MAX_SIZE: Final = 1 << 24
"""Characters in any value of a template, and in its output."""
_ITEM_SIZE: Final = 16
"""What an item of a container counts, beside the characters in it."""
_MAX_STEPS: Final = 500_000
_STEPS_OF_A_CALL: Final = 4
_MAX_SECONDS: Final = 5.0
_MAX_BITS: Final = 4096
_MAX_INDENT: Final = 64

_GLOBALS_LEFT_OUT: Final = ("lipsum", "cycler", "joiner")
_FILTERS_LEFT_OUT: Final = (
    "batch center filesizeformat forceescape format pprint random slice striptags truncate "
    "urlencode urlize wordcount wordwrap xmlattr"
).split()
_METHODS_LEFT_OUT: Final = frozenset(
    "center encode expandtabs format format_map ljust rjust to_bytes translate zfill".split()
)
_COUNTED: Final = "_counted"
_BOUNDED: Final = "_bounded"
_JOINED: Final = "_joined"


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of a chat template, as Hugging Face's `apply_chat_template` sets it up.

    It has `loopcontrols`, the `generation` tag and a `tojson` that escapes nothing. A template
    that reaches for internals or goes beyond a bound raises `SecurityError` or `OverflowError`;
    what formats text to a given width is left out. It serves one render at a time.
    """

    globals: dict[str, Any]
    filters: dict[str, Callable[..., Any]]
    tests: dict[str, Callable[..., Any]]
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            # Constants are not to be computed while compiling, where no step counts.
            optimized=False,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            finalize=bounded,
        )
        self._steps, self._deadline = 0, 0.0
        self.concat = joined
        for name in _GLOBALS_LEFT_OUT:
            del self.globals[name]
        for name in _FILTERS_LEFT_OUT:
            del self.filters[name]
        self.globals["namespace"] = _OpaqueNamespace
        self.filters["tojson"] = _to_json
        for table in (self.filters, self.tests):
            for name, function in list(table.items()):
                table[name] = self._guarded(name, function)
        self.filters |= {_COUNTED: self._counted, _BOUNDED: bounded, _JOINED: joined}

    def template(self, source: str) -> Template:
        """Compile `source`, with each loop, comparison and `~` made to respect the bounds."""
        tree = self.parse(source)
        for loop in list(tree.find_all(nodes.For)):
            if loop.recursive:
                raise SecurityError("it has a recursive loop")
            loop.iter = _filtered(loop.iter, _COUNTED)
        for comparison in list(tree.find_all(nodes.Compare)):
            comparison.expr = _filtered(comparison.expr, _BOUNDED)
            for operand in comparison.ops:
                operand.expr = _filtered(operand.expr, _BOUNDED)
        for concat in list(tree.find_all(nodes.Concat)):
            concat.nodes = [_filtered(nodes.List(concat.nodes, lineno=concat.lineno), _JOINED)]
        return self.from_string(tree)

    def restart(self) -> None:
        """Give the next render its steps and seconds."""
        self._steps, self._deadline = _MAX_STEPS, time.monotonic() + _MAX_SECONDS

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may use this attribute."""
        return attr not in _METHODS_LEFT_OUT and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to `is_safe_attribute`, which refuses it."""

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call on behalf of a template, which counts as several steps."""
        self._step(_STEPS_OF_A_CALL)
        # Jinja adds arguments of its own, `_loop_vars` and `_block_vars`.
        named = {name: value for name, value in kwargs.items() if not name.startswith("_")}
        bounded([*args, *named.values()])
        if isinstance(obj, BuiltinMethodType) and obj.__name__ in _GROWTHS:
            _check_size(_GROWTHS[obj.__name__](obj.__self__, *args, **named))
        return bounded(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute on behalf of a template, which is a step."""
        self._step()
        _OPERATOR_CHECKS[operator](left, right)
        return super().call_binop(context, operator, left, right)

    def _step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise SecurityError(f"it takes more than {_MAX_STEPS} steps")
        if time.monotonic() > self._deadline:
            raise SecurityError(f"it takes more than {_MAX_SECONDS:g} seconds")

    def _counted(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._step()
            yield item

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        first = int(hasattr(function, "jinja_pass_arg"))

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._step()
            bounded([*args[first:], *kwargs.values()])
            if name in _GROWTHS:
                _check_size(_GROWTHS[name](*args[first:], **kwargs))
            result = function(*args, **kwargs)
            if isinstance(result, Iterator):
                result = list(cast(Iterator[object], result))
            return bounded(result)

        return guarded


class GenerationTag(Extension):
    """`{% generation %}`, by which templates mark an assistant's text: the body as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the statements between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _OpaqueNamespace(Namespace):
    """A namespace whose print does not go into what it holds."""

    def __repr__(self) -> str:
        return "<namespace>"


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
            size += _ITEM_SIZE * len(items)
        _check_size(size)
    return value


def joined(pieces: Iterable[object]) -> str:
    """Return the pieces' text in a row; `SecurityError` if it is longer than `MAX_SIZE`."""
    texts: list[str] = []
    size = 0
    for piece in pieces:
        texts.append(str(bounded(piece)))
        size += len(texts[-1])
        _check_size(size)
    return "".join(texts)


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise SecurityError(f"it makes a value of more than {MAX_SIZE} characters")


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    expression = cast(nodes.Expr, node)
    return nodes.Filter(expression, name, [], [], None, None, lineno=node.lineno)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and indent > _MAX_INDENT:
        raise SecurityError(f"it indents by more than {_MAX_INDENT}")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return joined(encoder.iterencode(value))


def _replace_growth(text: Any, old: Any = "", new: Any = "", count: Any = None) -> int:
    return str(text).count(str(old)) * len(str(new))


def _join_growth(left: Any, right: Any = "", attribute: Any = None, *, d: Any = "") -> int:
    return len(left) * max(len(right), len(d))


def _indent_growth(s: Any, width: Any = 4, first: Any = False, blank: Any = False) -> int:
    step = len(width) if isinstance(width, str) else int(width)
    return step * (str(s).count("\n") + 1)


def _round_growth(value: Any, precision: Any = 0, method: Any = "common") -> int:
    return abs(int(precision)) * _MAX_BITS


_GROWTHS: Final[dict[str, Callable[..., int]]] = {
    "indent": _indent_growth,
    "join": _join_growth,
    "replace": _replace_growth,
    "round": _round_growth,
}
"""About how many characters a filter or method adds to its arguments."""


def _check_sum(left: object, right: object) -> None:
    if isinstance(left, Collection) and isinstance(right, Collection):
        _check_size(len(cast(Collection[object], left)) + len(cast(Collection[object], right)))


def _check_product(left: object, right: object) -> None:
    for times, other in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(other, Collection):
            _check_size(times * len(cast(Collection[object], other)))
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


_OPERATOR_CHECKS: Final[dict[str, Callable[[object, object], None]]] = {
    "+": _check_sum,
    "*": _check_product,
    "**": _check_power,
    "%": _check_remainder,
}
