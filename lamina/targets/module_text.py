"""The text of a module as a section of an artifact."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from lamina.dialects.text import parse_module
from lamina.targets.known import KNOWN


class ModuleText(bytes):
    """A module's text that still has the module, so that whoever made it need not read it."""

    module: ModuleOp

    @classmethod
    def of(cls, module: ModuleOp) -> Self:
        """Return the text of a module that nobody changes from now on."""
        text = cls(str(module).encode())
        text.module = module
        return text


def module_of(text: bytes, name: str) -> ModuleOp:
    """Return the module of a text; FormatError says where in `name` the text is wrong."""
    if isinstance(text, ModuleText):
        return text.module
    return parse_module(KNOWN.context(), text.decode(), name)


def part_of(module: ModuleOp, names: frozenset[str]) -> bytes:
    """Return the text of a module of the symbols `names` alone, empty if there are none."""
    kept = [op.clone() for op in module.ops if _symbol(op) in names]
    return ModuleText.of(ModuleOp(kept)) if kept else b""


def _symbol(op: Operation) -> str | None:
    name = op.get_attr_or_prop("sym_name")
    return getattr(name, "data", None)
