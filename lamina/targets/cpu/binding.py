"""LLVM through llvmlite, without the builder of IR that its binding brings along.

`llvmlite.binding` imports `llvmlite.ir` for one method, `TypeRef.as_ir`. A start from compiled
code builds no IR, so stand-ins take the place of that method's classes; they turn into the
classes when they are used, by whomever.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_BUILDER: Final = "llvmlite.ir"


class _StandIn:
    """A class of the builder, imported when anything of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(getattr(import_module(_BUILDER), self._name), attribute)


class _StandIns(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name)


@contextmanager
def _without_builder() -> Generator[None]:
    if _BUILDER in sys.modules or "llvmlite.binding" in sys.modules:
        yield
        return
    sys.modules[_BUILDER] = _StandIns(_BUILDER)
    try:
        yield
    finally:
        del sys.modules[_BUILDER]


with _without_builder():
    import llvmlite.binding as llvm

__all__ = ["llvm"]
