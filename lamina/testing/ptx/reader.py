"""Walk over the tokens of PTX text, one after another."""

from __future__ import annotations

import struct

from lamina.errors import FormatError
from lamina.testing.ptx.lexer import Token, tokens
from lamina.testing.ptx.syntax import Integer, Real


class Reader:
    """The tokens of a text, and a place among them. Every method raises `FormatError`."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or a later one, without passing it."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Pass the next token and return it."""
        token = self.peek()
        if token.kind == "end":
            raise FormatError(f"PTX line {token.line}: the text ends in the middle")
        self._at += 1
        return token

    def accept(self, text: str) -> bool:
        """Pass the next token if it is `text`; tell whether it was."""
        if self.peek().text != text:
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        """Pass `text`, which has to come."""
        token = self.peek()
        if not self.accept(text):
            raise FormatError(f"PTX line {token.line}: expected {text!r}, got {token.text!r}")

    def through(self, text: str) -> None:
        """Pass everything up to `text`, and that."""
        while self.next().text != text:
            pass

    def name(self) -> str:
        """Pass a name and return it."""
        token = self.next()
        if token.kind != "name":
            raise FormatError(f"PTX line {token.line}: expected a name, got {token.text!r}")
        return token.text

    def integer(self) -> int:
        """Pass an integer and return it."""
        token = self.peek()
        literal = self.literal()
        if not isinstance(literal, Integer):
            raise FormatError(f"PTX line {token.line}: expected an integer, got {token.text!r}")
        return literal.value

    def literal(self) -> Integer | Real:
        """Pass a number, with its sign, and return it."""
        negative = self.accept("-")
        token = self.next()
        if token.kind != "number":
            raise FormatError(f"PTX line {token.line}: expected a number, got {token.text!r}")
        text = token.text.removesuffix("U")
        if text[:2] in ("0f", "0F"):
            return Real(int(text[2:], 16) ^ negative << 31, 32)
        if text[:2] in ("0d", "0D"):
            return Real(int(text[2:], 16) ^ negative << 63, 64)
        if "." in text:
            bits = struct.unpack("<Q", struct.pack("<d", float(text)))[0]
            return Real(bits ^ negative << 63, 64)
        octal = len(text) > 1 and text.isdigit() and text[0] == "0"
        value = int(text, 8 if octal else 0)
        return Integer(-value if negative else value)
