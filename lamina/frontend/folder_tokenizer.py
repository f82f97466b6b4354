"""The tokenizer that the files of a Hugging Face folder describe."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import tokenizers
from tokenizers import AddedToken

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.fields import Fields
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.strict_json import read_json_object
from lamina.frontend.tokenizer import Tokenizer
from lamina.frontend.tokenizer_backend import read_backend

_LARGEST_TEMPLATE: Final = 1 << 20
_ANY_ID: Final = 2**32
_PROBE: Final = "a"


def tokenizer_from_folder(path: str | os.PathLike[str]) -> Tokenizer:
    """Return the tokenizer of a folder.

    It is what tokenizer.json says, without padding and truncation. Read beside it, if present:
    tokenizer_config.json and special_tokens_map.json (special tokens, chat template),
    chat_template.jinja, and the ids of generation_config.json and config.json, all of which end
    a sequence. Raises `UnsupportedError` if there is no tokenizer.json and `FormatError` for a
    broken file, each naming it.
    """
    folder = Path(path)
    backend = _backend(folder)
    config = _optional(folder, "tokenizer_config.json")
    special = {
        **_special_tokens(_optional(folder, "special_tokens_map.json")),
        **_special_tokens(config),
    }
    _mark_special(backend, special.values())
    models = [_optional(folder, name) for name in ("generation_config.json", "config.json")]
    bos = _ids(backend, models, "bos", special)[:1]
    eos = _ids(backend, models, "eos", special)
    prefix, suffix = _frame(backend, folder)
    return Tokenizer(
        backend,
        bos_id=bos[0] if bos else None,
        eos_ids=eos,
        prefix=_adjusted(config, "add_bos_token", prefix, bos),
        suffix=_adjusted(config, "add_eos_token", suffix, eos[:1]),
        chat_template=_chat_template(folder, config),
        template_tokens=(special.get("bos_token", ""), special.get("eos_token", "")),
    )


def _backend(folder: Path) -> tokenizers.Tokenizer:
    path = folder / "tokenizer.json"
    if not path.exists():
        raise UnsupportedError(
            f"{folder}: the folder has no tokenizer.json, the only form of tokenizer that is read"
        )
    backend = read_backend(MappedFile(path).data[:], path)
    backend.no_padding()
    backend.no_truncation()
    return backend


def _optional(folder: Path, name: str) -> Fields:
    path = folder / name
    return Fields(read_json_object(path) if path.exists() else {}, path)


def _special_tokens(fields: Fields) -> dict[str, str]:
    """Return the text of each special token by its role's name, such as `bos_token`."""
    found: dict[str, str] = {}
    for key, value in fields.values.items():
        if not key.endswith("_token") or isinstance(value, bool | None):
            continue
        table = fields.table(key) if isinstance(value, Mapping) else None
        found[key] = table.text("content") if table else fields.text(key)
    return found


def _mark_special(backend: tokenizers.Tokenizer, contents: Iterable[str]) -> None:
    """Make control tokens of those in the vocabulary that tokenizer.json does not list as such."""
    listed = {token.content for token in backend.get_added_tokens_decoder().values()}
    missing = [
        AddedToken(content, special=True, normalized=False)
        for content in dict.fromkeys(contents)
        if content and content not in listed and backend.token_to_id(content) is not None
    ]
    untyped: Any = backend
    untyped.add_special_tokens(missing)


def _ids(
    backend: tokenizers.Tokenizer, models: list[Fields], role: str, special: Mapping[str, str]
) -> list[int]:
    """Return the ids the model's settings give for `role`, else that of the token so named."""
    given = [one for fields in models for one in fields.token_ids(f"{role}_token_id", _ANY_ID)]
    known = [one for one in dict.fromkeys(given) if backend.id_to_token(one) is not None]
    named = backend.token_to_id(special.get(f"{role}_token", ""))
    return known if known or named is None else [named]


def _frame(backend: tokenizers.Tokenizer, folder: Path) -> tuple[list[int], list[int]]:
    """Return the ids that the post-processor puts before and after a text."""
    bare = backend.encode(_PROBE, add_special_tokens=False).ids
    framed = backend.encode(_PROBE, add_special_tokens=True).ids
    for start in range(len(framed) - len(bare) + 1):
        if bare and framed[start : start + len(bare)] == bare:
            return framed[:start], framed[start + len(bare) :]
    if framed == bare:
        return [], []
    raise UnsupportedError(
        f"{folder / 'tokenizer.json'}: field post_processor does not leave a text as it is"
    )


def _adjusted(config: Fields, key: str, frame: list[int], token: list[int]) -> list[int]:
    """Return one side of the frame with `token` or without it, if the settings say which."""
    if key not in config or not token:
        return frame
    if not config.flag(key):
        return [one for one in frame if one != token[0]]
    return frame if token[0] in frame else [*frame, *token]


def _chat_template(folder: Path, config: Fields) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        source = MappedFile(path)
        if source.size > _LARGEST_TEMPLATE:
            raise FormatError(f"{path}: expected at most {_LARGEST_TEMPLATE} bytes")
        try:
            return source.data[:].decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not UTF-8 at byte {error.start}") from error
    value = config.values.get("chat_template")
    if not isinstance(value, list):
        return config.text("chat_template") if value is not None else None
    for entry in cast(list[object], value):
        named = Fields(
            cast("dict[str, object]", entry) if isinstance(entry, dict) else {}, config.where
        )
        if named.text("name") == "default":
            return named.text("template")
    return None
