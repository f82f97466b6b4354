"""LLVM IR text, built so that it needs little work afterwards.

A pure instruction is written once (equal ones share a name) and as far out as its operands allow,
so loop-invariant values are hoisted while they are being written.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Scope:
    """The text of one region: `lines` so far, the `label` of the block that is open at its end.

    A `guarded` scope is a branch of an `if`: nothing is hoisted out of it. `counter` is the
    induction variable of a loop.
    """

    label: str
    guarded: bool = False
    counter: str | None = None
    lines: list[str] = field(default_factory=list[str])
    known: dict[Hashable, str] = field(default_factory=dict[Hashable, str])


class Builder:
    """Writes the body of one function and the declarations that it needs."""

    def __init__(self) -> None:
        self.scopes = [Scope("entry", guarded=True)]
        self.level = 0
        self.declarations: dict[str, None] = {}
        self.globals: dict[str, str] = {}
        self._depth: dict[str, int] = {}
        self._names = 0

    @property
    def scope(self) -> Scope:
        """The scope that is being written."""
        return self.scopes[self.level]

    def fresh(self) -> str:
        """Return a name for a value or label, without its % sign."""
        self._names += 1
        return f"v{self._names}"

    def pure(self, text: str, *operands: str) -> str:
        """Return the name of the value `text`, hoisted as far as `operands` and `if`s allow."""
        depth = self._floor()
        for operand in operands:
            depth = max(depth, self.depth(operand))
        scope = self.scopes[depth]
        name = scope.known.get(text)
        if name is None:
            name = scope.known[text] = self._define(text, depth)
        return name

    def value(self, text: str) -> str:
        """Return the name of a value that must be computed here: a load, a call with effects."""
        return self._define(text, self.level)

    def effect(self, text: str) -> None:
        """Write an instruction that has no result."""
        self.scope.lines.append("  " + text)

    def adopt(self, name: str, level: int) -> None:
        """Declare that `name` (a phi written by hand) is defined at scope `level`."""
        self._depth[name] = level

    @contextmanager
    def at(self, level: int) -> Generator[None]:
        """Write at the end of the open scope `level` for the duration of the context."""
        outer, self.level = self.level, level
        try:
            yield
        finally:
            self.level = outer

    def open(self, label: str, *, guarded: bool = False, counter: str | None = None) -> None:
        """Begin the region whose first block is `label`."""
        self.scopes.append(Scope(label, guarded, counter))
        self.level = len(self.scopes) - 1
        if counter is not None:
            self.adopt(counter, self.level)

    def close(self) -> Scope:
        """End the innermost region and return it; its text is the caller's to place."""
        scope = self.scopes.pop()
        self.level = len(self.scopes) - 1
        return scope

    def block(self, label: str) -> None:
        """Begin a basic block in the current scope."""
        self.scope.lines.append(f"{label}:")
        self.scope.label = label

    def depth(self, name: str) -> int:
        """Return the scope where `name` is defined; arguments and literals are at 0."""
        return self._depth.get(name, 0)

    def declare(self, signature: str) -> None:
        """Declare an intrinsic once: `float @llvm.fma.f32(float, float, float)`."""
        self.declarations[f"declare {signature}"] = None

    def _define(self, text: str, depth: int) -> str:
        name = "%" + self.fresh()
        self._depth[name] = depth
        self.scopes[depth].lines.append(f"  {name} = {text}")
        return name

    def _floor(self) -> int:
        for depth in range(self.level, -1, -1):
            if self.scopes[depth].guarded:
                return depth
        return 0
