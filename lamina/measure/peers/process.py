"""A program under an interpreter of its own that answers lines of JSON."""

import json
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from lamina.errors import InputError, LaminaError

_SHOWN: Final = 60


class Answering:
    """A process that reads one JSON object a line, and writes one for each."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        """Talk to `process`, which errors call `name`."""
        self.name, self._process = name, process

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to `question`; `LaminaError` if the process ends or says none."""
        assert self._process.stdin is not None
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._ended() from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next answer; `LaminaError` if the process ends or says none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return cast(dict[str, Any], found)
        raise LaminaError(f"{self.name} answered {line[:_SHOWN]!r}: expected a JSON object")

    def _ended(self) -> LaminaError:
        return LaminaError(f"{self.name} ended: what it said is above")


@contextmanager
def answering(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> Generator[Answering]:
    """Run `command` until the block is left; it is killed if that is by an exception.

    Raises `InputError` if it cannot be run.
    """
    # In a group of its own, it has nothing to say when Ctrl-C ends this process.
    try:
        started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment,
            process_group=0,
        )
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run: {error.strerror}") from None
    with started as process:
        try:
            yield Answering(name, process)
        except BaseException:
            process.kill()
            raise
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()


def has_module(module: str, python: str) -> bool:
    """Tell whether the interpreter `python` finds `module`; `InputError` if it cannot be run."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    try:
        done = subprocess.run([python, "-c", code, module], check=False, capture_output=True)
    except OSError as error:
        raise InputError(f"--peer-python {python}: cannot be run: {error.strerror}") from None
    return done.returncode == 0
