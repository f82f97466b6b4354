import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import plan_builder
import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

import lamina
from lamina import compiler
from lamina.dialects import nn
from lamina.dialects.names import escape_name, unescape_name
from lamina.dialects.text import parse_module
from lamina.errors import FormatError, InputError, LoweringError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Model, Weight, Weights
from lamina.plugins import manager
from lamina.plugins.hookspecs import hookimpl
from lamina.targets.base import Artifact, Executable, Signature, Target
from lamina.targets.spec import parse_target, target_spec

TEXT = """
builtin.module {
  func.func @forward(%x: f32) -> f32 {
    %y = arith.mulf %x, %x {lamina.src = ["/square"]} : f32
    %z = arith.divf %y, %x : f32
    func.return %z : f32
  }
}
"""


@dataclass(frozen=True)
class FoldMulPass(ModulePass):
    """x * x -> x + x, as often as asked."""

    name = "fold-mul"
    count: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in [o for o in op.walk() if isinstance(o, arith.MulfOp)][: self.count]:
            assert each.parent is not None
            new = arith.AddfOp(each.lhs, each.rhs)
            each.parent.insert_op_before(new, each)
            each.result.replace_all_uses_with(new.result)
            Rewriter.erase_op(each)


@dataclass(frozen=True)
class VerifyNothingPass(ModulePass):
    name = "verify-nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


@dataclass(frozen=True)
class FoldDivPass(ModulePass):
    name = "fold-div"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in [o for o in op.walk() if isinstance(o, arith.DivfOp)]:
            each.result.replace_all_uses_with(each.lhs)
            Rewriter.erase_op(each)


EMITTED: list[str] = []


@dataclass(frozen=True)
class TextTarget(Target):
    """Gives back the module's text."""

    name: ClassVar[str] = "text"
    style: str = "plain"
    kept: str | None = field(default=None, metadata={"spec": False})
    threads: int | None = field(default=None, metadata={"spec": False})

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset({"builtin.module", "func.func", "func.return", "arith.addf"})

    def passes(self) -> tuple[ModulePass, ...]:
        return (FoldMulPass(3 if self.style == "deep" else 2), VerifyNothingPass(), FoldDivPass())

    def host(self) -> str | None:
        return self.kept

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        EMITTED.append(str(module))
        return Artifact("text", Signature((), ()), {"code": str(module).encode()}, {"size": 1})

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        return {"forward.ll": "; nothing\n"}

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        made: Any = SimpleNamespace(
            artifact=artifact, signature=artifact.signature, weights=weights, target=self
        )
        return made


class TextFormat:
    """A model file that names one weight a line."""

    def sniff(self, path: Path) -> bool:
        return path.suffix == ".names"

    def read(self, path: Path) -> Model:
        names = path.read_text(encoding="utf-8").split()
        weights = Weights(Weight.of(name, np.zeros(1, np.float32)) for name in names)
        return Model(lambda: parsed(TEXT), weights)


class Plugin:
    __name__ = plan_builder.__name__

    @hookimpl
    def register_targets(self) -> Any:
        return {"text": lambda: TextTarget}

    @hookimpl
    def register_passes(self) -> Any:
        return {
            each.name: lambda each=each: each
            for each in (FoldMulPass, VerifyNothingPass, FoldDivPass)
        }

    @hookimpl
    def register_frontends(self) -> Any:
        return {"names": TextFormat}


@pytest.fixture(autouse=True)
def _plugin() -> Any:
    plugin = Plugin()
    manager.manager().register(plugin, "test")
    yield
    manager.manager().unregister(plugin)


def parsed(text: str) -> ModuleOp:
    return parse_module(manager.context(), text, "text")


def code(executable: Any) -> str:
    return executable.artifact.sections["code"].decode()


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / "model.names").write_text("w b", encoding="utf-8")
    return lamina.read(tmp_path / "model.names")


def test_a_module_goes_through_the_targets_passes_and_stays_as_it_was() -> None:
    module = parsed(TEXT)
    before = str(module)
    made = lamina.compile(module, "text")
    assert "arith.addf" in code(made)
    assert "arith.divf" not in code(made)
    assert str(module) == before


def test_the_given_pipeline_takes_the_place_of_the_targets_own() -> None:
    spelt = lamina.compile(parsed(TEXT), "text", "fold-div,fold-mul")
    built = lamina.compile(parsed(TEXT), "text", (FoldDivPass(), FoldMulPass()))
    assert code(spelt) == code(built)


def test_an_operation_without_a_rule_is_named_with_its_node() -> None:
    with pytest.raises(
        LoweringError, match=r"^text has no rule for arith\.mulf \(from node /square\)$"
    ):
        lamina.compile(parsed(TEXT), "text", ())


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_module_without_forward_is_told_so(target: str) -> None:
    with pytest.raises(LoweringError, match=r"no function @forward \(there is @backward\)"):
        lamina.compile(parsed(TEXT.replace("@forward", "@backward")), target)
    with pytest.raises(LoweringError, match=r"no function @forward \(there is none\)"):
        lamina.compile(parsed("builtin.module { %x = arith.constant 1 : i32 }"), target)


