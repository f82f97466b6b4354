"""What is fuzzed: for each parser how it is called, what it may raise, and what it starts from."""

import re
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import fuzz_onnx_seeds as onnx_seeds
import fuzz_seeds as seeds

import lamina
from lamina.errors import FormatError, InputError, LaminaError, UnsupportedError
from lamina.frontend.chat_template import ChatTemplate
from lamina.frontend.gguf import read_gguf
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.onnx.examiner import examine
from lamina.frontend.safetensors import read_safetensors, read_safetensors_index
from lamina.targets.artifact_store import artifact_from_bytes

REFUSALS = (FormatError, UnsupportedError)
MESSAGES = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "b <end>"}]
DIGESTS = re.compile(rb'"digests":\[[^\]]*\]')
SEALED_HEAD, ARTIFACT_HEAD = struct.Struct("<8sIIQ32s"), struct.Struct("<8sIQ32s")
DIGEST, BLOCK = 32, 4 << 20


@dataclass(frozen=True)
class Parser:
    """`parse` takes an input and an empty folder; it raises `refusals` and nothing else."""

    parse: Callable[[bytes, Path], None]
    seeds: Callable[[], list[bytes]]
    refusals: tuple[type[LaminaError], ...] = REFUSALS


def gguf(data: bytes, folder: Path) -> None:
    """Read a file, its settings and its tokenizer, and make its graph."""
    path = folder / "x.gguf"
    path.write_bytes(data)
    lamina.read(path)


def safetensors(data: bytes, folder: Path) -> None:
    """Read a file by itself, then by its index."""
    shard, *index = data.split(seeds.SEPARATOR, 1)
    (folder / "a.safetensors").write_bytes(shard)
    if not index:
        read_safetensors(folder / "a.safetensors")
        return
    (folder / "model.safetensors.index.json").write_bytes(index[0])
    read_safetensors_index(folder / "model.safetensors.index.json")


def hugging_face(data: bytes, folder: Path) -> None:
    """Read a folder of settings and tokenizer, beside weights that stay the same."""
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    for name, text in zip(seeds.FOLDER_FILES, data.split(seeds.SEPARATOR), strict=False):
        (folder / name).write_bytes(text)
    tokenizer = lamina.read(folder, defer=True).tokenizer
    if tokenizer:
        tokenizer.decode(tokenizer.encode("a b<end>"))


def tokenizer(data: bytes, folder: Path) -> None:
    """Make the tokenizer of a file's metadata, and take a text there and back."""
    path = folder / "x.gguf"
    path.write_bytes(data)
    made = tokenizer_from_gguf(read_gguf(path).metadata, path)
    made.decode(made.encode("ab a<end>\xe9"))


def onnx(data: bytes, folder: Path) -> None:
    """Read a model beside external data, say all that it lacks, and make its graph."""
    (folder / "w.bin").write_bytes(bytes(64))
    (folder / "x.onnx").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        examine(folder / "x.onnx")
        lamina.read(folder / "x.onnx")


def template(data: bytes, folder: Path) -> None:
    """Run a chat template."""
    ChatTemplate(data.decode(errors="replace"), "<s>", "</s>").render(MESSAGES)


def stage(data: bytes, folder: Path) -> None:
    """Read a module, and the manifest beside it."""
    text, *manifest = data.split(seeds.SEPARATOR, 1)
    (folder / "x.mlir").write_bytes(text)
    if manifest:
        (folder / "manifest.json").write_bytes(manifest[0])
    lamina.read(folder / "x.mlir")


def compiled(data: bytes, folder: Path) -> None:
    """Read a compiled model as it is, and with digests that fit."""
    read_twice(data, resealed, lambda each: compiled_once(each, folder))


def compiled_once(data: bytes, folder: Path) -> None:
    path = folder / "x.lamina"
    path.write_bytes(data)
    lamina.read(path)


def artifact(data: bytes, folder: Path) -> None:
    """Read an artifact as it is, and with a digest that fits."""
    read_twice(data, redigested, artifact_from_bytes)


def read_twice(
    data: bytes, mend: Callable[[bytes], bytes], read: Callable[[bytes], object]
) -> None:
    """Read what the digests would have kept out too: they do not keep out a forger."""
    try:
        read(data)
    except FormatError:
        read(mend(data))


def resealed(data: bytes) -> bytes:
    """The file with the sizes and digests that its contents ask for."""
    if len(data) < SEALED_HEAD.size:
        return data
    magic, version, length, _, _ = SEALED_HEAD.unpack_from(data)
    start = SEALED_HEAD.size + length
    text, body = data[SEALED_HEAD.size : start], data[start:]
    found = (sha256(body[at : at + BLOCK]).hexdigest() for at in range(0, len(body), BLOCK))
    digests = b'"digests":[%s]' % ",".join(f'"{each}"' for each in found).encode()
    text = DIGESTS.sub(digests, text)
    head = SEALED_HEAD.pack(
        magic, version, len(text), SEALED_HEAD.size + len(text) + len(body), bytes(DIGEST)
    )[:-DIGEST]
    return head + sha256(head + text).digest() + text + body


def redigested(data: bytes) -> bytes:
    """The artifact with the size and digest that its contents ask for."""
    if len(data) < ARTIFACT_HEAD.size:
        return data
    magic, version, _, _ = ARTIFACT_HEAD.unpack_from(data)
    body = data[ARTIFACT_HEAD.size :]
    head = ARTIFACT_HEAD.pack(magic, version, len(body), bytes(DIGEST))[:-DIGEST]
    return head + sha256(head + body).digest() + body


WEIGHTS = seeds.weights()

PARSERS = {
    "gguf": Parser(gguf, seeds.gguf_files),
    "safetensors": Parser(safetensors, seeds.safetensors_files),
    "folder": Parser(hugging_face, seeds.folders),
    "tokenizer": Parser(tokenizer, seeds.vocabularies),
    "onnx": Parser(onnx, onnx_seeds.models),
    "template": Parser(template, seeds.templates, (*REFUSALS, InputError)),
    "stage": Parser(stage, seeds.stages, (*REFUSALS, InputError)),
    "compiled": Parser(compiled, seeds.compiled_files, (*REFUSALS, InputError)),
    "artifact": Parser(artifact, seeds.artifacts),
}
"""By the name that `run.py` takes. `InputError` where a file may ask for one that is not there."""
