"""PTX to machine code by nvJitLink, where its wheel is installed, kept in the cache folder."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from lamina import knobs
from lamina.atomic_file import write_whole
from lamina.errors import LoweringError
from lamina.targets.artifact_store import digest_of

_WHEELS: Final = ("nvidia-nvjitlink", "nvidia-nvjitlink-cu13", "nvidia-nvjitlink-cu12")
_FOLDER: Final = "cubins"
_DIGEST: Final = 32

_KERNEL: Final = re.compile(r"Compiling entry function '(\w+)'")
_FIGURES: Final[Mapping[str, re.Pattern[str]]] = {
    "registers": re.compile(r"Used (\d+) registers"),
    "spilled_bytes": re.compile(r"(\d+) bytes spill stores"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}


@dataclass(frozen=True)
class Cubin:
    """Machine code, and what the linker says of each kernel: registers, spills, shared memory."""

    code: bytes
    usage: Mapping[str, Mapping[str, int]]


def linker_version() -> str | None:
    """Return the version of nvJitLink; None where it or cuda-python is not installed."""
    try:
        version("cuda-bindings")
    except PackageNotFoundError:
        return None
    for wheel in _WHEELS:
        with suppress(PackageNotFoundError):
            return version(wheel)
    return None


def link(ptx: bytes, arch: str) -> Cubin | None:
    """Return the machine code of PTX for an architecture; None where there is no linker.

    LoweringError for PTX that it refuses.
    """
    if linker_version() is None:
        return None
    linker = _linker()
    return _linked(linker, ptx, arch) if linker is not None else None


def kept_cubin(ptx: bytes, arch: str) -> bytes | None:
    """Return machine code as `link` makes it, from the cache folder where it was made before."""
    if (maker := linker_version()) is None:
        return None
    if (folder := knobs.kept_dir()) is None:
        made = link(ptx, arch)
        return made.code if made else None
    key = digest_of([ptx, arch.encode(), maker.encode()])
    path = folder / _FOLDER / f"{key}.cubin"
    if (known := _read(path)) is not None:
        return known
    made = link(ptx, arch)
    if made is not None:
        _keep(path, made.code)
    return made.code if made else None


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
        return data[_DIGEST:]
    warnings.warn(f"{path}: is not as it was written; it is made again", stacklevel=2)
    with suppress(OSError):
        path.unlink()
    return None


def _keep(path: Path, code: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, [sha256(code).digest(), code])
    except OSError as error:
        warnings.warn(f"{path}: cannot be kept: {error.strerror}", stacklevel=2)


def _linker() -> Any:
    try:
        linker = importlib.import_module("cuda.bindings.nvjitlink")
        linker.version()
    except (ImportError, RuntimeError):
        # The wheel is there and its library is not, or is one that cuda-python does not know.
        return None
    return linker


def _linked(linker: Any, ptx: bytes, arch: str) -> Cubin:
    options = [f"-arch={arch}", "-O3", "-verbose"]
    handle = linker.create(len(options), options)
    try:
        linker.add_data(handle, linker.InputType.PTX, ptx, len(ptx), "kernels")
        linker.complete(handle)
        code = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, code)
        log = bytearray(linker.get_info_log_size(handle))
        linker.get_info_log(handle, log)
    except linker.nvJitLinkError as error:
        said = bytearray(linker.get_error_log_size(handle))
        linker.get_error_log(handle, said)
        reason = _text(said).strip() or str(error)
        raise LoweringError(f"cuda: nvJitLink refuses the PTX for {arch}: {reason}") from None
    finally:
        linker.destroy(handle)
    return Cubin(bytes(code), usage_of(_text(log)))


def usage_of(log: str) -> dict[str, dict[str, int]]:
    """Return the figures of each kernel in what the assembler says of them."""
    found: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in log.splitlines():
        if kernel := _KERNEL.search(line):
            current = found[kernel[1]] = dict.fromkeys(_FIGURES, 0)
        elif current is not None:
            for name, pattern in _FIGURES.items():
                if figure := pattern.search(line):
                    current[name] = int(figure[1])
    return found


def _text(log: bytearray) -> str:
    return log.split(b"\0")[0].decode("utf-8", "replace")
