"""Straight-line programs of LLVM IR on integers and floats, drawn at random."""

import random
import re
from collections.abc import Callable

INPUTS = {
    "%a0": "i32",
    "%a1": "i32",
    "%b0": "i64",
    "%b1": "i64",
    "%f0": "float",
    "%f1": "float",
    "%d0": "double",
    "%d1": "double",
    "%h0": "half",
    "%h1": "half",
}
"""Every program's inputs: each in 8 bytes of its own."""

BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
PLAIN = ("add", "sub", "mul", "and", "or", "xor")
CALLED = ("smax", "umin", "sadd.sat", "usub.sat", "uadd.sat", "ssub.sat")
ORDERS = ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge")
RELATIONS = ("oeq", "one", "olt", "ogt", "ord", "uno", "ueq", "une", "ult", "uge")


class Program:
    """Values by their type, and the lines that compute them."""

    def __init__(self, seed: int, *, halves: bool, length: int = 60) -> None:
        self._random = random.Random(seed)
        self.values: dict[str, list[str]] = {kind: [] for kind in (*BITS, "i1")}
        for name, kind in INPUTS.items():
            self.values[kind].append(name)
        self.lines: list[str] = []
        for kind in ("i16", "i8"):
            self.let(kind, f"trunc i32 %a0 to {kind}")
            self.let(kind, f"trunc i64 %b1 to {kind}")
        self.let("i1", "icmp ult i32 %a0, %a1")
        steps: tuple[Callable[[], None], ...] = (
            *(self.integer, self.shift, self.divide, self.bits),
            *(self.resize, self.compare, self.floating, self.floating, self.cross),
            *([self.halves] if halves else []),
        )
        for _ in range(length):
            self._random.choice(steps)()

    def let(self, kind: str, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.values[kind].append(name)
        return name

    def pick(self, kind: str) -> str:
        known = self.values[kind]
        if kind.startswith("i") and kind != "i1" and self._random.random() < 0.15:
            return str(self._random.choice([0, 1, -1, 7, (1 << BITS[kind] - 1) - 1]))
        return self._random.choice(known[-6:] if self._random.random() < 0.6 else known)

    def _kind(self) -> str:
        return self._random.choice(("i8", "i16", "i32", "i64"))

    def integer(self) -> None:
        t = self._kind()
        operands = f"{self.pick(t)}, {self.pick(t)}"
        if self._random.random() < 0.6:
            self.let(t, f"{self._random.choice(PLAIN)} {t} {operands}")
        else:
            a, b = operands.split(", ")
            self.let(t, f"call {t} @llvm.{self._random.choice(CALLED)}.{t}({t} {a}, {t} {b})")

    def shift(self) -> None:
        t = self._kind()
        if self._random.random() < 0.5:
            by = self.let(t, f"and {t} {self.pick(t)}, {BITS[t] - 1}")
            self.let(t, f"{self._random.choice(('shl', 'lshr', 'ashr'))} {t} {self.pick(t)}, {by}")
        else:
            three = ", ".join(f"{t} {self.pick(t)}" for _ in range(3))
            self.let(t, f"call {t} @llvm.{self._random.choice(('fshl', 'fshr'))}.{t}({three})")

    def divide(self) -> None:
        t = self._kind()
        odd = self.let(t, f"or {t} {self.pick(t)}, 1")
        by = self.let(t, f"and {t} {odd}, {(1 << BITS[t] - 1) - 1}")
        name = self._random.choice(("udiv", "sdiv", "urem", "srem"))
        self.let(t, f"{name} {t} {self.pick(t)}, {by}")

    def bits(self) -> None:
        t = self._kind()
        name = self._random.choice(("ctpop", "bitreverse", "ctlz", "cttz", "abs"))
        flag = ", i1 false" if name in ("ctlz", "cttz", "abs") else ""
        self.let(t, f"call {t} @llvm.{name}.{t}({t} {self.pick(t)}{flag})")

    def resize(self) -> None:
        a, b = self._random.sample(("i8", "i16", "i32", "i64"), 2)
        wider = self._random.choice(("sext", "zext"))
        self.let(b, f"{wider if BITS[a] < BITS[b] else 'trunc'} {a} {self.pick(a)} to {b}")

    def compare(self) -> None:
        t = self._kind()
        if self._random.random() < 0.5:
            self.let("i1", f"icmp {self._random.choice(ORDERS)} {t} {self.pick(t)}, {self.pick(t)}")
            self.let(
                "i1",
                f"fcmp {self._random.choice(RELATIONS)} float {self.pick('float')}, {self.pick('float')}",
            )
        self.let(t, f"select i1 {self.pick('i1')}, {t} {self.pick(t)}, {t} {self.pick(t)}")

    def floating(self) -> None:
        t, short = self._random.choice((("float", "f32"), ("double", "f64"), ("float", "f32")))
        if self._random.random() < 0.5:
            name = self._random.choice(("fadd", "fsub", "fmul", "fdiv"))
            self.let(t, f"{name} {t} {self.pick(t)}, {self.pick(t)}")
        elif self._random.random() < 0.5:
            three = ", ".join(f"{t} {self.pick(t)}" for _ in range(3))
            self.let(t, f"call {t} @llvm.fma.{short}({three})")
        else:
            name = self._random.choice(("sqrt", "floor", "roundeven", "trunc", "ceil", "fabs"))
            self.let(t, f"call {t} @llvm.{name}.{short}({t} {self.pick(t)})")

    def cross(self) -> None:
        f, short = self._random.choice((("float", "f32"), ("double", "f64")))
        t = self._random.choice(("i16", "i32", "i64"))
        sign = self._random.choice("su")
        if self._random.random() < 0.5:
            self.let(f, f"{sign}itofp {t} {self.pick(t)} to {f}")
        else:
            self.let(t, f"call {t} @llvm.fpto{sign}i.sat.{t}.{short}({f} {self.pick(f)})")

    def halves(self) -> None:
        self.let("float", f"fpext half {self.pick('half')} to float")
        self.let("half", f"fptrunc float {self.pick('float')} to half")
        name = self._random.choice(("fadd", "fsub", "fmul"))
        self.let("half", f"{name} half {self.pick('half')}, {self.pick('half')}")

    def function(self, head: str, foot: str = "") -> tuple[str, int]:
        """The program as a function from %in to %out, and how many results it has.

        Each is in 8 bytes of its own; NaN is 77, since machines differ in its bits.
        """
        lines = [head]
        for n, (name, kind) in enumerate(INPUTS.items()):
            lines += [
                f"  %p{n} = getelementptr i64, ptr %in, i32 {n}",
                f"  {name} = load {kind}, ptr %p{n}",
            ]
        lines += self.lines
        results = [(kind, value) for kind, known in self.values.items() for value in known[-4:]]
        for n, (kind, value) in enumerate(results):
            lines += _stored(n, kind, value)
        text = "\n".join([*lines, foot, "  ret void", "}"])
        called = re.findall(r"call (\w+) @(llvm\.[\w.]+)\(([^)]*)\)", text)
        declared = {
            f"declare {kind} @{name}({', '.join(arg.split()[0] for arg in args.split(','))})"
            for kind, name, args in called
            if "sreg" not in name
        }
        return "\n".join([*sorted(declared), text]), len(results)


def _stored(n: int, kind: str, value: str) -> list[str]:
    lines = [f"  %q{n} = getelementptr i64, ptr %out, i32 {n}"]
    if not kind.startswith("i"):
        bits = f"i{BITS[kind]}"
        lines += [
            f"  %n{n} = fcmp uno {kind} {value}, {value}",
            f"  %c{n} = bitcast {kind} {value} to {bits}",
            f"  %s{n} = select i1 %n{n}, {bits} 77, {bits} %c{n}",
        ]
        kind, value = bits, f"%s{n}"
    if kind != "i64":
        lines.append(f"  %z{n} = zext {kind} {value} to i64")
        value = f"%z{n}"
    return [*lines, f"  store i64 {value}, ptr %q{n}"]
