"""`register_greetings`: what is said, by language."""

from recipe import Tree, follow


def declare(tree: Tree) -> None:
    tree.insert(
        "lamina/plugins/hookspecs.py",
        "@hookspec\ndef register_targets()",
        '''@hookspec
def register_greetings() -> Mapping[str, str]:
    """Return by language what is said first."""
    return {}


''',
        before=True,
    )


def use_it(tree: Tree) -> None:
    tree.insert(
        "lamina/plugins/builtin.py",
        "@hookimpl\ndef register_targets()",
        '''@hookimpl
def register_greetings() -> Mapping[str, str]:
    """The greetings of the box."""
    return {"english": "Good morning"}


''',
        before=True,
    )
    shown = tree.run("lamina plugins")
    assert any(line.split() == ["builtin", "greetings", "english"] for line in shown.splitlines())


def give_access(tree: Tree) -> None:
    tree.insert(
        "lamina/plugins/manager.py",
        "def targets() ->",
        '''def greetings() -> dict[str, str]:
    """Return what is said first by language."""
    return {name: offer.value for name, offer in offers("register_greetings").items()}


''',
        before=True,
    )
    code = "from lamina.plugins import manager; print(manager.greetings())"
    assert tree.see("python", "-c", code) == "{'english': 'Good morning'}\n"


def describe(tree: Tree) -> None:
    tree.insert(
        "docs/plugins.md",
        "## `register_targets`\n",
        '## `register_greetings`\n\nWhat is said first, by language: `{"acme": "Beep"}`.\n\n',
        before=True,
    )
    tree.run("python -m pytest tests/unit/test_plugins.py")


def test_a_hook_is_added_by_the_recipe(tree: Tree) -> None:
    steps = (declare, use_it, give_access, describe)
    follow("a hook", tree, dict(enumerate(steps, 1)))
