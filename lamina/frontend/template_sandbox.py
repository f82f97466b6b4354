"""Where a stranger's template runs: a Jinja sandbox with bounds on steps, time and memory."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator
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

from lamina.frontend.template_bounds import (
    GROWTHS,
    OPERATOR_CHECKS,
    bounded,
    check_size,
    items_size,
    joined,
    shallow_size,
    to_json,
)
from lamina.frontend.template_rewriting import (
    BOUNDED,
    COUNTED,
    JOINED,
    LISTED,
    MADE,
    BoundsRewriter,
)

T = TypeVar("T")

_MAX_STEPS: Final = 500_000
_STEPS_OF_A_CALL: Final = 4
_MAX_SECONDS: Final = 5.0
_MAX_MADE: Final = 1 << 26
"""Characters in all values that a render makes, whether it keeps them or not."""

_GLOBALS_LEFT_OUT: Final = ("lipsum", "cycler", "joiner")
_FILTERS_LEFT_OUT: Final = (
    "batch center filesizeformat forceescape format pprint random slice striptags truncate "
    "urlencode urlize wordcount wordwrap xmlattr"
).split()
_METHODS_LEFT_OUT: Final = frozenset(
    "center encode expandtabs format format_map ljust rjust to_bytes translate zfill".split()
)


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
        self._steps, self._left, self._deadline = 0, 0, 0.0
        self.concat = self._joined
        for name in _GLOBALS_LEFT_OUT:
            del self.globals[name]
        for name in _FILTERS_LEFT_OUT:
            del self.filters[name]
        self.globals["namespace"] = _OpaqueNamespace
        self.filters["tojson"] = to_json
        for table in (self.filters, self.tests):
            for name, function in list(table.items()):
                table[name] = self._guarded(name, function)
        self.filters |= {
            COUNTED: self._counted,
            BOUNDED: bounded,
            JOINED: self._joined,
            MADE: self._made,
            LISTED: _listed,
        }

    def template(self, source: str) -> Template:
        """Compile `source`, with all that it makes, loops over and compares made to be bounded."""
        return self.from_string(BoundsRewriter().visit(self.parse(source)))

    def restart(self) -> None:
        """Give the next render its steps, seconds and characters."""
        self._steps, self._left = _MAX_STEPS, _MAX_MADE
        self._deadline = time.monotonic() + _MAX_SECONDS

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
        if isinstance(obj, BuiltinMethodType) and obj.__name__ in GROWTHS:
            check_size(GROWTHS[obj.__name__](obj.__self__, *args, **named))
        return self._made(bounded(super().call(context, obj, *args, **kwargs)))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute on behalf of a template, which is a step."""
        self._step()
        OPERATOR_CHECKS[operator](left, right)
        return self._made(super().call_binop(context, operator, left, right))

    def _step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise SecurityError(f"it takes more than {_MAX_STEPS} steps")
        if time.monotonic() > self._deadline:
            raise SecurityError(f"it takes more than {_MAX_SECONDS:g} seconds")

    def _made(self, value: T) -> T:
        """Count a value that a template made, and return it."""
        self._left -= shallow_size(value)
        if self._left < 0:
            raise SecurityError(f"it makes more than {_MAX_MADE} characters in all")
        return value

    def _joined(self, pieces: Iterable[object]) -> str:
        return self._made(joined(pieces))

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
            if name in GROWTHS:
                check_size(GROWTHS[name](*args[first:], **kwargs))
            result = function(*args, **kwargs)
            if isinstance(result, Iterator):
                result = list(cast(Iterator[object], result))
            return self._made(bounded(result))

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


def _listed(values: T) -> T:
    check_size(items_size(values))
    return bounded(values)
