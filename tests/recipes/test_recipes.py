"""What following a recipe asks of the recipe, and of the test that follows it."""

import re
from pathlib import Path

import pytest
from recipe import ROOT, Tree, follow, recipe


def test_every_recipe_is_followed_by_a_test() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    kinds = set(re.findall(r"^## Add (.*)$", text, re.MULTILINE))
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    assert {kind for kind in kinds if f'follow("{kind}", ' in tests} == kinds
    assert len(kinds) >= 7


def test_a_step_too_few_is_noticed(tree: Tree) -> None:
    steps = {number: lambda tree: None for number in range(1, len(recipe("a hook")))}
    with pytest.raises(AssertionError):
        follow("a hook", tree, steps)


def test_a_step_that_does_nothing_is_noticed(tree: Tree) -> None:
    steps = {number + 1: lambda tree: None for number in range(len(recipe("a hook")))}
    with pytest.raises(AssertionError, match="nothing was done at step 1"):
        follow("a hook", tree, steps)


def test_what_a_step_does_not_name_is_not_done(tree: Tree) -> None:
    tree.step = "Write `lamina/passes/<verb>_<what>.py`, run `lamina passes <name>`."
    tree.write("lamina/passes/fold_away.py", "")
    with pytest.raises(AssertionError, match=r"fold_away\.mlir is not in"):
        tree.write("tests/ir/fold_away.mlir", "")
    with pytest.raises(AssertionError, match="make docs is not in"):
        tree.run("make docs")


def test_a_place_that_is_no_more_is_noticed(tree: Tree) -> None:
    tree.step = "`lamina/plugins/builtin.py`"
    with pytest.raises(AssertionError, match=r"builtin\.py says 0 times: NO_SUCH_TABLE"):
        tree.insert("lamina/plugins/builtin.py", "NO_SUCH_TABLE", "new")
