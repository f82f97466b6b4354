"""Builds example packages and installs each in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
PIP = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target")


def run(*arguments: object, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, check=False, text=True
    )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder that an example's wheel is installed in."""

    @cache
    def install(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        built = run("-c", BUILD, folder, cwd=ROOT / "examples" / name)
        assert built.returncode == 0, built.stderr
        wheel = folder / built.stdout.split()[-1]
        done = run(*PIP, folder / "site", wheel, cwd=folder)
        assert done.returncode == 0, done.stderr
        return folder / "site"

    return install


@pytest.fixture
def passes(installed: Callable[[str], Path], tmp_path: Path) -> Callable[[str, str], None]:
    """Run those of an installed example's own tests that `-k` chooses."""

    def check(name: str, chosen: str) -> None:
        path = os.pathsep.join(map(str, (installed(name), ROOT)))
        example = ROOT / "examples" / name
        options = ("-c", example / "pyproject.toml", "--rootdir", example, "-q", "-k", chosen)
        done = run("-m", "pytest", *options, example / "tests", cwd=tmp_path, path=path)
        assert done.returncode == 0, done.stdout + done.stderr

    return check
