"""A kernel as a C function: every value is an array, every operation a loop over its elements."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from itertools import count
from math import prod
from typing import Any, Final, cast

from xdsl.dialects import arith, math, scf
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import KernelOp, element_of, shape_of, values

WIDE: Final = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64"}


class Printer:
    """The text so far, what each value is called in it, and the nodes that checks name."""

    def __init__(self) -> None:
        self.lines = [files("lamina_c").joinpath("prelude.h").read_text(encoding="utf-8")]
        self.nodes: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.fresh = map("v{}".format, count())
        self.add = self.lines.append

    def kernel(self, kernel: KernelOp, name: str) -> None:
        """Print `void name(a, error)`; `a` has the grid, the memrefs and the indices."""
        self.add(f"void {name}(const i64 *restrict a, i32 *error) {{")
        word = 3
        for value in kernel.body.block.args:
            self.names[value] = f"(a + {word})"
            word += 1 + 2 * getattr(value.type, "get_num_dims", lambda: 0)()
        with self.each(["a[0]", "a[1]", "a[2]"]) as self.program:
            self.block(kernel.body.block)
        self.add("}")

    def block(self, block: Block, results: Sequence[str] = ()) -> None:
        """Print a block, which copies what it yields to `results`."""
        for op in block.ops:
            RULES[type(op)](self, op)
        self.copy(block.last_op.operands if results and block.last_op else (), results)

    def declare(self, value: SSAValue) -> str:
        """Declare the array of a value; return its name."""
        self.names[value] = next(self.fresh)
        self.add(f"{kind_of(value)} {self.names[value]}[{prod(shape_of(value.type))}];")
        return self.names[value]

    def at(self, value: SSAValue, c: Sequence[str]) -> str:
        """Return an element of a value."""
        return widened(kind_of(value), f"{self.names[value]}[{place(c, shape_of(value.type))}]")

    def set(self, value: SSAValue, where: str, text: str) -> None:
        """Print the assignment of an element."""
        narrow = {"bf16": "to_bf16({})", "i1": "({}) & 1"}.get(kind_of(value), "{}")
        self.add(f"{self.names[value]}[{where}] = {narrow.format(text)};")

    @contextmanager
    def each(self, counts: Iterable[int | str]) -> Generator[list[str]]:
        """Print loops around what is printed inside; give their counters."""
        counters = ["0" if n == 1 else next(self.fresh) for n in counts]
        loops = [(i, n) for i, n in zip(counters, counts, strict=True) if n != 1]
        self.add("".join(f"for (i64 {i} = 0; {i} < {n}; {i}++) " for i, n in loops) + "{")
        yield counters
        self.add("}")

    def copy(self, values: Sequence[SSAValue], names: Sequence[str]) -> None:
        """Copy values into the arrays `names`, as if all at once."""
        for name, value in zip(names, values, strict=False):
            self.add(
                f"typeof({name}) {name}_; memcpy({name}_, {self.names[value]}, sizeof {name});"
            )
        self.lines += [f"memcpy({name}, {name}_, sizeof {name});" for name in names[: len(values)]]


def kind_of(value: SSAValue) -> str:
    """Return the C type of the elements of a scalar, vector or memref."""
    return str(element_of(value.type)).replace("index", "i64")


def widened(kind: str, text: str) -> str:
    """Return what is stored as a number to compute with."""
    return f"from_bf16({text})" if kind == "bf16" else f"(({WIDE.get(kind, kind)}){text})"


def place(counters: Sequence[str], shape: Sequence[int]) -> str:
    """Return the row-major position of an element."""
    return " + ".join(f"{c} * {prod(shape[d + 1 :])}" for d, c in enumerate(counters)) or "0"


def _map(template: str, p: Printer, op: Operation, c: list[str]) -> str:
    kind = kind_of(op.operands[0])
    return template.format(*(p.at(x, c) for x in op.operands), u=f"u{kind[1:]}", bits=kind[1:])


def _cast(p: Printer, op: tile.CastOp, c: list[str]) -> str:
    source, target = kind_of(op.x), kind_of(op.y)
    if source in WIDE and target not in WIDE:
        return f"saturate({p.at(op.x, c)}, {target[1:]}, {+(not op.unsigned and target != 'i1')})"
    bits = "({u})" if op.unsigned and source not in WIDE else ""
    return _map(f"{'(f64)' * (target in WIDE)}{bits}{{0}}", p, op, c)


def _constant(p: Printer, op: arith.ConstantOp, c: list[str]) -> str:
    kind, shape, value = kind_of(op.result), shape_of(op.result.type), cast("Any", op.value)
    numbers = map(str, getattr(value, "get_values", lambda: [value.value.data])())
    return f"((const {WIDE.get(kind, kind)}[]){{{', '.join(numbers).upper()}}})[{place(c, shape)}]"


def _join(p: Printer, op: tile.JoinOp, c: list[str]) -> str:
    dim, text, start = op.dim.value.data, "0", 0
    for x in op.xs:
        inner = [*c[:dim], f"({c[dim]} - {start})", *c[dim + 1 :]]
        text = f"{c[dim]} >= {start} ? {p.at(x, inner)} : {text}"
        start += shape_of(x.type)[dim]
    return text


def _scan(p: Printer, op: tile.ScanOp, c: list[str]) -> str:
    dim, x = op.dim.value.data, p.at(op.x, c)
    before = p.at(op.y, [*c[:dim], f"({c[dim]} - 1)", *c[dim + 1 :]])
    return f"{c[dim]} ? {FOLDS[op.kind.data].format(before, x)} : {x}"


def _access(p: Printer, op: tile.LoadOp | tile.StoreOp, c: list[str]) -> tuple[str, str]:
    x, zipped, terms, tests = p.names[op.x], values(op.zip), ["0"], ["1"]
    for d, at in enumerate(op.at):
        i = c[zipped[0] if d in zipped else d]
        one = f"({p.names[at]}[0] + {i} * {op.steps[d]})"
        s = f"{p.names[at]}[{i}]" if shape_of(at.type) else one
        terms.append(f"{s} * {x}[{1 + len(op.at) + d}]")
        tests += [] if d in values(op.in_bounds) else [f"{s} >= 0 && {s} < {x}[{1 + d}]"]
        tests += [f"{s} < {p.names[op.limits[d]]}[0]"] if d in op.limits else []
    return f"(({kind_of(op.x)} *){x}[0])[{' + '.join(terms)}]", " && ".join(tests)


def _load(p: Printer, op: tile.LoadOp, c: list[str]) -> str:
    where, inside = _access(p, op, c)
    pad = cast("Any", op.pad).value.data if op.pad else 0
    return f"{inside} ? {widened(kind_of(op.x), where)} : {str(pad).upper()}"


def _fill(text: Callable[[Printer, Any, list[str]], str], p: Printer, op: Operation) -> None:
    shape = op.tile_shape if isinstance(op, tile.LoadOp) else shape_of(op.results[0].type)
    p.declare(op.results[0])
    with p.each(shape) as c:
        p.set(op.results[0], place(c, shape), text(p, op, c))


def _store(p: Printer, op: tile.StoreOp) -> None:
    with p.each(op.tile_shape) as c:
        where, inside = _access(p, op, c)
        p.add(f"if ({inside}) {where} = {p.names[op.v]}[{place(c, op.tile_shape)}];")


def _scratch(p: Printer, op: tile.ScratchOp) -> None:
    shape: tuple[int, ...] = cast("Any", op.y.type).get_shape()
    words = [*shape, *(prod(shape[d + 1 :]) for d in range(len(shape)))]
    name = p.names[op.y] = next(p.fresh)
    p.add(f"{kind_of(op.y)} {name}_[{max(1, prod(shape))}];")
    p.add(f"const i64 {name}[] = {{(i64){name}_, {', '.join(map(str, words))}}};")


def _dot(p: Printer, op: tile.DotOp) -> None:
    contract, batch, out = tile.pairs(op.contract), tile.pairs(op.batch), shape_of(op.y.type)
    p.copy([op.acc], [p.declare(op.y)])
    with p.each([shape_of(op.a.type)[i] for i, _ in contract]) as inner, p.each(out) as outer:
        free, texts = iter(outer[len(batch) :]), list[str]()
        for side, x in enumerate((op.a, op.b)):
            dims = [pair[side] for pair in (*batch, *contract)]
            known = dict(zip(dims, (*outer[: len(batch)], *inner), strict=True))
            text = p.at(x, [known.get(d) or next(free) for d in range(len(shape_of(x.type)))])
            texts.append(f"(u8){text}" if (values(op.unsigned) or (0, 0))[side] else text)
        template = "fma({0}, {1}, {2})" if kind_of(op.y) in WIDE else "{2} + {0} * {1}"
        p.set(op.y, place(outer, out), template.format(*texts, p.at(op.y, outer)))


def _reduce(p: Printer, op: tile.ReduceOp) -> None:
    shape, dims, kind, name = shape_of(op.x.type), values(op.dims), kind_of(op.x), op.kind.data
    rest = [d for d in range(len(shape)) if d not in dims]
    for result in op.results:
        p.declare(result)
    with p.each([shape[d] for d in rest]) as outer:
        p.add(f"{WIDE.get(kind, kind)} t = 0, x; i32 at = 0, n = 0;")
        with p.each([shape[d] for d in dims]) as inner:
            known = dict(zip((*rest, *dims), (*outer, *inner), strict=True))
            p.add(f"x = {p.at(op.x, [known[d] for d in range(len(shape))])};")
            better = f"x {'>' if name == 'argmax' else '<'} t || (x != x && t == t)"
            fold = f"t = n++ ? {FOLDS.get(name, '').format('t', 'x')} : x;"
            p.add(f"if (!n++ || {better}) t = x, at = {inner[0]};" if op.position else fold)
        for result, text in zip(op.results, ("t", "at"), strict=False):
            p.set(result, place(outer, [shape[d] for d in rest]), text)


def _check(p: Printer, op: tile.CheckOp) -> None:
    p.nodes.append(op.node.data)
    with p.each(shape_of(op.ok.type)) as c:
        p.add(f"if (!{p.at(op.ok, c)} && !*error) *error = {len(p.nodes)};")


def _for(p: Printer, op: scf.ForOp) -> None:
    names, (counter, *carried) = [p.declare(value) for value in op.results], op.body.block.args
    p.copy(op.iter_args, names)
    p.names.update(zip(carried, names, strict=True))
    i, (low, high, step) = p.declare(counter), (p.names[x] for x in (op.lb, op.ub, op.step))
    p.add(f"for (*{i} = *{low}; *{i} < *{high}; *{i} += *{step}) {{")
    p.block(op.body.block, names)
    p.add("}")


def _if(p: Printer, op: scf.IfOp) -> None:
    names = [p.declare(value) for value in op.results]
    for test, region in (("", op.true_region), ("!", op.false_region)):
        p.add(f"if ({test}*{p.names[op.cond]}) {{")
        for block in region.blocks:
            p.block(block, names)
        p.add("}")


TEMPLATES: Final[dict[str, tuple[type[Operation], ...]]] = {
    "{0} + {1}": (arith.AddfOp, arith.AddiOp), "{0} - {1}": (arith.SubfOp, arith.SubiOp),
    "{0} * {1}": (arith.MulfOp, arith.MuliOp), "{0} / {1}": (arith.DivfOp,),
    "{0} & {1}": (arith.AndIOp,), "{0} | {1}": (arith.OrIOp,), "{0} ^ {1}": (arith.XOrIOp,),
    "MAX({0}, {1})": (arith.MaximumfOp, arith.MaxSIOp), "-{0}": (arith.NegfOp,),
    "MIN({0}, {1})": (arith.MinimumfOp, arith.MinSIOp), "fabs({0})": (math.AbsFOp,),
    "MAX(({u}){0}, ({u}){1})": (arith.MaxUIOp,), "MIN(({u}){0}, ({u}){1})": (arith.MinUIOp,),
    "({u}){1} < {bits} ? ({u}){0} << ({u}){1} : 0": (arith.ShLIOp,),
    "({u}){1} < {bits} ? ({u}){0} >> ({u}){1} : 0": (arith.ShRUIOp,),
    "({u}){1} < {bits} ? {0} >> ({u}){1} : 0": (arith.ShRSIOp,),
    "{1} == 0 ? 0 : {1} == -1 ? 0 - {0} : {0} / {1}": (arith.DivSIOp,),
    "{1} == 0 || {1} == -1 ? 0 : {0} % {1}": (arith.RemSIOp,),
    "{1} == 0 ? 0 : ({u}){0} / ({u}){1}": (arith.DivUIOp,),
    "{1} == 0 ? 0 : ({u}){0} % ({u}){1}": (arith.RemUIOp,), "sqrt({0})": (math.SqrtOp,),
    "floor({0})": (math.FloorOp,), "ceil({0})": (math.CeilOp,), "trunc({0})": (math.TruncOp,),
    "rint({0})": (math.RoundEvenOp,), "copysign({0}, {1})": (math.CopySignOp,),
    "fma({0}, {1}, {2})": (math.FmaOp,),
}  # fmt: skip
"""Element by element: an expression of the operands' elements {0}, {1}, …"""

