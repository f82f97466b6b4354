"""A copy of the source tree, in which the recipes of CONTRIBUTING.md are followed to the letter."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from compileall import compile_dir
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("lamina", "tests", "docs")
FILES = ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "golden", "recipes")


def recipe(kind: str) -> list[str]:
    """The steps of `## Add <kind>`, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"## Add {kind}\n")[1].split("\n## ")[0]
    numbered = re.split(r"^(\d+)\. ", section, flags=re.MULTILINE)[1:]
    assert numbered[::2] == [str(n + 1) for n in range(len(numbered) // 2)]
    return numbered[1::2]


class Tree:
    """What a contributor has, and does to it: only what the step at hand names.

    A path or a command is named if the step has it between backticks, with any word for each
    `<word>`.
    """

    def __init__(self, root: Path, source: Path) -> None:
        self.root = shutil.copytree(source, root)
        self.step, self.done = "", 0

    def write(self, path: str, text: str) -> None:
        """Add a file."""
        self._named(path)
        (new := self.root / path).parent.mkdir(exist_ok=True)
        assert not new.exists(), path
        new.write_text(text, encoding="utf-8")

    def insert(self, path: str, anchor: str, text: str, *, before: bool = False) -> None:
        """Put `text` after the one place that says `anchor`, or before it."""
        self._named(path)
        old = (self.root / path).read_text(encoding="utf-8")
        assert old.count(anchor) == 1, f"{path} says {old.count(anchor)} times: {anchor}"
        new = text + anchor if before else anchor + text
        (self.root / path).write_text(old.replace(anchor, new), encoding="utf-8")

    def run(self, command: str, **environment: str) -> str:
        """Run a command of the recipe, which must succeed; return all that it prints."""
        self._named(command)
        return self.see(*command.split(), **environment)

    def see(self, *command: str, **environment: str) -> str:
        """Run a command that is not the recipe's, to see what came of it."""
        path = (str(self.root), os.environ.get("PYTHONPATH", ""))
        own = {
            "PATH": f"{self.root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "PYTEST_ADDOPTS": "-q -p no:cacheprovider",
            "LAMINA_CACHE": str(self.root / ".cache"),
            "LAMINA_PLUGINS": "off",
            "COLUMNS": "200",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, **own, **environment},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def _named(self, what: str) -> None:
        spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", self.step)]
        patterns = (r"[\w.-]+".join(map(re.escape, re.split(r"<\w+>", span))) for span in spans)
        assert any(re.fullmatch(pattern, what) for pattern in patterns), f"{what} is not in {spans}"
        self.done += 1


def copy_sources(to: Path) -> Path:
    """Copy what recipes touch, compiled, and make this environment that of the Makefile."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=LEFT_OUT)
    for name in FILES:
        shutil.copy2(ROOT / name, to / name)
    compile_dir(to / "lamina", quiet=1)
    (commands := to / ".venv" / "bin").mkdir(parents=True)
    for name, start in (("python", ""), ("lamina", " -m lamina")):
        text = f'#!/bin/sh\nexec "{sys.executable}"{start} "$@"\n'
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    for mark in (".made", ".installed", ".installed-dev"):
        (to / ".venv" / mark).touch()
    return to


Steps = Mapping[int, Callable[[Tree], None]]


def follow(kind: str, tree: Tree, steps: Steps, *, without: Collection[int] = ()) -> None:
    """Follow the recipe step by step, but for those that do not concern what is added."""
    told = recipe(kind)
    assert sorted((*steps, *without)) == [n + 1 for n in range(len(told))]
    for number, step in steps.items():
        tree.step, tree.done = told[number - 1], 0
        step(tree)
        assert tree.done, f"nothing was done at step {number}"