def test_what_runs_by_its_meaning_needs_no_rule() -> None:
    prepare = TEXT.replace("@forward", "@prepare")
    assert code(lamina.compile(parsed(prepare), "text", ()))


def test_a_dump_has_a_file_for_each_pass_that_changed_the_module(
    model: Model, tmp_path: Path
) -> None:
    lamina.compile(model, "text", dump=tmp_path / "dump")
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == [
        "000-import.mlir",
        "001-fold-mul.mlir",
        "003-fold-div.mlir",
        "forward.ll",
        "manifest.json",
    ]
    manifest = json.loads((tmp_path / "dump" / "manifest.json").read_text())
    assert manifest["files"] == names[:-1]
    assert manifest["weights"]["path"] == str(tmp_path / "model.names")
    assert manifest["pipeline"] == "fold-mul{count=2},verify-nothing,fold-div"


@pytest.mark.parametrize("stage", ["000-import", "001-fold-mul", "003-fold-div"])
def test_compilation_goes_on_from_any_stage(model: Model, tmp_path: Path, stage: str) -> None:
    whole = lamina.compile(model, TextTarget(style="plain"), dump=tmp_path / "dump")
    read = lamina.read(tmp_path / "dump" / f"{stage}.mlir")
    resumed = lamina.compile(read, "text")
    assert code(resumed) == code(whole)
    assert list(read.weights) == ["w", "b"]


def test_a_stage_brings_the_options_of_its_target(model: Model, tmp_path: Path) -> None:
    lamina.compile(model, TextTarget(style="odd"), threads=2, dump=tmp_path / "dump")
    stage = lamina.read(tmp_path / "dump" / "001-fold-mul.mlir")
    assert compiler.resolve_target("text", stage.module) == TextTarget(style="odd")
    assert compiler.resolve_target('text{style="even"}', stage.module) == TextTarget(style="even")


def test_unless_another_is_named_a_stage_is_for_the_target_that_it_was_dumped_for(
    model: Model, tmp_path: Path
) -> None:
    lamina.compile(model, TextTarget(style="odd"), dump=tmp_path / "dump")
    stage = lamina.read(tmp_path / "dump" / "001-fold-mul.mlir")
    assert compiler.resolve_target("auto", stage) == TextTarget(style="odd")
    assert compiler.resolve_target("auto{threads=2}", stage) == TextTarget(style="odd", threads=2)
    assert compiler.resolve_target("auto", model).name == "cpu"


def test_a_stage_goes_on_for_other_options_if_they_have_the_same_passes(
    model: Model, tmp_path: Path
) -> None:
    whole = lamina.compile(model, "text", dump=tmp_path / "dump")
    stage = lamina.read(tmp_path / "dump" / "001-fold-mul.mlir")
    assert code(lamina.compile(stage, TextTarget(style="even"))) == code(whole)


def test_other_passes_begin_at_the_import(model: Model, tmp_path: Path) -> None:
    lamina.compile(model, "text", dump=tmp_path / "dump")
    imported, later = (
        lamina.read(tmp_path / "dump" / f"{name}.mlir") for name in ("000-import", "001-fold-mul")
    )
    deep = TextTarget(style="deep")
    assert compiler.resolve_pipeline(None, imported.module, deep) == deep.passes()
    with pytest.raises(InputError, match="dumped for text, and cannot go on for text"):
        lamina.compile(later, deep)


def test_a_stage_names_the_passes_to_come_and_nothing_is_left_of_that(
    model: Model, tmp_path: Path
) -> None:
    lamina.compile(model, "text", dump=tmp_path / "dump")
    stage = lamina.read(tmp_path / "dump" / "001-fold-mul.mlir")
    assert stage.module.attributes["lamina.pending"].data == "verify-nothing,fold-div"
    assert "lamina." not in code(lamina.compile(stage, "text"))


def test_a_dump_replaces_an_earlier_one_and_nothing_else(model: Model, tmp_path: Path) -> None:
    (tmp_path / "notes.mlir").write_text("mine")
    lamina.compile(model, "text", dump=tmp_path)
    lamina.compile(model, "text", "fold-div,fold-mul", dump=tmp_path)
    assert [path.name for path in sorted(tmp_path.glob("*.mlir"))] == [
        "000-import.mlir",
        "001-fold-div.mlir",
        "002-fold-mul.mlir",
        "notes.mlir",
    ]


def test_a_stage_whose_weights_changed_is_refused(model: Model, tmp_path: Path) -> None:
    lamina.compile(model, "text", dump=tmp_path)
    (tmp_path / "model.names").write_text("other", encoding="utf-8")
    with pytest.raises(FormatError, match="no longer the file that was compiled"):
        lamina.read(tmp_path / "000-import.mlir")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 9}',
        '{"version": 1, "weights": 3}',
        '{"version": 1, "weights": {"path": "x.mlir"}}',
    ],
)
def test_a_broken_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "stage.mlir").write_text(TEXT)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FormatError, match=r"manifest\.json: "):
        lamina.read(tmp_path / "stage.mlir")


