"""The `tile` dialect: block programs, the narrow waist between graphs and machines.

A `tile.kernel` is one program, run for every point of its grid. It reads memrefs into vectors of
static shape, computes on them with `arith`, `math` and the operations here, and stores the
results; `scf.for` and `scf.if` are its control flow. Nothing here is a thread, a barrier or a
copy: a target decides how a tile is spread over lanes, registers and threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ContainerType,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.layouts import LayoutAttr
from lamina.dialects.pairs import pair_list, pairs
from lamina.dialects.requirements import require

REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "argmax", "argmin")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ACCESSES = ("read", "write", "update")
WORKERS = "workers"
"""The symbol whose value is the number of programs that run at once."""


def shape_of(type: Attribute) -> tuple[int, ...]:
    """Return the shape of a vector type; of a scalar, ()."""
    return tuple(cast("VectorType[Any]", type).get_shape()) if isinstance(type, VectorType) else ()


def element_of(type: Attribute) -> Attribute:
    """Return the element type of a vector or memref; a scalar is its own."""
    if isinstance(type, VectorType | MemRefType):
        return cast("ContainerType[Attribute]", type).get_element_type()
    return type


def vector(element: Attribute, shape: Sequence[int]) -> Attribute:
    """Return the vector type of `element` and `shape`; for shape (), the scalar."""
    return VectorType(element, list(shape)) if shape else element


def ints(values: Sequence[int]) -> DenseArrayBase[Any]:
    """Return an `array<i64: …>` property."""
    return DenseArrayBase.from_list(IntegerType(64), list(values))


def values(array: DenseArrayBase[Any] | None) -> tuple[int, ...]:
    """Return the integers of an optional `array<i64: …>`; absent is ()."""
    return () if array is None else tuple(int(v) for v in array.get_values())


TUNED = "tuned"
"""Marks a schedule that was found by measuring."""


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """How to build a kernel, in numbers: `#tile.schedule<{"m" = 4 : i64, "n" = 64 : i64}>`."""

    name = "tile.schedule"

    values: DictionaryAttr

    @staticmethod
    def of(**sizes: int) -> ScheduleAttr:
        """Return the schedule with these numbers."""
        return ScheduleAttr(DictionaryAttr({k: IntegerAttr(v, 64) for k, v in sizes.items()}))

    def get(self, key: str, default: int | None = None) -> int:
        """Return one number; KeyError if it is missing and has no default."""
        if key not in self.values.data and default is not None:
            return default
        return cast("IntegerAttr[Any]", self.values.data[key]).value.data

    @property
    def text(self) -> str:
        """The numbers as people read them: `m=4 n=64`, or `m=4 n=64 tuned`."""
        keys = self.values.data
        return " ".join(key if key == TUNED else f"{key}={self.get(key)}" for key in keys)


WORK = ("bytes", "float", "integer")
"""What a kernel's work is counted in: bytes, and operations of its float and integer products."""

UNKNOWN = "?"
"""In place of a count that depends on data."""


@irdl_attr_definition
class WorkAttr(ParametrizedAttribute):
    """What one call of a kernel does, over its symbols: `#tile.work<{bytes = "4096*n0"}>`.

    `bytes` are those of its arguments that it reads, and those that it writes, each counted once
    however often it is touched; `float` and `integer` the operations of its products, a
    multiplication and an addition counted as two. What is left out is 0, `?` depends on data.
    """

    name = "tile.work"

    counts: DictionaryAttr

    @staticmethod
    def of(counts: Mapping[str, Dim | None]) -> WorkAttr:
        """Return the work with these counts, None for one that depends on data."""
        said = {k: UNKNOWN if dim is None else str(dim) for k, dim in counts.items() if dim != 0}
        return WorkAttr(DictionaryAttr({k: StringAttr(text) for k, text in said.items()}))

    def get(self, key: str) -> Dim | None:
        """Return a count, None if it depends on data; VerifyException if it is no extent."""
        text = self.counts.data.get(key, StringAttr("0"))
        require(isinstance(text, StringAttr), f"work: {key} is {text}, expected a string")
        said = cast("StringAttr", text).data
        return None if said == UNKNOWN else _extent(said)

    def verify(self) -> None:
        """Check the keys and the counts."""
        unknown = sorted(self.counts.data.keys() - set(WORK))
        require(not unknown, f"work has {unknown}, expected some of {WORK}")
        for key in WORK:
            self.get(key)


