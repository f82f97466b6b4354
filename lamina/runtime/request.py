"""A prompt to go on from, and how."""

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.errors import InputError
from lamina.runtime.sampling_params import SamplingParams


@dataclass(frozen=True)
class Request:
    """A prompt's token ids, how to choose what follows, and `choice` among equal requests."""

    prompt: Sequence[int]
    params: SamplingParams
    choice: int = 0


@dataclass(frozen=True)
class Limits:
    """How long a sequence can be: `context` of the model (None: any), `capacity` of the cache.

    Both count positions; the last token of a sequence needs none, as nothing comes after it.
    """

    context: int | None
    capacity: int

    def check_length(self, tokens: int, name: str) -> None:
        """Raise `InputError`, saying `name`, if so many tokens cannot be run at all."""
        if self.context is not None and tokens > self.context:
            raise InputError(
                f"{name} has {tokens} tokens, but the context of the model is {self.context}"
            )
        if tokens > self.capacity:
            raise InputError(
                f"{name} needs {tokens} positions, but the cache has {self.capacity} in all: "
                "raise cache_tokens"
            )

    def new_tokens(self, request: Request, name: str) -> int:
        """Return how many tokens may follow: those asked for, or what the context has room for.

        Raises `InputError`, saying `name`, if the prompt is longer than the context, or prompt
        and new tokens than the whole cache.
        """
        length, wanted = len(request.prompt), request.params.max_new_tokens
        if self.context is not None and length <= self.context:
            wanted = min(wanted, self.context - length + 1)
        self.check_length(length, name)
        if length + wanted - 1 > self.capacity:
            raise InputError(
                f"{name} has {length} tokens and {wanted} may follow, but the cache has "
                f"{self.capacity} positions in all: raise cache_tokens or lower max_new_tokens"
            )
        return wanted
