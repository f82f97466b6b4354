"""Streams that are closed or full, files that cannot be written, and paths that say nothing."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.errors import InputError
from lamina.writing import writing

Command = Callable[..., tuple[int, str, str]]

ROWS = 'tensor<?x4xf32, #nn.dims<["N"]>>'
EXP = f"""
func.func @forward(%x: {ROWS} {{lamina.input = "x"}}) -> ({ROWS} {{lamina.output = "y"}}) {{
  %y = nn.exp %x : {ROWS}
  func.return %y : {ROWS}
}}
"""
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")


def shell(line: str) -> tuple[int, str, str]:
    """Run `lamina`, with redirections, in a process of its own."""
    command = f"{shlex.quote(sys.executable)} -m lamina {line}"
    done = subprocess.run(command, shell=True, capture_output=True, check=False, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (path := tmp_path / "m.mlir").write_text(EXP, encoding="utf-8")
    return path


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", ["ops", "ops --json", "--version"])
def test_closed_streams_are_no_error(line: str, closed: str) -> None:
    assert shell(f"{line} {closed}") == (0, "", "")


def test_closed_errors_leave_results_alone(module: Path) -> None:
    code, out, _ = shell(f"run {module} --random 2>&-")
    assert code == 0
    assert out.startswith("name ")


def test_an_error_that_nobody_can_read_still_has_its_code() -> None:
    assert shell("inspect nope >&- 2>&-") == (1, "", "")


@full
@pytest.mark.parametrize("line", ["ops", "ops --json", "--version"])
def test_a_full_output_is_named(line: str) -> None:
    told = "error: standard output: No space left on device\n"
    assert shell(f"{line} > /dev/full") == (1, "", told)


@full
def test_a_full_file_is_named(command: Command, module: Path) -> None:
    code, _, err = command("opt", module, "-o", "/dev/full")
    assert code == 1
    assert err == "error: /dev/full: cannot be written: No space left on device\n"


@pytest.mark.parametrize("option", ["--output", "--dump-ir"])
def test_a_folder_that_cannot_be_made_is_named(command: Command, module: Path, option: str) -> None:
    code, _, err = command("run", module, "--random", option, module / "x")
    assert code == 1
    assert err == f"error: {module / 'x'}: cannot be written: Not a directory\n"


def test_a_file_that_cannot_be_written_whole_is_named() -> None:
    with (
        pytest.raises(InputError, match=r"^y\.npy: cannot be written: 9 requested and 2 written$"),
        writing(Path("y.npy")),
    ):
        raise OSError("9 requested and 2 written")


@pytest.mark.parametrize("name", ["run", "inspect", "opt"])
def test_an_empty_model_is_named(command: Command, name: str) -> None:
    code, _, err = command(name, "")
    assert code == 1
    assert err.startswith("error: there is no model at '': expected a path")


@pytest.mark.parametrize(
    ("name", "option"),
    [("run", "--output"), ("run", "--dump-ir"), ("opt", "--output"), ("compile", "-o")],
)
def test_an_empty_path_is_wrong_usage(
    command: Command, module: Path, name: str, option: str
) -> None:
    code, _, err = command(name, module, option, "")
    assert code == 2
    assert "expected the name of a file or folder" in err


def test_an_empty_input_file_is_named(command: Command, module: Path) -> None:
    code, _, err = command("run", module, "--input", "x=")
    assert (code, err) == (1, "error: --input x=: expected NAME=FILE.npy\n")
