import itertools
import re
import tomllib
from pathlib import Path

import pytest

from lamina.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_the_readme_begins_with_exactly_two_commands() -> None:
    language, block = BLOCKS[0]
    assert language == "sh"
    assert [line.split("#")[0].strip() for line in block.splitlines()] == ["make demo", "make test"]


def test_the_readme_names_only_commands_that_exist() -> None:
    shell = "\n".join(block for language, block in BLOCKS if language == "sh")
    named = set(re.findall(r"\blamina (\w+)", shell))
    assert named
    assert named <= {each.__name__ for each in COMMANDS}


@pytest.mark.parametrize("page", PAGES)
def test_a_link_in_a_page_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_the_recipes_name_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:lamina|tests|docs)/[\w/.]*)`", text):
        assert (ROOT / name).exists(), name


def test_the_architecture_names_only_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/*]+\.py|lamina/[\w/]+\.ll)`", text)
    for name in named:
        assert list(ROOT.glob(name) if "/" in name else (ROOT / "lamina").rglob(name)), name
    assert len(named) > 40


def test_every_fetched_model_is_in_the_list_of_third_parties() -> None:
    from lamina.frontend.fetch import SOURCES

    text = (ROOT / "docs" / "third-party.md").read_text(encoding="utf-8")
    for name, source in SOURCES.items():
        assert f"| `{name}` | {source.package} {source.version} | {source.title} |" in text


def test_every_dependency_is_in_the_list_of_third_parties() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        *project["dependencies"],
        *itertools.chain(*project["optional-dependencies"].values()),
    ]
    text = (ROOT / "docs" / "third-party.md").read_text(encoding="utf-8").lower()
    for requirement in needed:
        assert re.split(r"[^\w-]", requirement)[0].lower() in text, requirement


@pytest.mark.parametrize("page", PAGES)
def test_python_in_a_page_compiles(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(block, page, "exec")
