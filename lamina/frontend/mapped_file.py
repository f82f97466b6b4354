"""A file mapped read-only into memory, and NumPy views of its bytes."""

import mmap
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lamina.errors import FormatError, InputError


class MappedFile:
    """The bytes of one regular file, mapped once and never written.

    The mapping keeps the file's old contents alive when another file takes its name. It cannot
    survive the file being cut short in place: the system ends a process that reads what is gone
    (SIGBUS). So `verify_unchanged` is there to be called after a header was read and before
    weights are.
    """

    path: Path
    size: int
    mtime_ns: int
    inode: int
    data: mmap.mmap

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map `path`; `InputError` if it cannot be opened, `FormatError` if it is empty."""
        self.path = Path(path)
        try:
            # A FIFO would block an ordinary open for ever.
            fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{self.path}: cannot be opened: {reason}") from error
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{self.path}: expected a regular file")
            if found.st_size == 0:
                raise FormatError(f"{self.path}: the file is empty")
            self.size, self.mtime_ns = found.st_size, found.st_mtime_ns
            self.inode = found.st_ino
            self.data = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self._bytes = np.frombuffer(self.data, np.uint8)

    def view(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return a read-only array of `shape` at byte `offset`, which must lie in the file."""
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        assert 0 <= offset <= self.size - size
        return self._bytes[offset : offset + size].view(dtype).reshape(shape)

    def release(self) -> None:
        """Drop what is resident; a later read brings it back.

        All of it: where the system caches files in huge pages, a few bytes bring in megabytes.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self.data.madvise(mmap.MADV_DONTNEED)

    def verify_unchanged(self) -> None:
        """Raise `FormatError` if the file was written or cut since it was mapped."""
        changed = FormatError(f"{self.path}: the file was changed while it was read")
        # The mapping has a descriptor of its own, whoever has the file's name by now.
        if self.data.size() != self.size:
            raise changed
        try:
            found = os.stat(self.path)
        except OSError:
            # Without its name the file lives on in the mapping.
            return
        replaced = found.st_ino != self.inode
        if not replaced and (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns):
            raise changed