def _extent(text: str) -> Dim:
    try:
        return parse_dim(text)
    except ValueError as error:
        raise VerifyException(str(error)) from error


class AnyKernelOp(IRDLOperation):
    """What every level calls a kernel; `tile.kernel` says what its properties are."""

    sym_name = prop_def(SymbolNameConstraint())
    symbols = prop_def(ArrayAttr[StringAttr])
    grid = prop_def(ArrayAttr[StringAttr])
    access = prop_def(ArrayAttr[StringAttr])
    aliases = opt_prop_def(ArrayAttr)
    schedule = opt_prop_def(ScheduleAttr)
    work = opt_prop_def(WorkAttr)
    joins = opt_prop_def(IntegerAttr)
    body = region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format: ClassVar[str | None] = "$sym_name attr-dict-with-keyword $body"

    @property
    def memrefs(self) -> tuple[SSAValue, ...]:
        """The memref arguments."""
        return tuple(self.body.block.args[: len(self.access)])

    @property
    def indices(self) -> dict[str, SSAValue]:
        """The index argument of each symbol."""
        args = self.body.block.args[len(self.access) :]
        return {s.data: arg for s, arg in zip(self.symbols, args, strict=True)}

    def verify_(self) -> None:
        """Check arguments, grid and accesses against each other."""
        args = self.body.block.args
        require(
            len(args) == len(self.access) + len(self.symbols),
            f"kernel has {len(args)} arguments, {len(self.access)} accesses "
            f"and {len(self.symbols)} symbols",
        )
        require(
            all(isinstance(arg.type, MemRefType) for arg in self.memrefs)
            and all(isinstance(arg.type, IndexType) for arg in args[len(self.access) :]),
            "kernel arguments are memrefs, then one index a symbol",
        )
        require(all(a.data in ACCESSES for a in self.access), f"access is one of {ACCESSES}")
        require(1 <= len(self.grid) <= 3, "a grid has one to three extents")
        self._verify_symbols()
        require(
            isinstance(self.body.block.last_op, ReturnOp), "a kernel's body ends in tile.return"
        )

    def _verify_symbols(self) -> None:
        names = {symbol.data for symbol in self.symbols}
        extents = [("grid", _extent(extent.data)) for extent in self.grid]
        counts = [self.work.get(key) for key in WORK] if self.work else []
        extents += [("work", count) for count in counts if count is not None]
        for place, extent in extents:
            missing = sorted(extent.symbols - names)
            require(not missing, f"{place} names {missing}, which is no symbol of the kernel")


@irdl_op_definition
class KernelOp(AnyKernelOp):
    """One block program. Block arguments: memrefs, then one index for each of `symbols`.

    `grid` has up to three extents over `symbols`; the symbol `workers` is the number of programs
    that run at once. `access` says for each memref: read, write or update. `aliases` lists pairs
    of memrefs that may be the same memory (an in-place result). `schedule` is what it was built
    with and `work` what it does, for people and benchmarks: they change nothing of its meaning.
    `joins` says that all it does is to put the memrefs that it reads one after another, in this
    dimension of the one that it writes.

    tile.kernel @scale attributes {symbols = ["n"], grid = ["ceildiv(n, 16)"],
                                   access = ["read", "write"]} {…}
    """

    name = "tile.kernel"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of a kernel."""

    name = "tile.return"

    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


@irdl_op_definition
class ProgramIdOp(IRDLOperation):
    """This program's coordinate in grid dimension `dim`: `%i = tile.program_id {dim = 0 : i64}`."""

    name = "tile.program_id"

    dim = prop_def(IntegerAttr)
    i = result_def(IndexType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self, dim: int) -> None:
        super().__init__(properties={"dim": IntegerAttr(dim, 64)}, result_types=[IndexType()])