def test_a_stage_without_a_manifest_takes_weights_from_the_caller(tmp_path: Path) -> None:
    (tmp_path / "stage.mlir").write_text(TEXT)
    made: Any = lamina.compile(lamina.read(tmp_path / "stage.mlir"), "text", weights={"w": 1})
    assert made.weights == {"w": 1}


def test_names_of_any_alphabet_come_through_the_text(tmp_path: Path) -> None:
    weights = Weights([Weight.of("naïve 50%", np.full(3, 2, np.float32))])
    graph = Graph(weights)
    with graph.at("/大"):
        x = graph.input("größe", f32, [3])
        y = graph.add(nn.MulOp(x, graph.weight("naïve 50%", (3,))))
    graph.output("出力", y)
    text = str(graph.finish())
    assert text.isascii()
    run = lamina.compile(parsed(text), "reference", weights=weights)
    assert run(**{"größe": np.ones(3, np.float32)})["出力"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["plain.0/weight", "100%", "naïve", "日本", "a\nb", "%C3"])
def test_escaped_names_are_ascii_and_come_back(name: str) -> None:
    assert escape_name(name).isascii()
    assert escape_name(name).isprintable()
    assert unescape_name(escape_name(name)) == name


def test_a_missing_file_and_an_unknown_format_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file or folder"):
        lamina.read(tmp_path / "none.gguf")
    (tmp_path / "x.odd").write_text("?")
    with pytest.raises(InputError, match="is in no format that can be read"):
        lamina.read(tmp_path / "x.odd")


def test_threads_go_to_targets_that_have_them() -> None:
    assert compiler.resolve_target("text", threads=3) == TextTarget(threads=3)
    with pytest.raises(InputError, match="threads is 0: expected a whole number from 1 to 512"):
        compiler.resolve_target("text", threads=0)


@pytest.mark.parametrize("target", [TextTarget(), TextTarget(style="odd")])
def test_a_target_is_equal_to_what_its_spec_says(target: TextTarget) -> None:
    assert parse_target(TextTarget, target_spec(target)) == target


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("text{stile=1}", "no option 'stile'"),
        ("text{style=true}", "option style: expected a word, got True"),
        ("cpu{tuned=maybe}", "option tuned: expected true or false, got 'maybe'"),
        ("text{", "cannot be read"),
    ],
)
def test_a_wrong_option_of_a_target_is_named(spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        compiler.resolve_target(spec)


@dataclass(frozen=True)
class FailPass(ModulePass):
    name = "verify-failing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException("cannot go on")


def test_a_pass_that_fails_is_named() -> None:
    with pytest.raises(LoweringError, match=r"^the pass verify-failing failed: cannot go on "):
        lamina.compile(parsed(TEXT), "text", (FailPass(),))


def test_observers_see_every_pass() -> None:
    seen: list[str] = []
    compiler.lower(
        parsed(TEXT),
        "text",
        observers=[lambda last, _m, _n: seen.append(last.name if last else "")],
    )
    assert seen == ["", "fold-mul", "verify-nothing", "fold-div"]


@pytest.fixture
def emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    EMITTED.clear()
    return EMITTED


def test_code_compiled_before_is_found_without_making_the_graph(
    model: Model, emitted: list[str]
) -> None:
    assert model.source
    first = lamina.compile(model, TextTarget(kept="here"))
    again = replace(compiler.read(model.source, defer=True), graph=pytest.fail)
    assert code(lamina.compile(again, TextTarget(kept="here"))) == code(first)
    assert len(emitted) == 1


@pytest.mark.parametrize("target", [TextTarget(kept="there"), TextTarget(style="odd", kept="here")])
def test_code_for_another_machine_or_target_is_not_taken(
    model: Model, emitted: list[str], target: TextTarget
) -> None:
    lamina.compile(model, TextTarget(kept="here"))
    lamina.compile(model, target)
    assert len(emitted) == 2


def test_weights_of_other_shapes_make_another_key(model: Model, tmp_path: Path) -> None:
    (tmp_path / "other.names").write_text("w c")
    other = compiler.read(tmp_path / "other.names")
    assert other.header != model.header


def test_a_dump_runs_the_passes_and_takes_the_code_of_an_equal_module(
    model: Model, emitted: list[str], tmp_path: Path
) -> None:
    whole = lamina.compile(model, TextTarget(kept="here"))
    lamina.compile(model, TextTarget(kept="here"), dump=tmp_path / "dump")
    stage = lamina.read(tmp_path / "dump" / "001-fold-mul.mlir")
    assert code(lamina.compile(stage, TextTarget(kept="here"))) == code(whole)
    assert len(emitted) == 1


def test_with_the_disk_cache_off_all_is_compiled(
    model: Model, emitted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    for _ in range(2):
        lamina.compile(model, TextTarget(kept="here"))
    assert len(emitted) == 2
    assert not (tmp_path / "cache").exists()
