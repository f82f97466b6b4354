"""The environment variables Lamina reads, all of them, and the cache folder they lead to."""

import os
import stat
import tempfile
import warnings
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lamina.errors import InputError


@dataclass(frozen=True)
class Knob:
    """An environment variable: its name, what holds when it is unset, and what it does."""

    name: str
    default: str
    effect: str


CACHE: Final = Knob(
    "LAMINA_CACHE",
    "$XDG_CACHE_HOME/lamina, else ~/.cache/lamina",
    "the folder for fetched models, compiled artifacts, packed weights, measured schedules and "
    "failure bundles",
)
DISK_CACHE: Final = Knob(
    "LAMINA_DISK_CACHE", "on", "off: compiled artifacts and packed weights are not kept on disk"
)
HUGE_PAGES: Final = Knob(
    "LAMINA_HUGE_PAGES",
    "auto",
    "on: packed weights kept on disk are read into huge pages, faster to run from; off: they are "
    "mapped, and shared by processes; auto: weights in the cache folder are read where they take "
    "no more than a quarter of the memory and the system has huge pages, all else is mapped",
)
ONNX_TARGET: Final = Knob(
    "LAMINA_ONNX_TARGET", "cpu", "the target that `lamina.onnx_backend` compiles for"
)
PLUGINS: Final = Knob(
    "LAMINA_PLUGINS", "on", "off: installed plugins are not loaded, only what is in the box"
)

_PINS: Final = ("OPENBLAS_", "GOTO_", "ONEDNN_", "DNNL_", "MKL_", "ATEN_", "OMP_", "GOMP_", "KMP_")

KNOBS: Final = (CACHE, DISK_CACHE, HUGE_PAGES, ONNX_TARGET, PLUGINS)
"""Every knob; `docs/knobs.md` is their table."""


def given(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the knobs that are set, by name."""
    return {knob.name: environ[knob.name] for knob in KNOBS if knob.name in environ}


def unpinned(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment without what pins the kernels or threads of other libraries."""
    return {name: value for name, value in environ.items() if not name.startswith(_PINS)}


def onnx_target(environ: Mapping[str, str] = os.environ) -> str:
    """Return the spec of the target that ONNX's conformance runs compile for."""
    return environ.get(ONNX_TARGET.name, ONNX_TARGET.default)


def plugins_enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether installed plugins are loaded; `InputError` unless on or off."""
    return _switch(PLUGINS, environ)


def disk_cache_enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether compiled results are kept on disk; `InputError` unless on or off."""
    return _switch(DISK_CACHE, environ)


def huge_pages_enabled(environ: Mapping[str, str] = os.environ) -> bool | None:
    """Return whether packed weights are read into huge pages, None for auto.

    `InputError` unless on, off or auto.
    """
    value = _choice(HUGE_PAGES, environ, ("on", "off", "auto"))
    return None if value == "auto" else value == "on"


def kept_dir(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the cache folder for compiled results, None if nothing is to be kept on disk.

    Where the folder cannot be made, that is a warning; `InputError` if it is not ours.
    """
    if not disk_cache_enabled(environ):
        return None
    folder = _cache_path(environ)
    try:
        return cache_dir(environ)
    except InputError as error:
        if os.path.lexists(folder):
            raise
        # Told from here, and so once, whoever asks.
        warnings.warn(f"{error}; nothing is kept", stacklevel=1)
        return None


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder, made with mode 0700 if absent; `InputError` if it is not ours.

    Code is run from this folder, so a link, a file, another user's folder and a folder that
    others may write to are all refused.
    """
    folder = _cache_path(environ)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except FileExistsError:
        raise InputError(_refusal(folder, "is not a folder")) from None
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
        raise InputError(_refusal(folder, reason)) from None
    if stat.S_ISLNK(status.st_mode):
        raise InputError(_refusal(folder, "is a link"))
    if status.st_uid != os.geteuid():
        raise InputError(_refusal(folder, f"belongs to user {status.st_uid}, not to you"))
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        raise InputError(_refusal(folder, f"can be written by others (mode {mode:04o})"))
    return folder


def _cache_path(environ: Mapping[str, str]) -> Path:
    if chosen := environ.get(CACHE.name):
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path in the variable is to be ignored.
    home = Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()
    return home / "lamina"


def _refusal(folder: Path, reason: str) -> str:
    return f"the cache folder {folder} {reason}: point {CACHE.name} at a private folder of yours"


def _switch(knob: Knob, environ: Mapping[str, str]) -> bool:
    return _choice(knob, environ, ("on", "off")) == "on"


def _choice(knob: Knob, environ: Mapping[str, str], choices: tuple[str, ...]) -> str:
    value = environ.get(knob.name, knob.default)
    if value not in choices:
        raise InputError(f"{knob.name} is {value!r}: expected {' or '.join(choices)}")
    return value


def name_runtime_folder(environ: MutableMapping[str, str] = os.environ) -> None:
    """Name a folder for sockets where nobody does: drivers for graphics complain of it otherwise.

    Nothing is put there.
    """
    environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
