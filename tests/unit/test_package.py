import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import lamina

ROOT = Path(__file__).parents[2]
BUILD = "import sys, hatchling.build as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def build(what: str, folder: Path, into: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(into)],
        cwd=folder,
        capture_output=True,
        check=True,
        text=True,
    )
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    sdist = build("build_sdist", ROOT, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (each for each in folder.iterdir() if each.is_dir())
    return zipfile.ZipFile(build("build_wheel", unpacked, folder))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"lamina", f"lamina-{lamina.__version__}.dist-info"}


def test_the_wheel_holds_every_module(wheel: zipfile.ZipFile) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lamina").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= set(wheel.namelist())
    assert "lamina/py.typed" in expected


def test_the_wheel_has_the_command_the_universe_and_the_licence(wheel: zipfile.ZipFile) -> None:
    info = f"lamina-{lamina.__version__}.dist-info"
    entries = wheel.read(f"{info}/entry_points.txt").decode()
    assert "lamina = lamina.cli:main" in entries
    assert "lamina = lamina.plugins.universe:UNIVERSE" in entries
    assert b"Apache License" in wheel.read(f"{info}/licenses/LICENSE")


def test_nothing_of_the_benchmarks_is_needed_for_development(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(
        wheel.read(f"lamina-{lamina.__version__}.dist-info/METADATA").decode()
    )
    extras: dict[str, set[str]] = {"bench": set(), "dev": set()}
    for line in metadata.get_all("Requires-Dist") or []:
        for extra, names in extras.items():
            if f"extra == '{extra}'" in line:
                names.add(line.split()[0].split("[")[0].split(">")[0].split("=")[0].split("~")[0])
    assert extras["bench"]
    assert not extras["bench"] & extras["dev"]
