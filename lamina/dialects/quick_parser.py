"""xDSL's parser, remembering the types that it has read: modules repeat a few very often.

Types larger than any memory are refused where they stand, so that no later step has to count so
far.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType, VectorType
from xdsl.ir import TypeAttribute
from xdsl.parser import Parser, ParserState
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

_KEY: Final = 8
"""How many characters of a type's text find those that it may be equal to."""

_MOST_ELEMENTS: Final[dict[type[TypeAttribute], int]] = {
    TensorType: 2**48,
    MemRefType: 2**48,
    VectorType: 2**20,
}
"""What a type may hold of static extents: an address has 48 bits, and a vector is in registers."""

_MOST_CONSTANTS: Final = 2**20
"""The elements of a constant, since one value that stands for all is spread out."""


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
            self._check_size(type, start)
            self._known.setdefault(text[:_KEY], []).append((text, type))
        return type

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        type = super()._parse_dense_literal_type()
        if prod(type.get_shape()) > _MOST_CONSTANTS:
            self.raise_error(f"the constant has more than {_MOST_CONSTANTS} elements", start)
        return type

    def _check_size(self, type: TypeAttribute, start: int) -> None:
        most = _MOST_ELEMENTS.get(type.__class__)
        if most is None:
            return
        shape = cast("TensorType[Any]", type).get_shape()
        if prod(max(1, size) for size in shape if size != DYNAMIC_INDEX) > most:
            self.raise_error(f"the type has more than {most} elements", start, self.pos)
