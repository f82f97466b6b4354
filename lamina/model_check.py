"""Reads a model of any format, and says at once everything that keeps it from being compiled."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from lamina.arguments import checked_path, exists
from lamina.compiled.model import is_compiled
from lamina.compiler import read
from lamina.errors import FormatError, InputError, LoweringError, UnsupportedError
from lamina.frontend.examination import COMPILED, Examination, examination_of_error
from lamina.plugins import manager
from lamina.targets.signature import forward_of


def check(path: str | os.PathLike[str]) -> Examination:
    """Return everything in a model that is not supported, and how much of it is.

    A front end that has `examine(path)` says it all at once; with any other the examination ends
    at the first refusal. Raises `InputError` for what is no model.
    """
    where = checked_path(path, "path")
    if not exists(where):
        raise InputError(f"{where}: there is no such file or folder")
    if not is_compiled(where) and where.suffix != ".mlir":
        for factory in manager.frontends().values():
            frontend: Any = factory()
            if frontend.sniff(where):
                if hasattr(frontend, "examine"):
                    return frontend.examine(where)
                break
    try:
        module = read(where).module
    except (FormatError, UnsupportedError) as error:
        return examination_of_error(error)
    try:
        operations = list(forward_of(module).body.block.ops)[:-1]
    except LoweringError:
        return Examination()
    return Examination(nodes=Counter((op.name, COMPILED) for op in operations))
