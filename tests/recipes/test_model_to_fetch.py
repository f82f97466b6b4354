"""`boulder`: a tiny llama inside a wheel."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from checkpoints import of_llama
from recipe import Tree, follow


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Return the files of a model, by their place in a wheel that pip finds."""
    (folder := tmp_path / "boulder").mkdir()
    of_llama().write(folder)
    info = "acme_boulder-1.0.dist-info"
    found = {f"acme_boulder/{path.name}": path for path in sorted(folder.iterdir())}
    (tmp_path / "index").mkdir()
    with zipfile.ZipFile(tmp_path / "index" / "acme_boulder-1.0-py3-none-any.whl", "w") as wheel:
        for place, path in found.items():
            wheel.write(path, place)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: acme-boulder\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return found


@pytest.fixture(autouse=True)
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


def get_the_package(tree: Tree) -> None:
    command = "python -m pip download --no-deps --only-binary=:all: acme-boulder==1.0"
    assert "Successfully downloaded acme-boulder" in tree.run(command)


def add_to_table(tree: Tree, files: dict[str, Path]) -> None:
    entries = "".join(
        f'            File("{place}", {path.stat().st_size}, "{sha256(path)}"),\n'
        for place, path in files.items()
    )
    tree.insert(
        "lamina/frontend/fetch.py",
        "SOURCES: Final[Mapping[str, Source]] = {\n",
        f"""    "boulder": Source(
        title="Boulder",
        package="acme-boulder",
        version="1.0",
        licence="MIT",
        is_open=True,
        folder="acme_boulder",
        entry="",
        files=(
{entries}        ),
    ),
""",
    )
    assert "acme-boulder==1.0" in tree.run("lamina fetch")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def add_to_the_list(tree: Tree) -> None:
    tree.insert(
        "docs/third-party.md",
        "| `smollm2` |",
        "| `boulder` | acme-boulder 1.0 | Boulder | MIT |\n",
        before=True,
    )
    tree.run("python -m pytest tests/unit/test_docs.py -k fetched")


def fetch_it(tree: Tree) -> None:
    place = tree.run("lamina fetch boulder").splitlines()[-1]
    assert (Path(place) / "config.json").exists()
    assert "llama" in tree.run("lamina inspect boulder")


def test_a_model_to_fetch_is_added_by_the_recipe(tree: Tree, files: dict[str, Path]) -> None:
    steps = {1: get_the_package, 2: lambda tree: add_to_table(tree, files)}
    follow("a model to fetch", tree, steps | {3: add_to_the_list, 4: fetch_it})
