import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lamina
from lamina.cli.app import COMMANDS

Command = Callable[..., tuple[int, str, str]]
NAMES = [each.__name__ for each in COMMANDS]
LISTS = ["plugins", "targets", "passes", "ops", "fetch"]


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version") == (0, f"lamina {lamina.__version__}\n", "")


@pytest.mark.parametrize("name", NAMES)
def test_help_lists_every_command(command: Command, name: str) -> None:
    code, out, _ = command("--help")
    assert code == 0
    assert f" {name} " in out


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_and_shows_tracebacks_when_asked(
    command: Command, name: str
) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert f"lamina {name}" in out
    assert "--debug" in out


@pytest.mark.parametrize("name", LISTS)
def test_a_listing_prints_one_json_object(command: Command, name: str) -> None:
    code, out, err = command(name, "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert isinstance(json.loads(out), dict)


@pytest.mark.parametrize("name", ["targets", "passes", "ops", "fetch"])
def test_a_listing_for_people_has_one_line_for_each_row(command: Command, name: str) -> None:
    _, out, _ = command(name)
    _, rows, _ = command(name, "--json")
    assert len(out.splitlines()) == 1 + sum(map(len, json.loads(rows).values()))


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["generate"], ["ops", "--nonsense"], ["run", "m", "--threads", "0"]]
)
def test_wrong_usage_ends_with_two(command: Command, arguments: list[str]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ops", "nope"], "there is no dialect 'nope'"),
        (["ops", "nn.sofmax"], "there is no operation 'nn.sofmax' (did you mean nn.softmax"),
        (["passes", "fuse-atention"], "there is no pass 'fuse-atention' (did you mean fuse-atten"),
        (["targets", "nope"], "there is no target 'nope'"),
        (["targets", "cpu{x=1}"], "the target cpu has no option 'x'"),
        (["targets", "cpu{activations=int4}"], "option activations: expected auto or f32, got"),
        (["targets", "cpu{kv=int4}"], "option kv: expected auto or"),
        (["fetch", "nope"], "there is no model 'nope' to fetch"),
        (["generate", "nope.gguf", "-p", "Hello"], "there is no model at nope.gguf"),
        (["inspect", "nope.gguf"], "there is no model at nope.gguf"),
        (["run", "nope.gguf"], "there is no model at nope.gguf"),
        (["opt", "nope.mlir"], "nope.mlir: No such file or directory"),
        (["opt", "-p", "nope"], "there is no pass 'nope'"),
        (["run", "m", "--input", "x"], "--input x: expected NAME=FILE.npy"),
        (["run", "m", "--dim", "T=x"], "--dim T=x: expected NAME=N"),
    ],
)
def test_a_users_error_is_one_sentence(
    command: Command, arguments: list[str], message: str
) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_target_is_told_whole(command: Command) -> None:
    _, out, _ = command("targets", "cpu{activations=f32}", "--json")
    found = json.loads(out)
    assert found["spec"] == 'cpu{activations="f32"}'
    assert {"name": "activations", "type": "str", "value": "f32", "default": "auto"} in found[
        "options"
    ]
    assert found["passes"][-1] == "decompose-math"
    assert "tile.dot" in found["accepts"]


def test_an_operation_is_told_whole(command: Command) -> None:
    _, out, _ = command("ops", "nn.softmax", "--json")
    found = json.loads(out)
    assert (found["operands"], found["results"], found["attributes"]) == (["x"], ["y"], ["axis"])
    assert found["declared"] == "lamina.dialects.nn:SoftmaxOp"
    assert found["numpy"].startswith("lamina.targets.reference.")
    assert found["decomposition"].startswith("lamina.passes.composites.")


@pytest.mark.parametrize(
    "arguments", [["targets", "cpu"], ["ops", "tile.dot"], ["passes", "plan-memory"]]
)
def test_a_single_thing_is_told_in_words(command: Command, arguments: list[str]) -> None:
    code, out, err = command(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"{arguments[1]}, by builtin")


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_examples(command: Command, name: str) -> None:
    _, out, _ = command(name, "--help")
    examples = out.split("Examples:")[1]
    assert f"lamina {name}" in examples


def test_text_that_is_no_module_is_answered_with_the_place(
    command: Command, tmp_path: Path
) -> None:
    (path := tmp_path / "bad.mlir").write_text("%x = arith.constant 1.0 : f32\narith.negf f32\n")
    code, _, err = command("opt", path)
    assert code == 1
    assert f"error: {path}:2:12: operand expected" in err


def test_a_file_that_is_no_text_is_named(command: Command, tmp_path: Path) -> None:
    (path := tmp_path / "bad.mlir").write_bytes(b"\xff\x00")
    code, _, err = command("opt", path)
    assert code == 1
    assert f"error: {path}: is not UTF-8 text" in err


def test_a_module_that_does_not_verify_is_answered_with_the_operation(
    command: Command, tmp_path: Path
) -> None:
    (path := tmp_path / "bad.mlir").write_text('%x = "arith.addf"() : () -> f32\n')
    code, _, err = command("opt", path)
    assert code == 1
    assert f"error: {path}: arith.addf (%x) does not verify: Expected 2 operands" in err


def test_an_array_file_with_code_in_it_is_refused(command: Command, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "x.npy", np.array([{}], dtype=object))
    code, _, err = command("run", "m", "--input", f"x={tmp_path / 'x.npy'}")
    assert code == 1
    assert "x.npy is not a .npy file" in err


def test_an_archive_of_arrays_is_refused(command: Command, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "x.npz", a=np.zeros(1), b=np.zeros(1))
    code, _, err = command("run", "m", "--input", f"x={tmp_path / 'x.npz'}")
    assert code == 1
    assert "x.npz is not a .npy file" in err


def test_debug_shows_the_traceback(command: Command) -> None:
    with pytest.raises(lamina.InputError, match="no dialect"):
        command("ops", "nope", "--debug")


def test_control_characters_do_not_reach_the_terminal(command: Command) -> None:
    code, _, err = command("inspect", "\x1b[31mred")
    assert code == 1
    assert "\x1b" not in err
    assert "\\x1b[31mred" in err


def test_a_closed_pipe_is_no_traceback() -> None:
    line = f"{sys.executable} -m lamina ops --json | true"
    done = subprocess.run(line, shell=True, capture_output=True, check=False, text=True)
    assert "Traceback" not in done.stderr


def test_help_does_not_import_the_compiler() -> None:
    code = (
        "import sys; from lamina.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'xdsl', 'numpy', 'llvmlite', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.endswith("\n[]\n")


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, lamina; print(sorted(m for m in sys.modules if m.startswith('lamina')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "['lamina', 'lamina.errors']\n"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="'lamina' has no attribute 'nope'"):
        _ = lamina.nope


INTERRUPTS = {
    "while the commands are read": (
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())"
    ),
    "while a command runs": (
        "from lamina.plugins import manager\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "manager.offers = stop"
    ),
}


@pytest.mark.parametrize("when", INTERRUPTS)
def test_an_interrupt_ends_quietly(when: str) -> None:
    code = f"import sys\n{INTERRUPTS[when]}\nfrom lamina.cli import main; main(['targets'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_warning_is_one_sentence() -> None:
    code = (
        "import warnings\n"
        "from lamina.cli import main\n"
        "from lamina.plugins import manager\n"
        "offers = manager.offers\n"
        "manager.offers = lambda hook: warnings.warn('slow') or offers(hook)\n"
        "main(['targets'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr == "warning: slow\n"
