"""Instructions on `width` lanes of one element type, 0 lanes being the scalar."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.targets.cpu.builder import Builder
from lamina.targets.cpu.elements import ELEMENTS, F32, F64, I1, Element, splat_literal


@dataclass(frozen=True)
class Lanes:
    """Writes instructions whose operands have the LLVM type of `width` lanes of `kind`."""

    builder: Builder
    kind: Element
    width: int

    @property
    def type(self) -> str:
        """The LLVM type of an operand."""
        return self.kind.of(self.width)

    @property
    def ints(self) -> Lanes:
        """As many integers of as many bits."""
        return self.to(ELEMENTS[f"i{self.kind.bits}"])

    @property
    def floats(self) -> Lanes:
        """As many floats of as many bits, 32 or 64."""
        return self.to(F32 if self.kind.bits == 32 else F64)

    @property
    def suffix(self) -> str:
        """How an intrinsic's name spells the type: v16f32, i64."""
        scalar = {"float": "f32", "double": "f64"}.get(self.kind.llvm, self.kind.llvm)
        return f"v{self.width}{scalar}" if self.width else scalar

    def to(self, kind: Element) -> Lanes:
        """Return the same for another element type."""
        return Lanes(self.builder, kind, self.width)

    def constant(self, value: float) -> str:
        """Return a literal, the same in every lane."""
        return splat_literal(self.kind, self.width, value)

    def op(self, name: str, a: str, b: str) -> str:
        """Return a two-operand instruction: add, fmul, lshr, …"""
        return self.builder.pure(f"{name} {self.type} {a}, {b}", a, b)

    def compare(self, name: str, a: str, b: str) -> str:
        """Return the i1 lanes of a comparison: `olt` for floats, `slt` for integers, …"""
        opcode = "fcmp" if self.kind.floating else "icmp"
        return self.builder.pure(f"{opcode} {name} {self.type} {a}, {b}", a, b)

    def select(self, mask: str, a: str, b: str) -> str:
        """Return a where the mask holds, else b."""
        mask_type = I1.of(self.width)
        text = f"select {mask_type} {mask}, {self.type} {a}, {self.type} {b}"
        return self.builder.pure(text, mask, a, b)

    def convert(self, name: str, x: str, kind: Element) -> str:
        """Return a conversion instruction to `kind`: sext, fptosi, bitcast, …"""
        if self.kind.llvm == kind.llvm and name == "bitcast":
            return x
        return self.builder.pure(f"{name} {self.type} {x} to {kind.of(self.width)}", x)

    def extreme(self, name: str, a: str, b: str, *, number: bool = False) -> str:
        """Return the `max` or `min` of floats: NaN if one is, of two zeros either.

        x86's give their second operand when either is NaN, so that the first need not be looked
        at where it is surely a `number`.
        """
        chosen = self.select(self.compare("ogt" if name == "max" else "olt", a, b), a, b)
        return chosen if number else self.select(self.compare("uno", a, a), a, chosen)

    def call(self, name: str, *operands: str, extra: str = "") -> str:
        """Return a call of an intrinsic whose operands and result have this type."""
        full = f"@llvm.{name}.{self.suffix}"
        types = ", ".join([self.type] * len(operands) + (["i1"] if extra else []))
        self.builder.declare(f"{self.type} {full}({types})")
        values = ", ".join(f"{self.type} {x}" for x in operands)
        tail = f", {extra}" if extra else ""
        return self.builder.pure(f"call {self.type} {full}({values}{tail})", *operands)
