"""Kernels that hold every operation of an element type, made as text: a result a row of `%y`."""

from collections.abc import Iterator, Sequence

from simt_text import parse

from lamina.dialects.simt import KernelOp

FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64")
EVERY = ("i1", *INTEGERS, *FLOATS)
BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f32": 4, "f16": 2, "bf16": 2}
RUNS = [(kind, run) for kind, size in BYTES.items() for run in (2, 4, 8) if run * size <= 16]
"""Neighbours that one access takes: no more than 16 bytes of them."""

_OF_FLOATS = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf")
_MATH = ("absf", "sqrt", "floor", "ceil", "roundeven", "trunc")
_TESTS_OF_FLOATS = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord")
_TESTS_OF_FLOATS += ("ueq", "ugt", "uge", "ult", "ule", "une", "uno")
_OF_INTEGERS = ("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi")
_OF_INTEGERS += ("ceildivsi", "andi", "ori", "xori", "shli", "shrsi", "shrui")
_OF_INTEGERS += ("maxsi", "minsi", "maxui", "minui")
_TESTS_OF_INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_OF_TRUTH = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi")
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")


def operations(kind: str) -> Sequence[str]:
    """The operations whose results are of the element type itself."""
    if kind in FLOATS:
        return tuple(_of_floats(kind))
    names = _OF_TRUTH if kind == "i1" else _OF_INTEGERS
    return tuple(f"arith.{name} %a, %b : {kind}" for name in names)


def _of_floats(kind: str) -> Iterator[str]:
    yield from (f"arith.{name} %a, %b : {kind}" for name in _OF_FLOATS)
    yield from (f"math.{name} %a : {kind}" for name in _MATH)
    yield f"arith.negf %a : {kind}"
    yield f"math.copysign %a, %b : {kind}"
    yield f"math.fma %a, %b, %c : {kind}"
    yield f"tile.select %p, %a, %b : (i1, {kind}, {kind}) -> {kind}"


def truths(kind: str) -> Sequence[str]:
    """The operations whose results are truth values."""
    compare = [
        f'tile.compare %a, %b {{kind = "{name}"}} : ({kind}, {kind}) -> i1' for name in _COMPARED
    ]
    if kind in FLOATS:
        return (*compare, *(f"arith.cmpf {name}, %a, %b : {kind}" for name in _TESTS_OF_FLOATS))
    if kind == "i1":
        return compare
    unsigned = (each.replace('"}', '", unsigned}') for each in compare)
    plain = (f"arith.cmpi {name}, %a, %b : {kind}" for name in _TESTS_OF_INTEGERS)
    return (*compare, *unsigned, *plain)


def casts(kind: str) -> Sequence[tuple[str, str]]:
    """The conversions from an element type: what they are of, and the operation."""
    found = [(to, f"tile.cast %a : ({kind}) -> {to}") for to in EVERY]
    for to in EVERY:
        if not (kind in FLOATS and to in FLOATS) and "i1" not in (kind, to):
            found.append((to, f"tile.cast %a {{unsigned}} : ({kind}) -> {to}"))
    widths = {"i8": (), "i16": ("f16", "bf16"), "i32": ("f32",), "f32": ("i32",)}
    widths |= {"f16": ("i16", "bf16"), "bf16": ("i16", "f16")}
    found += [(to, f"arith.bitcast %a : {kind} to {to}") for to in widths.get(kind, ())]
    return found


def arithmetic(kind: str) -> KernelOp:
    """Operations and tests of an element type on %x, %w and %z: results to %y, truths to %p."""
    lines = [_stored(n, text, "y", kind) for n, text in enumerate(operations(kind))]
    lines += [_stored(n, text, "q", "i1", "t") for n, text in enumerate(truths(kind))]
    loads = f"""
      %a = simt.load %x[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}
      %b = simt.load %w[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}
      %c = simt.load %z[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}
      %p = tile.compare %a, %b {{kind = "lt"}} : ({kind}, {kind}) -> i1"""
    args = [f"%{name}: memref<?x{kind}>" for name in "xwz"]
    args += [f"%y: memref<?x?x{kind}>", "%q: memref<?x?xi1>"]
    return _kernel(f"arithmetic_{kind}", args, ["read"] * 3 + ["write"] * 2, [loads, *lines])


def conversions(kind: str) -> KernelOp:
    """Every conversion of an element type: each result a memref of its own."""
    found = casts(kind)
    lines = [f"%a = simt.load %x[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}"]
    lines += [_stored(n, text, f"y{n}", to, rows=False) for n, (to, text) in enumerate(found)]
    args = [f"%x: memref<?x{kind}>", *(f"%y{n}: memref<?x{to}>" for n, (to, _) in enumerate(found))]
    return _kernel(f"conversions_{kind}", args, ["read"] + ["write"] * len(found), lines)


