"""What the interpreter says of a kernel that does wrong."""

from __future__ import annotations

from lamina.errors import LaminaError


class KernelFault(LaminaError):
    """A kernel did what hardware would not survive, or would answer at random.

    `kind` is one of race, bounds, alignment, pending (a copy that has not arrived), barrier,
    divergence, conflict (two values stored to one place at once), trap, endless; `kernel` and
    `line` say where it happened, `block` and `thread` are (x, y, z).
    """

    def __init__(
        self,
        kind: str,
        what: str,
        kernel: str,
        line: int,
        block: tuple[int, ...],
        thread: tuple[int, ...],
    ) -> None:
        super().__init__(
            f"kernel {kernel}, PTX line {line}, block {block}, thread {thread}: {what}"
        )
        self.kind = kind
        self.kernel = kernel
        self.line = line
        self.block = block
        self.thread = thread
