"""From LLVM IR text to addresses: compiling and loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from lamina.errors import LoweringError
from lamina.targets.cpu.binding import llvm
from lamina.targets.cpu.codegen import assembly, compile_text, initialise, optimised

if TYPE_CHECKING:
    from llvmlite.binding import LLJIT, ResourceTracker

__all__ = ["LoadedCode", "assembly", "compile_text", "load_object", "load_objects", "optimised"]


def load_object(code: bytes, names: Sequence[str], *, libc: bool = False) -> LoadedCode:
    """Return loaded object code, and in it the address of each name; `libc` lets it call out."""
    return load_objects([code], names, libc=libc)


def load_objects(codes: Sequence[bytes], names: Sequence[str], *, libc: bool = False) -> LoadedCode:
    """Return several pieces of object code loaded together, and the address of each name.

    LLVM keeps some memory of every library for good: what is used together is to be one.
    LoweringError if LLVM refuses a piece, or there is no memory for it.
    """
    builder = llvm.JITLibraryBuilder()
    for code in codes:
        builder = builder.add_object_img(code)
    if libc:
        builder = builder.add_current_process()
    for name in names:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_linker(), f"lamina{next(_libraries)}")
    except RuntimeError as error:
        raise LoweringError(f"LLVM cannot load compiled code: {error}") from error
    return LoadedCode(tracker, names)


class LoadedCode:
    """Object code in memory; it stays there as long as this object does."""

    def __init__(self, tracker: ResourceTracker, names: Sequence[str]) -> None:
        self._tracker = tracker
        self.addresses: Mapping[str, int] = {name: tracker[name] for name in names}


_libraries = count()


@cache
def _linker() -> LLJIT:
    initialise()
    # The other linker maps code and constants apart, and ends the process where more than 2 GiB of
    # addresses lie between them; this one maps each object as one piece.
    return llvm.create_lljit_compiler(use_jit_link=True)
