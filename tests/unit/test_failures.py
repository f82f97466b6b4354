import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

import lamina
from lamina import compiler
from lamina.dialects.text import parse_module
from lamina.errors import FormatError, InputError, LoweringError
from lamina.failures import read_bundle
from lamina.frontend.model import Model, Weights
from lamina.plugins import hookimpl, manager
from lamina.targets.base import Artifact, Executable, Signature, Target

Command = Callable[..., tuple[int, str, str]]
TEXT = "func.func @forward(%x: f32) -> f32 {\n  func.return %x : f32\n}\n"
BROKEN = {"fold-broken": True, "text": True}


@dataclass(frozen=True)
class FoldMarkPass(ModulePass):
    name = "fold-mark"
    mark: str = "seen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["mark"] = StringAttr(self.mark)


@dataclass(frozen=True)
class FoldBrokenPass(ModulePass):
    """Fails after it has changed the module."""

    name = "fold-broken"
    kind: str = "bug"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["half"] = StringAttr("done")
        if BROKEN[self.name]:
            raise {"bug": KeyError, "refusal": InputError}[self.kind]("seven")


@dataclass(frozen=True)
class FoldUnlistedPass(FoldBrokenPass):
    name = "fold-unlisted"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("seven")


@dataclass(frozen=True)
class TextTarget(Target):
    name: ClassVar[str] = "text"
    style: str = "plain"

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset({"builtin.module", "func.func", "func.return"})

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        if BROKEN[self.name]:
            raise ZeroDivisionError("no kernels")
        return Artifact(self.name, Signature((), ()), {}, {})

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        made: Any = artifact
        return made


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where failures are kept, by a plugin that always fails."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    plugin = SimpleNamespace(
        register_passes=hookimpl(
            lambda: {each.name: lambda each=each: each for each in (FoldMarkPass, FoldBrokenPass)}
        ),
        register_targets=hookimpl(lambda: {"text": lambda: TextTarget}),
    )
    manager.manager().register(plugin, "acme")
    yield tmp_path / "cache" / "failures"
    manager.manager().unregister(name="acme")


def module() -> ModuleOp:
    return parse_module(manager.context(), TEXT, "text")


def fail(pipeline: str = 'fold-mark{mark="x"},fold-broken,fold-mark') -> str:
    with pytest.raises(LoweringError) as caught:
        compiler.compile(module(), TextTarget("odd"), pipeline)
    return str(caught.value)


def kept(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_the_error_names_the_pass_the_reason_and_the_bundle(folder: Path) -> None:
    told = fail()
    assert told.startswith("the pass fold-broken failed: KeyError: 'seven' (kept in ")
    assert str(kept(folder)) in told


def test_a_bundle_has_the_module_as_it_was_before_the_pass(folder: Path) -> None:
    fail()
    text = kept(folder).read_text()
    assert 'mark = "x"' in text
    assert "half" not in text
    stage = lamina.read(kept(folder)).module
    assert stage.attributes["lamina.pending"] == StringAttr("fold-broken,fold-mark")


def test_a_bundle_says_all_of_the_failure(folder: Path) -> None:
    fail()
    said = read_bundle(kept(folder))
    assert said is not None
    assert said["failed"] == "fold-broken"
    assert said["owner"]["plugin"] == "acme"
    assert said["target"] == 'text{style="odd"}'
    assert said["pipeline"].startswith('fold-mark{mark="x"},fold-broken')
    assert said["versions"]["lamina"] == lamina.__version__
    assert "acme" in said["plugins"]
    assert any("raise {" in line for line in said["traceback"])


def test_a_plugin_has_the_version_of_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (facts := tmp_path / "acme_lamina-1.2.dist-info").mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-lamina\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text("[lamina]\nacme-points = acme\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert manager.version("acme-points") == "1.2"
    assert manager.version("acme") == ""
    assert manager.version(manager.BUILTIN) == lamina.__version__


def test_a_refusal_keeps_its_kind(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^seven \(kept in "):
        compiler.lower(module(), TextTarget(), 'fold-broken{kind="refusal"}')
    assert kept(folder).exists()


def test_a_failed_emission_is_kept_too(folder: Path) -> None:
    with pytest.raises(LoweringError, match=r"^the emission for text failed: ZeroDivisionError"):
        compiler.compile(module(), TextTarget(), "fold-mark")
    said = read_bundle(kept(folder))
    assert said is not None
    assert (said["failed"], said["owner"]["plugin"]) == ("emission", "acme")


def test_opt_runs_a_bundle_again(folder: Path, command: Command) -> None:
    fail()
    code, out, err = command("opt", kept(folder))
    assert (code, out) == (1, "")
    assert "error: the pass fold-broken failed: KeyError: 'seven' (kept in " in err
    assert len(list(folder.iterdir())) == 1


def test_opt_runs_a_failed_emission_again(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LoweringError):
        compiler.compile(module(), TextTarget(), "fold-mark")
    code, _, err = command("opt", kept(folder))
    assert code == 1
    assert "the emission for text failed" in err
    monkeypatch.setitem(BROKEN, "text", False)
    code, out, err = command("opt", kept(folder))
    assert (code, err) == (0, "the target text emits it now\n")
    assert "func.func @forward" in out


def test_opt_goes_through_to_the_end_when_the_pass_is_mended(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail()
    for name in BROKEN:
        monkeypatch.setitem(BROKEN, name, False)
    code, out, _ = command("opt", kept(folder))
    assert code == 0
    assert 'half = "done"' in out
    assert 'mark = "seen"' in out


def test_opt_keeps_its_own_failures(folder: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    code, _, err = command("opt", tmp_path / "m.mlir", "-p", "fold-mark,fold-broken")
    assert code == 1
    assert f"(kept in {kept(folder)}: `lamina opt` runs it again)" in err
    assert command("opt", kept(folder))[0] == 1


def test_a_bundle_can_be_given_to_any_command(folder: Path) -> None:
    fail()
    told = ""
    try:
        compiler.compile(lamina.read(kept(folder)), "text")
    except LoweringError as error:
        told = str(error)
    assert told.startswith("the pass fold-broken failed")


def test_only_the_latest_are_kept(folder: Path) -> None:
    for number in range(25):
        fail(f'fold-mark{{mark="{number}"}},fold-broken')
    assert len(list(folder.iterdir())) == 20


def test_without_a_place_the_failure_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file"))
    assert fail() == "the pass fold-broken failed: KeyError: 'seven'"


def test_a_broken_bundle_is_refused(folder: Path, command: Command) -> None:
    fail()
    path = kept(folder)
    path.write_text(path.read_text().replace("// {", "// [", 1))
    with pytest.raises(FormatError, match="is not JSON"):
        read_bundle(path)
    assert command("opt", path)[0] == 1


def test_another_file_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    assert read_bundle(tmp_path / "m.mlir") is None
    assert read_bundle(tmp_path / "absent.mlir") is None


def test_no_weight_is_in_a_bundle(folder: Path) -> None:
    model = Model(module(), Weights(()))
    with pytest.raises(LoweringError):
        compiler.compile(model, TextTarget(), "fold-broken")
    said = json.dumps(read_bundle(kept(folder)))
    assert "weights" not in said


def test_a_pass_that_no_plugin_lists_has_no_owner(folder: Path) -> None:
    with pytest.raises(LoweringError):
        compiler.lower(module(), TextTarget(), (FoldUnlistedPass(),))
    said = read_bundle(kept(folder))
    assert said is not None
    assert said["owner"] == {"plugin": "", "version": "", "module": FoldUnlistedPass.__module__}
