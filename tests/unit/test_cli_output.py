import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from lamina.cli.output import emit_json, emit_table, first_line, for_terminal, say, working
from lamina.progress import report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def somebody_looking() -> Iterator[Terminal]:
    stream = Terminal()
    with redirect_stdout(stream), redirect_stderr(stream):
        yield stream


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_a_terminal_sees_how_far_long_work_has_come() -> None:
    with somebody_looking() as terminal, working("Preparing m"):
        report("compiling kernels", 3, 7)
    assert "Preparing m: compiling kernels, 3 of 7" in terminal.getvalue()


def test_a_file_sees_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with working("Preparing m"):
        report("compiling kernels", 3, 7)
    assert capsys.readouterr() == ("", "")


def test_names_do_not_steer_the_terminal() -> None:
    with somebody_looking() as terminal:
        with working("\x1b[2Jm"):
            report("\x07", 1, 2)
        say("\x1b]0;title\x07")
        emit_table(("name",), [("\x1b[31mred",)])
    text = terminal.getvalue()
    assert all(written in text for written in ("\\x1b[2Jm", "\\x1b]0;title\\x07", "\\x1b[31mred"))
    assert not any(raw in text for raw in ("\x07", "\x1b]0;", "\x1b[31mred"))


def test_what_a_model_writes_does_not_steer_the_terminal() -> None:
    with somebody_looking():
        text = for_terminal("a\tb\n\x1b[31mred\x9b 👩‍💻")
    assert text == "a\tb\n\\x1b[31mred\\x9b 👩‍💻"


def test_a_file_gets_what_a_model_writes_as_it_is() -> None:
    assert for_terminal("\x1b[31m") == "\x1b[31m"


def test_a_heading_is_one_short_line() -> None:
    assert first_line("one\ntwo") == "one two"
    assert len(first_line("word " * 100)) <= 60


def test_a_number_that_is_not_finite_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"x": [float("nan"), 1.5], "y": {"z": float("inf")}})
    assert json.loads(capsys.readouterr().out) == {"x": [None, 1.5], "y": {"z": None}}
