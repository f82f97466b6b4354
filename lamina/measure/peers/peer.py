"""Which peers there are, what they can run, and one that is running."""

import importlib.util
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lamina import knobs
from lamina.errors import InputError
from lamina.frontend.model import Model
from lamina.measure.peers.process import Answering, answering, has_module

_GGUF: Final = b"GGUF"


@dataclass(frozen=True)
class PeerKind:
    """A runtime: the module that it is, the script that runs it, and what it takes.

    `takes` says what in words, and `accepts` whether that is so of a file; `script` is None for a
    runtime that takes no file that Lamina reads.
    """

    module: str
    takes: str
    accepts: Callable[[Path], bool] = lambda path: False
    script: str | None = None


def _is_gguf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_GGUF)) == _GGUF


PEERS: Final[dict[str, PeerKind]] = {
    "llama.cpp": PeerKind("llama_cpp", "GGUF files", _is_gguf, "llama_cpp_peer.py"),
    "onnxruntime": PeerKind("onnxruntime", "ONNX files"),
    "openvino": PeerKind("openvino", "ONNX files and its own"),
    "torch": PeerKind("torch", "modules that are written in Python, and no file alone"),
}
"""Every peer by its name."""


def check_peers(names: Sequence[str], model: Model, python: str | None) -> None:
    """Raise `InputError` for a peer that is unknown, missing, or cannot run this model.

    `python` is the interpreter that is to have the peers, by default this one.
    """
    for name in names:
        if name not in PEERS:
            raise InputError(f"--vs {name}: expected some of {', '.join(PEERS)}")
        kind = PEERS[name]
        if kind.script is None or model.source is None or not kind.accepts(model.source):
            where = model.source.name if model.source is not None else "this model"
            raise InputError(f"--vs {name}: takes {kind.takes}, and cannot run {where}")
        if not _has(kind.module, python):
            raise InputError(
                f"--vs {name}: {python or 'this interpreter'} has no module {kind.module}: install "
                "it there, or name another interpreter by --peer-python"
            )


def _has(module: str, python: str | None) -> bool:
    if python is None:
        return importlib.util.find_spec(module) is not None
    return has_module(module, python)


class Peer:
    """A peer with the model loaded; `build` is what it says of itself."""

    def __init__(self, process: Answering) -> None:
        """Wait for the process to have loaded the model; `LaminaError` if it ends."""
        self.name, self._process = process.name, process
        self.build = str(process.answer()["build"])

    def run(self, prompt: Sequence[int], tokens: int, *, again: bool = False) -> list[float]:
        """Return the seconds of the prompt, and of `tokens` tokens one by one after it.

        `again` spares it reading the prompt that it read last.
        """
        answer = self._process.ask({"prompt": list(prompt), "tokens": tokens, "again": again})
        return [float(seconds) for seconds in answer["seconds"]]


@contextmanager
def running(
    name: str, model: Path, threads: int, context: int, python: str | None = None
) -> Generator[Peer]:
    """Run a peer with `threads` threads and room for `context` tokens until the block is left."""
    script = PEERS[name].script
    assert script is not None
    place = Path(__file__).with_name(script)
    command = [python or sys.executable, str(place), str(model)]
    command += ["--threads", str(threads), "--context", str(context)]
    with answering(name, command, knobs.unpinned()) as process:
        yield Peer(process)