class _Access(IRDLOperation):
    """What `load`, `store` and `prefetch` share: where in a memref a tile lies.

    Dimension d of the tile has `shape[d]` elements at `at[d] + step[d]*i`, or at the indices of a
    vector `at[d]`. Dimensions in `zip` take their index vectors together: the first of them has
    the vector's length, the others 1. `limit` gives an exclusive upper bound for each dimension
    in `limit_dims` (all of them if absent); the extent bounds every dimension. `in_bounds` lists
    dimensions of which no element is ever outside: an assertion that the reference checks.
    """

    x = operand_def(MemRefType)
    at = var_operand_def()
    limit = var_operand_def(IndexType())
    shape = prop_def(DenseArrayBase)
    step = opt_prop_def(DenseArrayBase)
    zip = opt_prop_def(DenseArrayBase)
    limit_dims = opt_prop_def(DenseArrayBase)
    in_bounds = opt_prop_def(DenseArrayBase)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension of the memref."""
        return values(self.shape)

    @property
    def steps(self) -> tuple[int, ...]:
        """The distance between elements in each dimension."""
        return values(self.step) or (1,) * len(self.tile_shape)

    @property
    def limits(self) -> dict[int, SSAValue]:
        """The upper bound of each bounded dimension."""
        dims = values(self.limit_dims) or tuple(range(len(self.tile_shape)))
        return dict(zip(dims, self.limit, strict=True)) if self.limit else {}

    def _verify_access(self, value: Attribute) -> None:
        x = cast("MemRefType[Any]", self.x.type)
        rank = x.get_num_dims()
        shape, zipped = self.tile_shape, values(self.zip)
        require(len(self.at) == rank, f"{len(self.at)} subscripts for a memref of rank {rank}")
        require(len(shape) == rank, f"tile shape {shape} for a memref of rank {rank}")
        require(len(self.steps) == rank, f"steps {self.steps} for a memref of rank {rank}")
        for d, at in enumerate(self.at):
            if isinstance(at.type, IndexType):
                continue
            size = shape[zipped[0]] if d in zipped else shape[d]
            require(
                at.type == VectorType(IndexType(), [size]),
                f"subscript {d} is {at.type}, expected index or vector<{size}xindex>",
            )
        for d in zipped:
            require(isinstance(self.at[d].type, VectorType), f"zip names {d}, not a vector")
            require(d == zipped[0] or shape[d] == 1, f"zip: dimension {d} must have size 1")
        dims = values(self.limit_dims)
        require(
            len(self.limit) == (len(dims) or (rank if self.limit else 0)),
            f"{len(self.limit)} limits for dimensions {dims or 'all'}",
        )
        require(
            all(0 <= d < rank for d in (*dims, *values(self.in_bounds), *zipped)),
            "no such dimension",
        )
        require(
            element_of(value) == x.element_type,
            f"tile of {element_of(value)} in a memref of {x.element_type}",
        )
        require(
            prod(shape_of(value)) == prod(shape),
            f"{value} has {prod(shape_of(value))} elements, the tile {shape} has {prod(shape)}",
        )


@irdl_op_definition
class LoadOp(_Access):
    """The elements of a tile, row by row, in a vector (or scalar) of as many elements.

    Outside the bounds an element is `pad`, 0 if absent.

    %t = tile.load %x[%i, %c0] limit [%n] {shape = array<i64: 4, 16>,
         limit_dims = array<i64: 0>} : memref<?x16xf32> [index, index] -> vector<4x16xf32>
    """

    name = "tile.load"

    pad = opt_prop_def(FloatAttr | IntegerAttr)
    y = result_def()

    assembly_format = (
        "$x `[` $at `]` (`limit` `[` $limit^ `]`)? attr-dict "
        "`:` type($x) `[` type($at) `]` `->` type($y)"
    )

    def __init__(
        self,
        x: SSAValue,
        at: Sequence[SSAValue],
        shape: Sequence[int],
        result: Attribute,
        *,
        limits: dict[int, SSAValue] | None = None,
        zip: Sequence[int] = (),
        step: Sequence[int] = (),
        in_bounds: Sequence[int] = (),
        pad: FloatAttr[Any] | IntegerAttr[Any] | None = None,
    ) -> None:
        operands, properties = _access_parts(x, at, shape, limits, zip, step, in_bounds)
        properties |= {"pad": pad} if pad is not None else {}
        super().__init__(operands=operands, properties=properties, result_types=[result])

    def verify_(self) -> None:
        """Check subscripts, bounds and the result's size."""
        self._verify_access(self.y.type)


