"""A model's chat template: its own program that writes messages as one text."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NoReturn, TypeAlias, cast

from jinja2.environment import Template
from jinja2.exceptions import SecurityError, TemplateSyntaxError

from lamina.errors import FormatError, InputError
from lamina.frontend.template_bounds import joined
from lamina.frontend.template_sandbox import TemplateSandbox
from lamina.own_lock import OwnLock

Message: TypeAlias = Mapping[str, object]
"""A chat message: `role` and `content`, and what else a template knows; JSON-like values."""

_MAX_SOURCE: Final = 1 << 17
_MAX_DEPTH: Final = 32
_ROLE: Final = re.compile(r"[A-Za-z0-9_. -]{1,64}")
_DATE_FORMAT: Final = re.compile(r"(?:[^%]|%[-_^#]?[A-Za-z%]){0,100}")


class ChatTemplate(OwnLock):
    """A Jinja template, compiled when first needed and run in a sandbox.

    It sees what Hugging Face's `apply_chat_template` gives: `messages`, `tools` (None),
    `add_generation_prompt`, `bos_token`, `eos_token`, `raise_exception` and `strftime_now`.
    """

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "") -> None:
        """Take a template and the tokens it may write; nothing is compiled yet."""
        super().__init__()
        self._source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._sandbox = TemplateSandbox()
        self._template: Template | None = None

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """Return the messages as text, ending where an assistant's answer begins if so asked.

        Raises `InputError` for messages that are malformed or that the template refuses, and
        `FormatError` for a template with bad syntax, unsafe access, or no end in sight.
        """
        checked = plain_messages(messages)
        with self._lock:
            if self._template is None:
                self._template = self._compiled()
            self._sandbox.restart()
            try:
                return self._run(self._template, checked, add_generation_prompt)
            except InputError:
                raise
            except (SecurityError, OverflowError, RecursionError, MemoryError) as error:
                raise FormatError(f"the chat template may not run: {_short(error)}") from None
            except Exception as error:  # A template is a program: it may fail in any way.
                reason = f"{type(error).__name__}: {_short(error)}"
                raise InputError(f"the chat template fails on these messages: {reason}") from None

    def _compiled(self) -> Template:
        if len(self._source) > _MAX_SOURCE:
            raise FormatError(f"the chat template is longer than {_MAX_SOURCE} characters")
        try:
            return self._sandbox.template(self._source)
        except TemplateSyntaxError as error:
            reason = f"line {error.lineno}: {_short(error.message)}"
        except Exception as error:
            reason = _short(error)
        raise FormatError(f"the chat template cannot be compiled: {reason}")

    def _run(
        self, template: Template, messages: list[dict[str, object]], add_generation_prompt: bool
    ) -> str:
        pieces = template.generate(
            **self._tokens,
            messages=messages,
            tools=None,
            add_generation_prompt=add_generation_prompt,
            raise_exception=_raise_exception,
            strftime_now=_strftime_now,
        )
        return joined(pieces)


def plain_messages(messages: object) -> list[dict[str, object]]:
    """Return a copy made of dicts, lists, strings, numbers, booleans and None alone.

    Raises `InputError`, naming the message, unless each has a `role` of letters, digits, blanks,
    `_`, `.` and `-`, and a `content` that is a string, a list of parts, or None.
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        kind = type(cast(object, messages)).__name__
        raise InputError(f"messages are a {kind}: expected a list of messages")
    listed = cast(Sequence[object], messages)
    return [_plain_message(n, message) for n, message in enumerate(listed)]


def _plain_message(n: int, message: object) -> dict[str, object]:
    plain = _plain(message, f"message {n}", _MAX_DEPTH)
    if not isinstance(plain, dict):
        raise InputError(f"message {n} is a {type(message).__name__}: expected a dict")
    fields = cast(dict[str, object], plain)
    role = fields.get("role")
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InputError(f"message {n} has the role {role!r}: expected a word such as 'user'")
    if "content" not in fields and "tool_calls" not in fields:
        raise InputError(f"message {n} has no content")
    if not isinstance(fields.get("content"), str | list | None):
        raise InputError(f"message {n} has a content that is neither text nor a list of parts")
    return fields


def _plain(value: object, where: str, depth: int) -> object:
    if depth == 0:
        raise InputError(f"{where} is nested more than {_MAX_DEPTH} deep")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        items = cast(Mapping[object, object], value).items()
        if any(not isinstance(key, str) for key, _ in items):
            raise InputError(f"{where} has a key that is not a string")
        return {key: _plain(item, where, depth - 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_plain(item, where, depth - 1) for item in cast(Sequence[object], value)]
    raise InputError(f"{where} holds a {type(value).__name__}: expected JSON-like values")


def _raise_exception(message: object) -> NoReturn:
    raise InputError(f"the chat template refuses the messages: {_short(message)}")


def _strftime_now(form: str) -> str:
    if not _DATE_FORMAT.fullmatch(form):
        raise SecurityError(f"it writes the date as {form[:100]!r}")
    return datetime.now().strftime(form)


def _short(reason: object) -> str:
    return " ".join(str(reason).split())[:300].rstrip(".")
