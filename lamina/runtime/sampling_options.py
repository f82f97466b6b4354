"""The sampling options of a call, all of them optional."""

from collections.abc import Sequence
from typing import TypedDict


class SamplingOptions(TypedDict, total=False):
    """What `SamplingParams` says of each field."""

    max_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int | None
    stop: Sequence[str]
    include_stop_str_in_output: bool