@irdl_op_definition
class PrefetchOp(_Access):
    """A hint that a tile will be loaded before long; elements outside the bounds do not matter.

    tile.prefetch %x[%i, %c0] {shape = array<i64: 4, 16>} : memref<?x16xf32> [index, index]
    """

    name = "tile.prefetch"

    assembly_format = (
        "$x `[` $at `]` (`limit` `[` $limit^ `]`)? attr-dict `:` type($x) `[` type($at) `]`"
    )

    def __init__(self, x: SSAValue, at: Sequence[SSAValue], shape: Sequence[int]) -> None:
        operands, properties = _access_parts(x, at, shape, None, (), (), ())
        super().__init__(operands=operands, properties=properties)

    def verify_(self) -> None:
        """Check subscripts and bounds."""
        element = cast("MemRefType[Any]", self.x.type).element_type
        self._verify_access(VectorType(element, self.tile_shape))


@irdl_op_definition
class StoreOp(_Access):
    """Store a vector (or scalar) as a tile; elements outside the bounds are dropped.

    `unique` asserts that no two elements have one address; `nontemporal` that the memory will not
    be read soon. Where two elements do meet, the later one in row order stays.
    """

    name = "tile.store"

    v = operand_def()
    unique = opt_prop_def(UnitAttr)
    nontemporal = opt_prop_def(UnitAttr)

    assembly_format = (
        "$v `,` $x `[` $at `]` (`limit` `[` $limit^ `]`)? attr-dict "
        "`:` type($v) `,` type($x) `[` type($at) `]`"
    )

    def __init__(
        self,
        v: SSAValue,
        x: SSAValue,
        at: Sequence[SSAValue],
        shape: Sequence[int],
        *,
        limits: dict[int, SSAValue] | None = None,
        zip: Sequence[int] = (),
        step: Sequence[int] = (),
        in_bounds: Sequence[int] = (),
        unique: bool = False,
        nontemporal: bool = False,
    ) -> None:
        operands, properties = _access_parts(x, at, shape, limits, zip, step, in_bounds)
        properties |= {"unique": UnitAttr()} if unique else {}
        properties |= {"nontemporal": UnitAttr()} if nontemporal else {}
        super().__init__(operands=[v, *operands], properties=properties)

    def verify_(self) -> None:
        """Check subscripts, bounds and the value's size."""
        self._verify_access(self.v.type)


def _access_parts(
    x: SSAValue,
    at: Sequence[SSAValue],
    shape: Sequence[int],
    limits: dict[int, SSAValue] | None,
    zip: Sequence[int],
    step: Sequence[int],
    in_bounds: Sequence[int],
) -> tuple[list[Any], dict[str, Attribute | None]]:
    limits = limits or {}
    arrays = {"shape": shape, "step": step, "zip": zip, "in_bounds": in_bounds}
    properties: dict[str, Attribute | None] = {k: ints(v) for k, v in arrays.items() if v}
    properties["shape"] = ints(shape)
    if limits and len(limits) < len(shape):
        properties["limit_dims"] = ints(list(limits))
    ordered = (
        list(limits.values())
        if len(limits) < len(shape)
        else [limits[d] for d in range(len(shape))]
    )
    return [x, list(at), ordered], properties


