"""Files that a model's own files name: they stay inside the model's folder."""

from pathlib import Path

from lamina.errors import FormatError
from lamina.frontend.shown import shown


def member(folder: Path, name: object, where: str) -> Path:
    """Return `folder / name` for a plain file name, or raise a `FormatError` that begins `where`.

    Separators, `..`, drives and control characters are refused. The file itself may be a link,
    since download caches keep a folder of links.
    """
    plain = (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not set(name) & set("/\\:")
        and name.isprintable()
        and len(name.encode()) <= 255
    )
    if not plain:
        raise FormatError(
            f"{where}: expected the name of a file in the same folder, got {shown(name)}"
        )
    return folder / str(name)
