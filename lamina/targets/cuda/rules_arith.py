"""Arithmetic in LLVM: each operation on all registers of its operands at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.cuda.elements import Element, count_of, element, literal, llvm_type
from lamina.targets.cuda.printer import Printer, Rule

_INTEGER_TESTS: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_TESTS: Final = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_INTRINSICS: Final[dict[type[Operation], str]] = {
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    math.AbsFOp: "fabs",
    math.CeilOp: "ceil",
    math.CopySignOp: "copysign",
    math.FloorOp: "floor",
    math.FmaOp: "fma",
    math.RoundEvenOp: "roundeven",
    math.SqrtOp: "sqrt",
    math.TruncOp: "trunc",
}
_INSTRUCTIONS: Final[dict[type[Operation], str]] = {
    arith.AddfOp: "fadd",
    arith.AddiOp: "add",
    arith.AndIOp: "and",
    arith.DivfOp: "fdiv",
    arith.MulfOp: "fmul",
    arith.MuliOp: "mul",
    arith.OrIOp: "or",
    arith.SubfOp: "fsub",
    arith.SubiOp: "sub",
    arith.XOrIOp: "xor",
}
_EXTREMES: Final[dict[type[Operation], str]] = {
    arith.MaxSIOp: "smax",
    arith.MaxUIOp: "umax",
    arith.MinSIOp: "smin",
    arith.MinUIOp: "umin",
}
_SHIFTS: Final[dict[type[Operation], str]] = {
    arith.ShLIOp: "shl",
    arith.ShRSIOp: "ashr",
    arith.ShRUIOp: "lshr",
}
_DIVISIONS: Final[dict[type[Operation], str]] = {
    arith.DivSIOp: "sdiv",
    arith.DivUIOp: "udiv",
    arith.RemSIOp: "srem",
    arith.RemUIOp: "urem",
}


def suffix(type: str) -> str:
    """Return a type as the names of intrinsics end in it: `v4f32`, `bf16`, `i32`."""
    short = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}
    if not type.startswith("<"):
        return short.get(type, type)
    size, _, kind = type[1:-1].partition(" x ")
    return f"v{size}{short.get(kind, kind)}"


def intrinsic(p: Printer, name: str, type: str, *arguments: str) -> str:
    """Call an intrinsic of LLVM that works on any type."""
    typed = [(type, each) for each in arguments]
    return p.call(f"llvm.{name}.{suffix(type)}", type, *typed)


def _instruction(name: str) -> Rule:
    def rule(p: Printer, op: Operation) -> None:
        a, b = op.operands
        p.define(op.results[0], f"{name} {p.typed(a)}, {p.name(b)}")

    return rule


def _intrinsic(name: str) -> Rule:
    def rule(p: Printer, op: Operation) -> None:
        type = llvm_type(op.results[0].type)
        p.set(op.results[0], intrinsic(p, name, type, *(p.name(x) for x in op.operands)))

    return rule


def _extreme(name: str) -> Rule:
    def rule(p: Printer, op: Operation) -> None:
        # The larger of two i1 is true, which as a signed number is -1.
        kind = element(op.results[0].type)
        known = name.replace("s", "u", 1) if kind.bits == 1 else name
        type = llvm_type(op.results[0].type)
        p.set(op.results[0], intrinsic(p, known, type, *(p.name(x) for x in op.operands)))

    return rule


def _shift(name: str) -> Rule:
    def rule(p: Printer, op: Operation) -> None:
        a, b = op.operands
        kind, count, type = element(a.type), count_of(a.type), llvm_type(a.type)
        width = p.full(literal(kind, kind.bits), kind, count)
        fits = p.emit(f"icmp ult {type} {p.name(b)}, {width}")
        nothing = p.full(literal(kind, 0), kind, count)
        mask = "i1" if not count else f"<{count} x i1>"
        by = p.emit(f"select {mask} {fits}, {type} {p.name(b)}, {type} {nothing}")
        moved = p.emit(f"{name} {type} {p.name(a)}, {by}")
        p.define(op.results[0], f"select {mask} {fits}, {type} {moved}, {type} {nothing}")

    return rule


def _division(name: str) -> Rule:
    def rule(p: Printer, op: Operation) -> None:
        a, b = op.operands
        kind, count, type = element(a.type), count_of(a.type), llvm_type(a.type)
        divisors = _known(b.owner)
        if divisors and not {0, -1} & divisors:
            p.define(op.results[0], f"{name} {p.typed(a)}, {p.name(b)}")
            return
        nothing, one = (p.full(literal(kind, n), kind, count) for n in (0, 1))
        mask = "i1" if not count else f"<{count} x i1>"
        empty = p.emit(f"icmp eq {type} {p.name(b)}, {nothing}")
        unsafe, negative = empty, empty
        if name.startswith("s"):
            negative = p.emit(f"icmp eq {type} {p.name(b)}, {p.full('-1', kind, count)}")
            unsafe = p.emit(f"or {mask} {empty}, {negative}")
        by = p.emit(f"select {mask} {unsafe}, {type} {one}, {type} {p.name(b)}")
        found = p.emit(f"{name} {type} {p.name(a)}, {by}")
        if name == "sdiv":
            # By -1 the smallest number wraps.
            minus = p.emit(f"sub {type} {nothing}, {p.name(a)}")
            found = p.emit(f"select {mask} {negative}, {type} {minus}, {type} {found}")
        p.define(op.results[0], f"select {mask} {empty}, {type} {nothing}, {type} {found}")

    return rule


def _known(op: Any) -> set[int]:
    """Return the values of an integer constant, none if it is no constant."""
    if isinstance(op, tile.SplatOp):
        return _known(op.x.owner)
    if not isinstance(op, arith.ConstantOp):
        return set()
    value = cast("Any", op.value)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return {int(n) for n in cast("Any", value).get_values()}
    return {int(value.value.data)}


def _constant(p: Printer, op: arith.ConstantOp) -> None:
    kind, count = element(op.result.type), count_of(op.result.type)
    value = cast("Any", op.value)
    if not count:
        p.set(op.result, literal(kind, value.value.data))
        return
    numbers = list(value.get_values())
    numbers = numbers * count if len(numbers) == 1 else numbers
    p.set(op.result, f"<{', '.join(f'{kind.llvm} {literal(kind, n)}' for n in numbers)}>")


def _negate(p: Printer, op: arith.NegfOp) -> None:
    p.define(op.result, f"fneg {p.typed(op.operand)}")


def _bitcast(p: Printer, op: arith.BitcastOp) -> None:
    p.define(op.result, f"bitcast {p.typed(op.input)} to {llvm_type(op.result.type)}")


def _compare(p: Printer, op: tile.CompareOp) -> None:
    kind, test = element(op.a.type), op.kind.data
    if kind.floating:
        known = f"fcmp {'une' if test == 'ne' else 'o' + test}"
    elif test in ("eq", "ne"):
        known = f"icmp {test}"
    else:
        known = f"icmp {'u' if op.unsigned is not None or kind.bits == 1 else 's'}{test}"
    p.define(op.y, f"{known} {p.typed(op.a)}, {p.name(op.b)}")


def _predicate(word: str, tests: tuple[str, ...]) -> Rule:
    def rule(p: Printer, op: Any) -> None:
        test = tests[cast("int", op.predicate.value.data)]
        p.define(op.result, f"{word} {test} {p.typed(op.lhs)}, {p.name(op.rhs)}")

    return rule


def _select(p: Printer, op: Any) -> None:
    c, a, b = op.operands
    p.define(op.results[0], f"select {p.typed(c)}, {p.typed(a)}, {p.typed(b)}")


def _cast(p: Printer, op: tile.CastOp) -> None:
    source, target, count = element(op.x.type), element(op.y.type), count_of(op.x.type)
    p.set(op.y, cast_registers(p, p.name(op.x), source, target, count, op.unsigned is not None))


def cast_registers(
    p: Printer, x: str, source: Element, target: Element, count: int, unsigned: bool
) -> str:
    """Return registers in another type, as `tile.cast` has it."""

    def convert(word: str, x: str, a: Element, b: Element) -> str:
        return x if a.llvm == b.llvm else p.emit(f"{word} {a.of(count)} {x} to {b.of(count)}")

    if source.floating and target.floating:
        wide = _F32 if source.bits == target.bits == 16 and source != target else source
        x = convert("fpext", x, source, wide)
        return convert("fptrunc" if target.bits < wide.bits else "fpext", x, wide, target)
    if target.floating:
        word = "uitofp" if unsigned or source.bits == 1 else "sitofp"
        return p.emit(f"{word} {source.of(count)} {x} to {target.of(count)}")
    if source.floating:
        wide = _F32 if source.bits == 16 else source
        x = convert("fpext", x, source, wide)
        x = intrinsic(p, "roundeven", wide.of(count), x)
        if target.bits == 1:
            # LLVM's conversion to i1 gives the opposite for PTX.
            return p.emit(f"fcmp oge {wide.of(count)} {x}, {p.full('1.0', wide, count)}")
        word = "fptoui" if unsigned else "fptosi"
        name = f"llvm.{word}.sat.{suffix(target.of(count))}.{suffix(wide.of(count))}"
        return p.call(name, target.of(count), (wide.of(count), x))
    if target.bits < source.bits:
        return convert("trunc", x, source, target)
    return convert("zext" if unsigned or source.bits == 1 else "sext", x, source, target)


_F32: Final = Element("f32", "float", 32, floating=True)


def _table(table: dict[type[Operation], str], make: Callable[[str], Rule]) -> dict[Any, Rule]:
    return {op: make(name) for op, name in table.items()}


RULES: Final[dict[type[Operation], Rule]] = {
    **_table(_INSTRUCTIONS, _instruction),
    **_table(_INTRINSICS, _intrinsic),
    **_table(_EXTREMES, _extreme),
    **_table(_SHIFTS, _shift),
    **_table(_DIVISIONS, _division),
    arith.BitcastOp: _bitcast,
    arith.CmpfOp: _predicate("fcmp", _FLOAT_TESTS),
    arith.CmpiOp: _predicate("icmp", _INTEGER_TESTS),
    arith.ConstantOp: _constant,
    arith.NegfOp: _negate,
    arith.SelectOp: _select,
    tile.CastOp: _cast,
    tile.CompareOp: _compare,
    tile.SelectOp: _select,
}
