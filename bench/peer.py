"""Other libraries as a side of a benchmark: a process under an interpreter of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lamina import knobs
from lamina.errors import LaminaError
from lamina.measure.peers.process import Answering, answering

MASKS = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}
"""What restricts peers to a feature level."""

MEMORY = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"
    ":glibc.malloc.trim_threshold=17179869184"
}
"""Lets a peer keep its memory from call to call, on huge pages, as Lamina does."""


class Peer:
    """A process that has jobs by name."""

    def __init__(self, process: Answering, folder: Path) -> None:
        self._process, self._folder = process, folder
        self.greeting: dict[str, str] = process.answer()

    def prepare(self, kind: str, name: str, **job: Any) -> None:
        """Have a job made, in the place of one of the same name."""
        self._process.ask({"prepare": kind, "name": name, **job})

    def seconds(self, name: str) -> list[float]:
        """Return the seconds of a job's parts, averaged over a turn."""
        return self._process.ask({"time": name})["seconds"]

    def result(self, name: str) -> "np.ndarray[Any, Any]":
        """Return what a job computes."""
        path = self._folder / "result.npy"
        self._process.ask({"save": name, "path": str(path)})
        return np.load(path)


def environment(level: str | None) -> dict[str, str]:
    """Return the variables of a peer: nothing pins its kernels, but for those of a `level`."""
    return knobs.unpinned() | MEMORY | (MASKS[level] if level else {})


def restrictions(level: str | None, python: str | None) -> str:
    """Return what is said of the peers of a run; SystemExit if they know no such level."""
    if level is None or python is None:
        return ""
    if level not in MASKS:
        known = ", ".join(MASKS)
        raise SystemExit(f"peers cannot be restricted to {level}: choose {known}, or no peer")
    return ", peers with " + " ".join(f"{name}={value}" for name, value in MASKS[level].items())


@contextmanager
def peer(python: str | None, script: str, threads: int, level: str | None) -> Iterator[Peer | None]:
    """Start a script of this folder under the interpreter `python`; without one, None.

    `level` restricts it to a feature level, None to nothing.
    """
    if python is None:
        yield None
        return
    command = [python, str(Path(__file__).with_name(script)), "--threads", str(threads)]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            answering("the peer", command, environment(level)) as process,
        ):
            yield Peer(process, Path(folder))
    except LaminaError as error:
        raise SystemExit(str(error)) from None
