"""Factories that import what they make only when they are called."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(where: str) -> Callable[[], Any]:
    """Return a factory for the object at `package.module:name`, imported when it is called."""
    module, _, name = where.partition(":")
    return lambda: getattr(import_module(module), name)