@irdl_op_definition
class DotOp(IRDLOperation):
    """`acc + sum(a * b)` over the pairs of dimensions in `contract`; `batch` pairs stay.

    Result dimensions: batch, the rest of `a`, the rest of `b`. Both operands are of one float
    type (summed as the accumulator's type), or 8-bit integers of the signedness in `unsigned`
    (a, b; 1 = unsigned) summed in i32. Contraction order: row by row over the listed pairs, one
    fused multiply-add each for floats.

    %y = tile.dot %a, %b, %c {contract = [[1, 0]]}
         : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
    """

    name = "tile.dot"

    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = operand_def(VectorType)
    contract = prop_def(ArrayAttr)
    batch = opt_prop_def(ArrayAttr)
    unsigned = opt_prop_def(DenseArrayBase)
    y = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b `,` $acc attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue,
        contract: Sequence[tuple[int, int]],
        *,
        batch: Sequence[tuple[int, int]] = (),
        unsigned: Sequence[int] = (),
    ) -> None:
        properties: dict[str, Attribute | None] = {"contract": pair_list(contract)}
        properties |= {"batch": pair_list(batch)} if batch else {}
        properties |= {"unsigned": ints(unsigned)} if any(unsigned) else {}
        super().__init__(operands=[a, b, acc], properties=properties, result_types=[acc.type])

    def verify_(self) -> None:
        """Check the extents of contracted, batch and free dimensions."""
        a, b = shape_of(self.a.type), shape_of(self.b.type)
        contract, batch = pairs(self.contract), pairs(self.batch)
        used = (*batch, *contract)
        require(all(i < len(a) and j < len(b) for i, j in used), "no such dimension")
        require(all(a[i] == b[j] for i, j in used), f"extents differ: {a} and {b} over {used}")
        left, right = {i for i, _ in used}, {j for _, j in used}
        shape = (
            *(a[i] for i, _ in batch),
            *(n for i, n in enumerate(a) if i not in left),
            *(n for j, n in enumerate(b) if j not in right),
        )
        require(shape_of(self.acc.type) == shape, f"accumulator {self.acc.type}, expected {shape}")
        require(self.acc.type == self.y.type, "result and accumulator differ in type")
        kind = element_of(self.a.type)
        require(kind == element_of(self.b.type), "a and b differ in element type")
        if not isinstance(kind, AnyFloat):
            require(kind == IntegerType(8), f"dot of {kind}: floats or i8")
            require(element_of(self.acc.type) == i32, "an integer dot accumulates in i32")


class _Map(IRDLOperation):
    """One operand `x`, one result `y`, properties in the dictionary."""

    x = operand_def()
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = "$x attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """`y = kind(x)` over dimensions `dims`; argmax and argmin also give the i32 position.

    Kinds: add mul max min and or argmax argmin. NaN propagates through max and min; argmax and
    argmin take the first NaN if there is one, else the lowest position on ties, and reduce one
    dimension. Of all dimensions the result is a scalar.
    """

    name = "tile.reduce"

    x = operand_def(VectorType)
    kind = prop_def(StringAttr)
    dims = prop_def(DenseArrayBase)
    y = result_def()
    position = opt_result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, kind: str, dims: Sequence[int]) -> None:
        shape = tuple(n for d, n in enumerate(shape_of(x.type)) if d not in dims)
        position = [vector(i32, shape)] if kind.startswith("arg") else []
        super().__init__(
            operands=[x],
            properties={"kind": StringAttr(kind), "dims": ints(dims)},
            result_types=[vector(element_of(x.type), shape), position],
        )

    def verify_(self) -> None:
        """Check the kind, the dimensions and the result's shape."""
        kind, dims = self.kind.data, values(self.dims)
        require(kind in REDUCTIONS, f"reduce {kind!r}: one of {REDUCTIONS}")
        shape = shape_of(self.x.type)
        require(bool(dims) and all(0 <= d < len(shape) for d in dims), f"dims {dims} of {shape}")
        rest = tuple(n for d, n in enumerate(shape) if d not in dims)
        require(self.y.type == vector(element_of(self.x.type), rest), f"result is {self.y.type}")
        arg = kind.startswith("arg")
        require(not arg or len(dims) == 1, f"{kind} reduces one dimension")
        require((self.position is not None) == arg, f"{kind} and its results disagree")


@irdl_op_definition
class ScanOp(_Map):
    """`y[…, i, …] = kind(x[…, 0..i, …])` along `dim`, in ascending order: add, mul, max or min."""

    name = "tile.scan"

    kind = prop_def(StringAttr)
    dim = prop_def(IntegerAttr)

    def verify_(self) -> None:
        """Check kind and types."""
        require(self.kind.data in REDUCTIONS[:4], f"scan {self.kind.data!r}")
        require(self.x.type == self.y.type, "a scan keeps its type")


@irdl_op_definition
class CastOp(_Map):
    """Convert elements: float to integer saturates (NaN gives 0) after rounding half to even.

    Integers wrap when narrowed; `unsigned` reads the integer side as unsigned; i1 is 0 or 1.
    Works on scalars and vectors of any integer, float or index type.
    """

    name = "tile.cast"

    unsigned = opt_prop_def(UnitAttr)

    def __init__(self, x: SSAValue, element: Attribute, *, unsigned: bool = False) -> None:
        super().__init__(
            operands=[x],
            properties={"unsigned": UnitAttr()} if unsigned else {},
            result_types=[vector(element, shape_of(x.type))],
        )

    def verify_(self) -> None:
        """Check that the shape stays."""
        require(shape_of(self.x.type) == shape_of(self.y.type), "a cast keeps its shape")


