"""Talking with a process that answers lines of JSON."""

import os
import sys
from contextlib import AbstractContextManager
from time import perf_counter

import pytest

from lamina.errors import InputError, LaminaError
from lamina.measure.peers.process import Answering, answering, has_module

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
ENDED = "^it ended: what it said is above$"


def python(code: str) -> AbstractContextManager[Answering]:
    return answering("it", [sys.executable, "-c", code], os.environ)


def test_a_question_is_answered() -> None:
    with python(ECHO) as process:
        assert process.ask({"tokens": 3}) == {"tokens": 3}


def test_a_process_that_ended_is_said_so() -> None:
    with pytest.raises(LaminaError, match=ENDED), python("") as process:
        process.answer()


def test_a_process_that_no_longer_listens_is_said_so() -> None:
    code = "import os, time; os.close(0); print('{}', flush=True); time.sleep(60)"
    with pytest.raises(LaminaError, match=ENDED), python(code) as process:
        process.ask(process.answer())


@pytest.mark.parametrize("said", [b"noise", b"[1]", b"", b"\xff"])
def test_what_is_no_answer_is_shown(said: bytes) -> None:
    code = f"import sys; sys.stdout.buffer.write({said!r} + b'\\n')"
    with (
        pytest.raises(LaminaError, match=r"^it answered '.*': expected a JSON object$"),
        python(code) as process,
    ):
        process.answer()


def test_an_exception_does_not_wait_for_an_answer() -> None:
    began = perf_counter()
    with pytest.raises(KeyboardInterrupt), python("import time; time.sleep(60)"):
        raise KeyboardInterrupt
    assert perf_counter() - began < 30


def test_an_interrupt_from_the_terminal_does_not_reach_the_process() -> None:
    with python("import os; print('{\"group\": %d}' % os.getpgrp())") as process:
        assert process.answer()["group"] != os.getpgrp()


def test_an_interpreter_that_cannot_be_run_is_named() -> None:
    with pytest.raises(InputError, match=r"^--peer-python /nowhere: cannot be run: No such file"):
        has_module("json", "/nowhere")
    with (
        pytest.raises(InputError, match=r"^/nowhere: cannot be run"),
        answering("it", ["/nowhere"], {}),
    ):
        pass


def test_an_interpreter_is_asked_for_its_modules() -> None:
    assert has_module("json", sys.executable)
    assert not has_module("there_is_no_such_module", sys.executable)
