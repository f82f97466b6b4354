"""Programs built by the system's C++ compiler, and kept in the cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final
from weakref import finalize

from lamina import knobs
from lamina.testing.msl.errors import MslError
from lamina.testing.msl.program import FILE, named_vectors

_HERE: Final = Path(__file__).parent
_SHIM: Final = _HERE / "shim"
_MACHINE: Final = _HERE / "machine"
_FLAGS: Final = (
    "-std=c++17 -w -g1 -march=native -fno-omit-frame-pointer -fno-pie -fno-exceptions -fno-rtti "
    "-fsigned-char -fwrapv -ffp-contract=off -U_FORTIFY_SOURCE"
).split()
# Calls before each access, which the machine answers: the compiler's own libraries stay out.
_WATCHED: Final = (
    "-O1 -fsingle-precision-constant -fno-threadsafe-statics -fmax-errors=5 "
    "-fsanitize=thread --param tsan-instrument-func-entry-exit=0 "
    "-fsanitize=alignment,bounds -fno-sanitize-recover=all"
).split()
_ERROR: Final = re.compile(
    rf"^{re.escape(FILE)}:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE
)
_SECONDS: Final = 120
_MOST_KEPT: Final = {"*.run": 64, "*.o": 4}


def build(text: str) -> Path:
    """Return the executable of a program's C++ text, built unless it was before.

    `MslError` gives the compiler's first complaint, or the Debian package that is missing.
    """
    compiler = _compiler()
    key = sha256("\0".join((_fingerprint(compiler), text)).encode()).hexdigest()
    folder = _folder()
    path = folder / f"{key}.run"
    if path.exists():
        os.utime(path)
        return path
    machine = _machine(compiler, folder)
    with TemporaryDirectory(dir=folder) as made:
        source, program = Path(made) / "program.cpp", Path(made) / "program"
        source.write_text(text, encoding="utf-8")
        (Path(made) / "named.h").write_text(named_vectors(), encoding="utf-8")
        paths = ("-iquote", str(_SHIM), "-iquote", made)
        object_file = str(Path(made) / "program.o")
        _call([compiler, *_FLAGS, *_WATCHED, *paths, "-c", str(source), "-o", object_file])
        _call([compiler, "-no-pie", object_file, str(machine), "-o", str(program)])
        os.replace(program, path)
    _forget_oldest(folder)
    return path


def source_line(program: Path, codes: Iterable[str]) -> int | None:
    """Return the first line of the Metal text that the code at an address comes from, if any."""
    addresses = [int(code, 16) for code in codes if code.startswith("0x")]
    if not (tool := shutil.which("addr2line")) or not addresses:
        return None
    # An address is that after a call.
    command = [tool, "-i", "-e", str(program), *(hex(address - 1) for address in addresses)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    line = re.search(rf"{re.escape(FILE)}:(\d+)", told.stdout)
    return int(line[1]) if line else None


def _machine(compiler: str, folder: Path) -> Path:
    path = folder / f"{sha256(_fingerprint(compiler).encode()).hexdigest()}.o"
    if path.exists():
        return path
    with TemporaryDirectory(dir=folder) as made:
        # One unit: the system's headers are read once.
        source = "".join(f'#include "{each}"\n' for each in sorted(_MACHINE.glob("*.cpp")))
        unit, result = Path(made) / "machine.cpp", Path(made) / "machine.o"
        unit.write_text(source, encoding="utf-8")
        _call([compiler, *_FLAGS, "-O2", "-c", str(unit), "-o", str(result)])
        os.replace(result, path)
    return path


def _call(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            # In the words that are looked for here, whatever language the user has.
            ["env", "LC_ALL=C", *command],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MslError(
            f"the C++ compiler took longer than {_SECONDS} s: the text is too large"
        ) from None
    if not done.returncode:
        return
    if complaint := _ERROR.search(done.stderr):
        raise MslError(f"the Metal text does not compile: line {complaint[1]}: {complaint[2]}")
    told = done.stderr.strip().splitlines() or ["it said nothing"]
    wrong = next((line for line in told if "error" in line), told[-1])
    raise MslError(f"the C++ compiler failed: {wrong}")


def _compiler() -> str:
    if sys.platform != "linux":
        raise MslError("Metal kernels are run by way of g++ on Linux only")
    if path := shutil.which("g++"):
        return os.path.realpath(path)
    raise MslError(
        "Metal kernels are run by way of g++, which is missing: install the Debian package g++"
    )


@cache
def _fingerprint(compiler: str) -> str:
    """What an executable depends on beside the program's own text."""
    status = os.stat(compiler)
    parts = [compiler, str(status.st_size), str(status.st_mtime_ns), *_FLAGS, *_WATCHED]
    parts += [each.read_text() for each in sorted((*_SHIM.iterdir(), *_MACHINE.iterdir()))]
    parts.append(named_vectors())
    cpu = Path("/proc/cpuinfo")
    flags = re.search(
        r"^(flags|Features)\s*:.*$", cpu.read_text() if cpu.exists() else "", re.MULTILINE
    )
    return "\0".join((*parts, flags[0] if flags else ""))


def _folder() -> Path:
    if not (kept := knobs.kept_dir()):
        return _passing_folder()
    folder = kept / "msl"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@cache
def _passing_folder() -> Path:
    folder = Path(mkdtemp(prefix="lamina-msl-"))
    finalize(_passing_folder, shutil.rmtree, folder, ignore_errors=True)
    return folder


def _forget_oldest(folder: Path) -> None:
    for kind, most in _MOST_KEPT.items():
        # Another process may forget at the same time.
        with suppress(OSError):
            kept = sorted(folder.glob(kind), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[most:]:
                path.unlink(missing_ok=True)
