import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from lamina.plugins import hookimpl, manager

Command = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class FoldNothingPass(ModulePass):
    """The module is as it was."""

    name = "fold-nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class FoldMarkPass(ModulePass):
    """The module has a mark."""

    name = "fold-mark"
    mark: str = "seen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["mark"] = StringAttr(self.mark)


@dataclass(frozen=True)
class FoldBadlyPass(ModulePass):
    """The module does not verify any more."""

    name = "fold-badly"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in list(op.ops)[1:]:
            each.operands = []


@dataclass(frozen=True)
class FoldNeverPass(ModulePass):
    """The pass fails."""

    name = "fold-never"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException("never")


PASSES = (FoldNothingPass, FoldMarkPass, FoldBadlyPass, FoldNeverPass)


@pytest.fixture(autouse=True)
def _plugin() -> Iterator[None]:
    plugin = SimpleNamespace(register_passes=hookimpl(offer))
    manager.manager().register(plugin, "test-opt")
    yield
    manager.manager().unregister(name="test-opt")


def offer() -> dict[str, Callable[[], type[ModulePass]]]:
    return {each.name: lambda each=each: each for each in PASSES}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text("%x = arith.constant 1.0 : f32\n%y = arith.negf %x : f32\n")
    return path


def test_a_pass_is_run_with_its_options(command: Command, module: Path) -> None:
    code, out, err = command("opt", module, "-p", 'fold-nothing,fold-mark{mark="x"}')
    assert (code, err) == (0, "")
    assert 'attributes {mark = "x"}' in out


def test_the_module_is_printed_after_every_pass(command: Command, module: Path) -> None:
    _, _, err = command("opt", module, "-p", "fold-nothing,fold-mark", "--print-ir-after-all")
    assert err.count("// -----// after ") == 2
    assert err.count("arith.negf") == 2


def test_the_module_is_printed_only_after_a_pass_that_changed_it(
    command: Command, module: Path
) -> None:
    pipeline = "fold-nothing,fold-mark,fold-nothing"
    _, _, err = command("opt", module, "-p", pipeline, "--print-ir-after-change")
    assert err.count("// -----// after ") == 1
    assert "// -----// after fold-mark //----- //" in err


def test_the_pass_that_breaks_a_module_is_named(command: Command, module: Path) -> None:
    code, out, err = command("opt", module, "-p", "fold-badly,fold-mark", "--verify-each")
    assert (code, out) == (1, "")
    assert "error: after fold-badly: arith.negf (%y) does not verify: Expected 1 operand" in err


def test_a_broken_module_is_not_printed(command: Command, module: Path) -> None:
    code, out, err = command("opt", module, "-p", "fold-badly")
    assert (code, out) == (1, "")
    assert "arith.negf (%y) does not verify" in err


def test_a_pass_that_fails_is_named(command: Command, module: Path) -> None:
    code, _, err = command("opt", module, "-p", "fold-mark,fold-never")
    assert code == 1
    assert err.startswith("error: the pass fold-never failed: never (kept in ")


def test_passes_are_timed(command: Command, module: Path) -> None:
    _, _, err = command("opt", module, "-p", "fold-nothing,fold-mark", "--time-passes")
    names = [line.split()[-1] for line in err.splitlines()]
    assert names == ["fold-nothing", "fold-mark", "total"]


def test_the_result_goes_to_a_file(command: Command, module: Path, tmp_path: Path) -> None:
    code, out, _ = command("opt", module, "-o", tmp_path / "out.mlir")
    assert (code, out) == (0, "")
    assert "arith.negf" in (tmp_path / "out.mlir").read_text()


def test_passes_are_listed_with_options_and_owner(command: Command) -> None:
    _, out, _ = command("passes")
    line = next(line for line in out.splitlines() if line.startswith("fold-mark"))
    assert line.split() == [
        "fold-mark",
        "mark=seen",
        "test-opt",
        *"The module has a mark.".split(),
    ]


def test_a_stage_has_the_passes_that_were_run_no_more_before_it(
    command: Command, tmp_path: Path
) -> None:
    told = 'lamina.target = "cpu", lamina.pending = "fold-mark{mark=\\22x\\22},fold-nothing"'
    (path := tmp_path / "stage.mlir").write_text(f"builtin.module attributes {{{told}}} {{\n}}\n")
    _, out, _ = command("opt", path, "-p", 'fold-nothing,fold-mark{mark="x"}')
    assert 'lamina.pending = "fold-nothing"' in out


def test_an_object_has_the_module_and_the_times(command: Command, module: Path) -> None:
    code, out, err = command("opt", module, "-p", "fold-nothing,fold-mark", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [each["name"] for each in found["passes"]] == ["fold-nothing", "fold-mark"]
    assert "arith.negf" in found["module"]


def test_one_pass_is_told_whole(command: Command) -> None:
    code, out, _ = command("passes", "fold-mark", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["options"] == [{"name": "mark", "type": "str", "default": "seen"}]
    assert found["file"] == __file__
