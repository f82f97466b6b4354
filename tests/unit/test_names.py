"""One name, five spellings: file, class, spec, IR test and heading of every pass agree."""

import inspect
from pathlib import Path

import pytest

from lamina.plugins import manager

ROOT = Path(__file__).parents[2]
SPECS = sorted(manager.passes())
HEADINGS = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8").splitlines()
VERBS = (
    *("fold", "decompose", "fuse", "choose", "pack", "outline"),
    *("prepare", "schedule", "lower", "plan", "verify"),
)


@pytest.mark.parametrize("spec", SPECS)
def test_a_pass_is_found_by_its_spec(spec: str) -> None:
    kind = manager.passes()[spec]()
    words = spec.split("-")
    assert kind.name == spec
    assert kind.__name__ == "".join(word.capitalize() for word in words) + "Pass"
    assert Path(inspect.getfile(kind)).stem == "_".join(words)


@pytest.mark.parametrize("spec", SPECS)
def test_a_pass_begins_with_a_verb_of_the_list(spec: str) -> None:
    assert spec.split("-", maxsplit=1)[0] in VERBS


@pytest.mark.parametrize("spec", SPECS)
def test_a_pass_has_a_test_that_shows_its_ir(spec: str) -> None:
    text = (ROOT / "tests" / "ir" / f"{spec.replace('-', '_')}.mlir").read_text(encoding="utf-8")
    runs = [line for line in text.splitlines() if line.startswith("// RUN:")]
    assert any(spec in line for line in runs)


@pytest.mark.parametrize("spec", SPECS)
def test_a_pass_has_a_heading_in_the_documentation(spec: str) -> None:
    assert f"## `{spec}`" in HEADINGS


def test_every_file_of_a_pass_is_registered() -> None:
    files = (ROOT / "lamina" / "passes").glob("*.py")
    with_passes = {path.stem for path in files if "(ModulePass):" in path.read_text("utf-8")}
    assert with_passes == {spec.replace("-", "_") for spec in SPECS}
