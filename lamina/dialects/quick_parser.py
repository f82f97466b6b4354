"""xDSL's parser, remembering the types that it has read: modules repeat a few very often."""

from __future__ import annotations

import re
from typing import Final

from xdsl.context import Context
from xdsl.ir import TypeAttribute
from xdsl.parser import Parser, ParserState
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

_KEY: Final = 8
"""How many characters of a type's text find those that it may be equal to."""


class _OnceOverLexer(MLIRLexer):
    """Reads what `MLIRLexer` reads, in time that grows with the text.

    Where a string has no end, xDSL's pattern tries every way to cut it into pieces.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class QuickParser(Parser):
    """Reads what `Parser` reads; a type in brackets is parsed once, and found by its text then."""

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_OnceOverLexer(Input(text, name)))
        self._text = text
        self._known: dict[str, list[tuple[str, TypeAttribute]]] = {}

    def parse_optional_type(self) -> TypeAttribute | None:
        """Return the type that comes next, if a type does."""
        start = self.pos
        for text, type in self._known.get(self._text[start : start + _KEY], ()):
            if self._text.startswith(text, start):
                self._resume_from(start + len(text))
                return type
        type = super().parse_optional_type()
        text = self._text[start : self.pos].rstrip()
        # No other type begins with the text of one that ends by closing its own bracket.
        if type is not None and text.endswith(">"):
            self._known.setdefault(text[:_KEY], []).append((text, type))
        return type