@irdl_op_definition
class BroadcastOp(_Map):
    """Repeat `x` along new dimensions: dimension i of `x` is dimension `dims[i]` of `y`.

    %y = tile.broadcast %x {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
    """

    name = "tile.broadcast"

    dims = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, dims: Sequence[int], shape: Sequence[int]) -> None:
        super().__init__(
            operands=[x],
            properties={"dims": ints(dims)},
            result_types=[vector(element_of(x.type), shape)],
        )

    def verify_(self) -> None:
        """Check that kept dimensions agree."""
        x, y, dims = shape_of(self.x.type), shape_of(self.y.type), values(self.dims)
        require(len(dims) == len(x) and tuple(sorted(set(dims))) == dims, f"dims {dims} for {x}")
        require(
            all(d < len(y) and n in (1, y[d]) for n, d in zip(x, dims, strict=True)),
            f"{x} does not broadcast to {y} over {dims}",
        )


@irdl_op_definition
class TransposeOp(_Map):
    """`y` has dimension `perm[i]` of `x` as its dimension i."""

    name = "tile.transpose"

    perm = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, perm: Sequence[int]) -> None:
        shape = shape_of(x.type)
        super().__init__(
            operands=[x],
            properties={"perm": ints(perm)},
            result_types=[vector(element_of(x.type), [shape[p] for p in perm])],
        )

    def verify_(self) -> None:
        """Check that `perm` is a permutation that gives the result's shape."""
        x, perm = shape_of(self.x.type), values(self.perm)
        require(sorted(perm) == list(range(len(x))), f"perm {perm} of rank {len(x)}")
        require(shape_of(self.y.type) == tuple(x[p] for p in perm), f"result is {self.y.type}")


@irdl_op_definition
class ReshapeOp(_Map):
    """The same elements in row order under another shape."""

    name = "tile.reshape"

    def __init__(self, x: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[x], result_types=[vector(element_of(x.type), shape)])

    def verify_(self) -> None:
        """Check that the number of elements stays."""
        x, y = shape_of(self.x.type), shape_of(self.y.type)
        require(prod(x) == prod(y), f"reshape {x} to {y}")


@irdl_op_definition
class SliceOp(_Map):
    """The part of `x` that begins at `start` and has the result's shape."""

    name = "tile.slice"

    start = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, start: Sequence[int], shape: Sequence[int]) -> None:
        super().__init__(
            operands=[x],
            properties={"start": ints(start)},
            result_types=[vector(element_of(x.type), shape)],
        )

    def verify_(self) -> None:
        """Check that the part lies inside."""
        x, y, start = shape_of(self.x.type), shape_of(self.y.type), values(self.start)
        inside = len(x) == len(y) == len(start) and all(
            0 <= s and s + n <= m for s, n, m in zip(start, y, x, strict=True)
        )
        require(inside, f"slice {y} at {start} of {x}")


@irdl_op_definition
class SplatOp(_Map):
    """A vector with `x`, a scalar, in every element."""

    name = "tile.splat"

    def __init__(self, x: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[x], result_types=[vector(x.type, shape)])

    def verify_(self) -> None:
        """Check the element type."""
        require(self.x.type == element_of(self.y.type), "splat changes the element type")


@irdl_op_definition
class JoinOp(IRDLOperation):
    """The concatenation of `xs` along `dim`."""

    name = "tile.join"

    xs = var_operand_def()
    dim = prop_def(IntegerAttr)
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$xs attr-dict `:` functional-type(operands, results)"

    def __init__(self, xs: Sequence[SSAValue], dim: int) -> None:
        shape = list(shape_of(xs[0].type))
        shape[dim] = sum(shape_of(x.type)[dim] for x in xs)
        super().__init__(
            operands=[xs],
            properties={"dim": IntegerAttr(dim, 64)},
            result_types=[vector(element_of(xs[0].type), shape)],
        )

    def verify_(self) -> None:
        """Check that all but `dim` agree and that `dim` adds up."""
        dim, y = self.dim.value.data, shape_of(self.y.type)
        total = 0
        for x in self.xs:
            shape = shape_of(x.type)
            require(len(shape) == len(y) and dim < len(y), f"join {shape} in {y}")
            require(
                shape[:dim] + shape[dim + 1 :] == y[:dim] + y[dim + 1 :], f"join {shape} in {y}"
            )
            total += shape[dim]
        require(total == y[dim], f"joined extent is {total}, the result has {y[dim]}")


