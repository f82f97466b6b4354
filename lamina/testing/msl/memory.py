"""Memory that this process and the one that runs kernels both have."""

from __future__ import annotations

import mmap
import os
from weakref import finalize

from lamina.testing.msl.errors import MslError


class Memory:
    """`size` bytes, zero at first; `view` is a writable view of them, good while this lives."""

    def __init__(self, size: int, data: bytes | memoryview | None = None) -> None:
        """Take memory, holding `data` if that is given; `MslError` if the system has none."""
        self.size = size
        try:
            self.file = os.memfd_create("lamina-msl")
            os.ftruncate(self.file, max(size, 1))
            # The mapping lives as long as a view of it does.
            self._map = mmap.mmap(self.file, max(size, 1))
        except OSError as error:
            raise MslError(f"a buffer of {size} bytes cannot be had: {error.strerror}") from None
        finalize(self, os.close, self.file)
        self.view = memoryview(self._map)[:size]
        if data is not None:
            self.view[:] = data
