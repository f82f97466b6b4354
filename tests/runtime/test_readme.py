"""The tour of the README, command by command, with a tiny model in SmolLM2's place."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, ValueInfoProto, helper

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
SHELL = [line for kind, block in BLOCKS[1:] if kind == "sh" for line in block.splitlines()]
PYTHON = [block for kind, block in BLOCKS if kind == "python"]

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(bytewise_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in, as a clone is: with the examples, and `smollm2` in it."""
    path = tmp_path_factory.mktemp("tour")
    (path / "examples").symlink_to(ROOT / "examples")
    (path / "smollm2").symlink_to(bytewise_llama)
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "graph", [rows], [ValueInfoProto(name="y")])
    onnx.save(helper.make_model(graph), path / "model.onnx")
    return path


def words(line: str, folder: Path) -> list[str]:
    """The words of a command line as a shell gives them."""
    found: list[str] = []
    for word in shlex.split(line, comments=True):
        matches = sorted(folder.glob(word)) if "*" in word else []
        assert len(matches) == ("*" in word), f"{word} names {len(matches)} files"
        found += [each.relative_to(folder).as_posix() for each in matches] or [word]
    return found


def test_the_commands_of_the_tour_work_one_after_another(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for line in SHELL:
        tool, *arguments = words(line, folder)
        if tool == "lamina":
            code, out, err = command(*arguments)
            assert code == 0, f"{line}: {err}"
            assert out or "-o" in arguments, line
        else:
            assert tool in {"cat", "."}, line


@pytest.mark.parametrize("block", PYTHON)
def test_the_tours_python_works(
    block: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(block, "README.md", "exec"), {})
    assert "0.015625" in capsys.readouterr().out
