"""A decoder that is ready to run steps: an executable, its memory, and its page pools."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from lamina.arguments import whole_number
from lamina.own_lock import OwnLock
from lamina.runtime.batch import Batch, Integers, Part
from lamina.runtime.chunk_size import ChunkSize
from lamina.runtime.decoder import LOGITS, names_by_role, page_size, query_block, vocabulary_size
from lamina.runtime.growing_pools import GrowingPools
from lamina.runtime.pages import PageAllocator
from lamina.targets.base import Array, Executable

T = TypeVar("T")

_MOST_TOKENS: Final = 2**31 - 1


class Session(OwnLock):
    """Runs steps of a decoder over one set of page pools; threads may share it, one step at a time.

    Sequences own pages through `pages`, a step writes their keys and values there. The pools hold
    the pages of the sequences that were stepped so far.
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
        """Have pages for `cache_tokens` positions, lent in the order of `page_seed`.

        Raises `InputError` if the executable is no decoder or there is no memory.
        """
        super().__init__()
        self.executable = executable
        signature = executable.signature
        self._names = names_by_role(signature)
        self.vocabulary = vocabulary_size(signature)
        cache_tokens = whole_number(cache_tokens, "cache_tokens", 1, _MOST_TOKENS)
        self.page = page_size(signature)
        self.capacity = cache_tokens
        count = self.pages_for(cache_tokens)
        self._pools = GrowingPools(executable, count)
        self.pages = PageAllocator(count, page_seed)
        self.chunk = ChunkSize(chunk_tokens)
        self._batch = Batch(query_block(signature))
        self._table: Integers | None = None

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
            self._reach(inputs["table"])
            outputs = self._pools.run({name: inputs[role] for role, name in self._names})
            return read(outputs[LOGITS])

    def _reach(self, table: Integers) -> None:
        """Have all pages of a table; what others were lent may be more than there is room for."""
        if table is not self._table:
            self._pools.reach(1 + int(table.max(initial=-1)))
            self._table = table
