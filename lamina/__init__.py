"""An inference compiler: model files in, native code out, readable IR in between."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lamina.errors import (
    FormatError,
    InputError,
    LaminaError,
    LoweringError,
    TargetUnavailable,
    UnsupportedError,
)

if TYPE_CHECKING:
    from lamina.compiler import compile, read
    from lamina.runtime.llm import LLM

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "FormatError",
    "InputError",
    "LaminaError",
    "LoweringError",
    "TargetUnavailable",
    "UnsupportedError",
    "compile",
    "read",
]

_HOMES: Final = {
    "LLM": "lamina.runtime.llm",
    "compile": "lamina.compiler",
    "read": "lamina.compiler",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