TESTS: Final = tuple(f"{{0}} {test} {{1}}" for test in ("==", "!=", "<", "<=", ">", ">="))
BITS: Final = tuple(test.replace("{", "({u}){") for test in TESTS)
FOLDS: Final[dict[str, str]] = dict(zip(tile.REDUCTIONS, (
    "{0} + {1}", "{0} * {1}", "MAX({0}, {1})", "MIN({0}, {1})", "{0} & {1}", "{0} | {1}",
), strict=False))  # fmt: skip

EXPRESSIONS: Final[dict[type[Operation], Callable[[Printer, Any, list[str]], str]]] = {
    **{kind: partial(_map, text) for text, kinds in TEMPLATES.items() for kind in kinds},
    arith.CmpiOp: lambda p, op, c: _map((TESTS + BITS[2:])[int(op.predicate.value.data)], p, op, c),
    tile.CompareOp: lambda p, op, c: _map(
        (BITS if op.unsigned else TESTS)[tile.COMPARISONS.index(op.kind.data)], p, op, c),
    arith.ConstantOp: _constant, tile.LoadOp: _load, tile.CastOp: _cast,
    tile.JoinOp: _join, tile.ScanOp: _scan,
    tile.ProgramIdOp: lambda p, op, c: p.program[int(op.dim.value.data)],
    tile.IotaOp: lambda p, op, c: c[0], tile.SplatOp: lambda p, op, c: p.at(op.x, []),
    tile.SelectOp: lambda p, op, c: " ".join(
        (p.at(op.c, c if shape_of(op.c.type) else []), "?", p.at(op.a, c), ":", p.at(op.b, c))),
    tile.BroadcastOp: lambda p, op, c: p.at(op.x, [
        c[d] if n > 1 else "0" for d, n in zip(values(op.dims), shape_of(op.x.type), strict=True)]),
    tile.TransposeOp: lambda p, op, c: p.at(
        op.x, [c[values(op.perm).index(d)] for d in range(len(c))]),
    tile.SliceOp: lambda p, op, c: p.at(op.x, list(map("({} + {})".format, c, values(op.start)))),
}  # fmt: skip

RULES: Final[dict[type[Operation], Callable[[Printer, Any], None]]] = {
    **{kind: partial(_fill, text) for kind, text in EXPRESSIONS.items()},
    **dict.fromkeys((scf.YieldOp, tile.ReturnOp, tile.PrefetchOp), lambda p, op: None),
    arith.BitcastOp: lambda p, op: p.copy([op.input], [p.declare(op.result)]),
    tile.ReshapeOp: lambda p, op: p.copy([op.x], [p.declare(op.y)]),
    scf.ForOp: _for,
    scf.IfOp: _if,
    tile.StoreOp: _store,
    tile.DotOp: _dot,
    tile.ReduceOp: _reduce,
    tile.ScratchOp: _scratch,
    tile.CheckOp: _check,
}
