"""The merges of large vocabularies, kept in the cache folder by what they were made of."""

import struct
import warnings
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamina import knobs
from lamina.atomic_file import write_whole

_VERSION: Final = b"1"
_DIGEST: Final = 32


def digest_of(tokens: Iterable[str], types: npt.NDArray[Any], scores: npt.NDArray[Any]) -> str:
    """Return what tells a vocabulary apart from any other, in hexadecimal digits."""
    state = sha256(_VERSION)
    for part in ("\0".join(tokens).encode(), types.tobytes(), scores.tobytes()):
        state.update(struct.pack("<Q", len(part)))
        state.update(part)
    return state.hexdigest()


def find_merges(digest: str) -> npt.NDArray[np.int32] | None:
    """Return the pairs kept for a vocabulary, int32 [n, 2], or None if there are none.

    A file that is not as it was written is named in a warning and ignored.
    """
    path = _path(digest)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[_DIGEST:]
    if _seal(digest, body) != data[:_DIGEST]:
        warnings.warn(f"{path}: is not as it was written; it is made again", stacklevel=2)
        return None
    return np.frombuffer(body, "<i4").astype(np.int32, copy=False).reshape(-1, 2)


def keep_merges(digest: str, pairs: npt.NDArray[np.int32]) -> None:
    """Keep the pairs of a vocabulary; where they cannot be written, warn and go on without."""
    path = _path(digest)
    if path is None:
        return
    body = pairs.astype("<i4").tobytes()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, [_seal(digest, body), body])
    except OSError as error:
        warnings.warn(f"{path}: cannot be kept: {error.strerror}", stacklevel=2)


def _seal(digest: str, body: bytes) -> bytes:
    return sha256(digest.encode() + body).digest()


def _path(digest: str) -> Path | None:
    """Return where a vocabulary's merges are kept; None if nothing is to be kept."""
    folder = knobs.kept_dir()
    return None if folder is None else folder / "merges" / digest
