"""The tokenizer of a `tokenizer.json`, whatever is in it."""

import tokenizers

from lamina.errors import FormatError
from lamina.frontend.shown import shown

_PANIC = "PanicException"


def read_backend(data: bytes, where: object) -> tokenizers.Tokenizer:
    """Return the tokenizer that `data` describes; `FormatError` names `where` if it is none."""
    try:
        return tokenizers.Tokenizer.from_buffer(data)
    except BaseException as error:
        # A panic of the library is no Exception, and has no class that could be imported.
        if isinstance(error, Exception) or type(error).__name__ == _PANIC:
            raise FormatError(f"{where}: not a tokenizer: {shown(str(error))}") from error
        raise
