"""What a request comes to."""

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Completion:
    """A prompt's continuation.

    `text` ends before a stop string and leaves control tokens out; `token_ids` are all tokens
    that were generated, an end of sequence and those of a stop string included. `finish_reason`
    is "stop" for these two, "length" for the limit asked for or the model's context.
    `timings` has seconds, `load_s` and `compile_s` of the model, `prefill_s` from the call to the
    first token and `decode_s` for the others, and the counts `prompt_tokens` and `new_tokens`.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    timings: dict[str, float]
