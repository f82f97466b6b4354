"""What LLVM must not see through, where what it would conclude costs registers."""

from __future__ import annotations

from lamina.targets.cpu.builder import Builder


def varying(builder: Builder, pointer: str, home: int) -> str:
    """Return `pointer` so that loads through it stay in the innermost loop.

    Hoisted out to scope `home`, the broadcasts of a whole tile would not fit in the registers.
    """
    counter = builder.scope.counter
    if builder.level == home or counter is None or builder.depth(pointer) == builder.level:
        return pointer
    text = f'call ptr asm "", "=r,0,r"(ptr {pointer}, i64 {counter}) #1'
    return builder.pure(text, pointer, counter)


def opaque(builder: Builder, pointer: str) -> str:
    """Return `pointer` so that what was stored is not forwarded to loads through it.

    A vector in memory can be broadcast element by element; one in a register is shuffled.
    """
    return builder.pure(f'call ptr asm "", "=r,0"(ptr {pointer}) #1', pointer)
