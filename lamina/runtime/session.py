"""A decoder that is ready to run steps: an executable, its memory, and its page pools."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, runtime_checkable

from lamina.arguments import whole_number
from lamina.runtime.batch import Batch, Part
from lamina.runtime.chunk_size import ChunkSize
from lamina.runtime.decoder import LOGITS, names_by_role, page_size, query_block, vocabulary_size
from lamina.runtime.pages import PageAllocator
from lamina.runtime.pools import allocate_pools
from lamina.targets.base import Array, Executable

T = TypeVar("T")

_MOST_TOKENS: Final = 2**31 - 1


class Resident(Protocol):
    """One caller's memory for an executable: states that stay, outputs used again."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; the next call writes over the outputs."""
        ...


@runtime_checkable
class Lending(Protocol):
    """An executable that lends a caller memory for many calls."""

    def session(self, states: Mapping[str, Array]) -> Resident:
        """Return memory for calls that update `states`."""
        ...


class Session:
    """Runs steps of a decoder over one set of page pools; threads may share it, one step at a time.

    All memory is allocated here, once. Sequences own pages through `pages`, a step writes their
    keys and values there.
    """

    executable: Executable
    """The code and weights that it runs."""
    pages: PageAllocator
    """Who has which pages."""
    page: int
    """Positions in a page."""
    capacity: int
    """Positions for which keys and values can be kept, of all sequences together."""
    vocabulary: int
    """Logits in a row."""
    chunk: ChunkSize
    """How many prompt tokens a step may take."""

    def __init__(
        self,
        executable: Executable,
        cache_tokens: int,
        *,
        chunk_tokens: int | None = None,
        page_seed: int | None = None,
    ) -> None:
        """Allocate pools for `cache_tokens` positions, pages lent in the order of `page_seed`.

        Raises `InputError` if the executable is no decoder or there is no memory.
        """
        self.executable = executable
        signature = executable.signature
        self._names = names_by_role(signature)
        self.vocabulary = vocabulary_size(signature)
        cache_tokens = whole_number(cache_tokens, "cache_tokens", 1, _MOST_TOKENS)
        self.page = page_size(signature)
        self.capacity = cache_tokens
        count = self.pages_for(cache_tokens)
        self._run = _runner(executable, allocate_pools(signature.states, count))
        self.pages = PageAllocator(count, page_seed)
        self.chunk = ChunkSize(chunk_tokens)
        self._batch = Batch(query_block(signature))
        self._lock = threading.Lock()

    def pages_for(self, positions: int) -> int:
        """Return how many pages hold `positions` positions."""
        return -(-positions // self.page)

    def step(self, parts: Sequence[Part], read: Callable[[Array], T]) -> T:
        """Run `parts` and return what `read` makes of the logits.

        They are float32 [R, vocabulary], R the rows of all parts in order; the next step, maybe
        of another thread, writes over them as soon as `read` returns.
        """
        with self._lock:
            inputs = self._batch.fill(parts)
            outputs = self._run({name: inputs[role] for role, name in self._names})
            return read(outputs[LOGITS])


def _runner(
    executable: Executable, pools: Mapping[str, Array]
) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
    if isinstance(executable, Lending):
        return executable.session(pools).run
    bound = partial(executable, **pools)
    return lambda inputs: bound(**inputs)