def exchanges(kind: str) -> KernelOp:
    """Elements that pass through shared memory in reverse, then to two partners by shuffles."""
    shared = f'memref<64x{kind}, "workgroup">'
    lines = [
        f"%m = simt.memory : {shared}",
        f"%a = simt.load %x[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}",
        f"simt.store %a, %m[%t] : {kind}, {shared}, index",
        "simt.barrier",
        "%last = arith.constant 63 : index",
        "%back = arith.subi %last, %t : index",
        f"%r = simt.load %m[%back] : {shared}, index -> {kind}",
        f"%s = simt.shuffle %r {{xor = 1 : i64}} : ({kind}) -> {kind}",
        f"%two = simt.join %r, %s : ({kind}, {kind}) -> vector<2x{kind}>",
        f"%u = simt.shuffle %two {{xor = 21 : i64}} : (vector<2x{kind}>) -> vector<2x{kind}>",
        f"%v = simt.pick %u {{at = array<i64: 1>}} : (vector<2x{kind}>) -> {kind}",
        f"simt.store %v, %y[%at] mask %in : i1 : {kind}, memref<?x{kind}>, index",
    ]
    args = [f"%x: memref<?x{kind}>", f"%y: memref<?x{kind}>"]
    return _kernel(f"exchanges_{kind}", args, ["read", "write"], lines)


def runs(kind: str, run: int) -> KernelOp:
    """Eight neighbours a thread, in runs: from %x to shared memory, and from there to %y."""
    shared, eight = f'memref<512x{kind}, "workgroup">', f"vector<8x{kind}>"
    places, truths, at = "vector<8xindex>", "vector<8xi1>", "%at8 = arith.addi %firsts, %eight"
    lines = [
        f"%m = simt.memory : {shared}",
        "%size = arith.constant 8 : index",
        f"%eight = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : {places}",
        "%first = arith.muli %at, %size : index",
        f"%firsts = tile.splat %first : (index) -> {places}",
        f"{at} : {places}",
        f"%truth = tile.splat %in : (i1) -> {truths}",
        f"%v = simt.load %x[%at8] mask %truth : {truths} {{run = {run} : i64}} "
        f": memref<?x{kind}>, {places} -> {eight}",
        "%own = arith.muli %t, %size : index",
        f"%owns = tile.splat %own : (index) -> {places}",
        f"%in8 = arith.addi %owns, %eight : {places}",
        f"simt.store %v, %m[%in8] {{run = {run} : i64}} : {eight}, {shared}, {places}",
        "simt.barrier",
        f"%w = simt.load %m[%in8] {{run = {run} : i64}} : {shared}, {places} -> {eight}",
        f"simt.store %w, %y[%at8] mask %truth : {truths} {{run = {run} : i64}} "
        f": {eight}, memref<?x{kind}>, {places}",
    ]
    args = [f"%x: memref<?x{kind}>", f"%y: memref<?x{kind}>"]
    return _kernel(f"runs_{kind}_{run}", args, ["read", "write"], lines)


def indices() -> KernelOp:
    """Integers that become indices, and integers again."""
    lines = [
        "%a = simt.load %x[%at] mask %in : i1 : memref<?xi64>, index -> i64",
        "%i = tile.cast %a : (i64) -> index",
        "%b = tile.cast %i : (index) -> i64",
        "simt.store %b, %y[%at] mask %in : i1 : i64, memref<?xi64>, index",
    ]
    return _kernel("indices", ["%x: memref<?xi64>", "%y: memref<?xi64>"], ["read", "write"], lines)


def _stored(n: int, text: str, into: str, kind: str, mark: str = "r", *, rows: bool = True) -> str:
    shape = "?x?" if rows else "?"
    return f"""
      %{mark}{n} = {text}
      %k{mark}{n} = arith.constant {n if rows else 0} : index
      %o{mark}{n} = arith.muli %k{mark}{n}, %n : index
      %i{mark}{n} = arith.addi %o{mark}{n}, %at : index
      simt.store %{mark}{n}, %{into}[%i{mark}{n}] mask %in : i1 : {kind}, memref<{shape}x{kind}>, index"""


def _kernel(
    name: str, args: Sequence[str], access: Sequence[str], lines: Sequence[str]
) -> KernelOp:
    body = "\n      ".join(lines)
    accesses = ", ".join(f'"{each}"' for each in access)
    return parse(f"""simt.kernel @{name} attributes {{symbols = ["n"], grid = ["ceildiv(n, 64)"],
        access = [{accesses}], threads = 64 : i64, subgroup = 32 : i64}} {{
    ^bb0({", ".join(args)}, %n: index):
      %t = simt.thread_id
      %block = tile.program_id {{dim = 0 : i64}}
      %width = arith.constant 64 : index
      %start = arith.muli %block, %width : index
      %at = arith.addi %start, %t : index
      %in = arith.cmpi slt, %at, %n : index
      {body}
      tile.return
    }}""")
