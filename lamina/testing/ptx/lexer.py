"""Split PTX text into tokens, each with the line that it is on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lamina.errors import FormatError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"""
      (?P<string>"[^"\n]*")
    | (?P<number>0[fF][0-9a-fA-F]{8}(?![\w]) | 0[dD][0-9a-fA-F]{16}(?![\w])
        | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
        | \d+\.\d*(?:[eE][-+]?\d+)? | \d+U?)
    | (?P<name>[%$A-Za-z_][\w$]*(?:(?:\.|::)[\w$]+)*)
    | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
    | (?P<mark>[@!|{}()\[\],;:=+<>*-])
    | (?P<space>[ \t\r]+)
    | (?P<line>\n)
    | (?P<wrong>.)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text, its kind (string, number, name, directive, mark, end) and its line."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """Return the tokens of `text`, an `end` last. Raises `FormatError` on a stray character."""
    text = _COMMENT.sub(lambda comment: "\n" * comment.group().count("\n") or " ", text)
    found: list[Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "line":
            line += 1
        elif kind == "wrong":
            raise FormatError(f"PTX line {line}: a stray {match.group()!r}")
        elif kind != "space":
            found.append(Token(kind, match.group(), line))
    found.append(Token("end", "the end of the text", line))
    return found