@irdl_op_definition
class IotaOp(IRDLOperation):
    """0, 1, 2, … in a vector of one dimension, of an integer or index type."""

    name = "tile.iota"

    y = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, element: Attribute, size: int) -> None:
        super().__init__(result_types=[VectorType(element, [size])])

    def verify_(self) -> None:
        """Check the rank."""
        require(len(shape_of(self.y.type)) == 1, "iota has one dimension")


@irdl_op_definition
class CompareOp(IRDLOperation):
    """`a kind b` as i1, on scalars and vectors: eq ne lt le gt ge; with NaN only `ne` holds.

    %m = tile.compare %a, %b {kind = "lt"} : (vector<4xi32>, vector<4xi32>) -> vector<4xi1>
    """

    name = "tile.compare"

    a = operand_def()
    b = operand_def()
    kind = prop_def(StringAttr)
    unsigned = opt_prop_def(UnitAttr)
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: str, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> None:
        properties: dict[str, Attribute | None] = {"kind": StringAttr(kind)}
        properties |= {"unsigned": UnitAttr()} if unsigned else {}
        super().__init__(
            operands=[a, b], properties=properties, result_types=[vector(i1, shape_of(a.type))]
        )

    def verify_(self) -> None:
        """Check kind and types."""
        require(self.kind.data in COMPARISONS, f"compare {self.kind.data!r}: one of {COMPARISONS}")
        require(self.a.type == self.b.type, f"compare {self.a.type} with {self.b.type}")
        require(self.y.type == vector(i1, shape_of(self.a.type)), f"result is {self.y.type}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`c ? a : b`, element by element, or by one scalar condition."""

    name = "tile.select"

    c = operand_def()
    a = operand_def()
    b = operand_def()
    y = result_def()

    traits = traits_def(Pure())
    assembly_format = "$c `,` $a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(self, c: SSAValue, a: SSAValue, b: SSAValue) -> None:
        super().__init__(operands=[c, a, b], result_types=[a.type])

    def verify_(self) -> None:
        """Check types."""
        require(self.a.type == self.b.type == self.y.type, "select of differing types")
        require(self.c.type in (i1, vector(i1, shape_of(self.a.type))), f"mask {self.c.type}")


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """Memory of this program, static in size, with undefined contents at its start."""

    name = "tile.scratch"

    y = result_def(MemRefType)

    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, element: Attribute, shape: Sequence[int]) -> None:
        super().__init__(result_types=[MemRefType(element, list(shape))])

    def verify_(self) -> None:
        """Check that the size is static."""
        shape = cast("MemRefType[Any]", self.y.type).get_shape()
        require(all(n >= 0 for n in shape), "scratch has a static size")


@irdl_op_definition
class CheckOp(IRDLOperation):
    """Record `node` in the step's error word unless every element of `ok` is true.

    tile.check %ok {node = "/embed/Gather"} : vector<16xi1>
    """

    name = "tile.check"

    ok = operand_def()
    node = prop_def(StringAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ok attr-dict `:` type($ok)"

    def verify_(self) -> None:
        """Check the mask's element type."""
        require(element_of(self.ok.type) == i1, "check takes i1")


OPS: list[type[Operation]] = [
    BroadcastOp,
    CastOp,
    CheckOp,
    CompareOp,
    DotOp,
    IotaOp,
    JoinOp,
    KernelOp,
    LoadOp,
    PrefetchOp,
    ProgramIdOp,
    ReduceOp,
    ReshapeOp,
    ReturnOp,
    ScanOp,
    ScratchOp,
    SelectOp,
    SliceOp,
    SplatOp,
    StoreOp,
    TransposeOp,
]

TILE = Dialect("tile", OPS, [LayoutAttr, ScheduleAttr, WorkAttr])
