"""The `simt` dialect: what one thread of a block does, the level of every GPU.

A `simt.kernel` runs `threads` threads for each point of its grid. Values are a thread's own:
scalars, or `vector<Rx…>`, which are its R registers. `arith`, `math` and the elementwise
operations of `tile` (cast, compare, select, splat) work on either, and `tile.program_id` is
the block's coordinate. Control flow is `scf`, by conditions and bounds that are the same in all
threads of the block, so that barriers are met by all of them. Memory is addressed by the number
of the element, counted from the start of the memref.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    UnitAttr,
    VectorType,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Attribute, Dialect, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from lamina.dialects.requirements import require
from lamina.dialects.tile import AnyKernelOp, element_of, ints, shape_of, values, vector
from lamina.dialects.uniformity import diverges, varying

WORKGROUP = StringAttr("workgroup")
"""The memory space of what the threads of a block share."""

MOST_THREADS, MOST_BYTES, MOST_ALIGNMENT = 1024, 1 << 24, 1024
"""Threads of a block, bytes that they share, and what those begin at a multiple of: as many as any
GPU has, and more."""

SWIZZLED_ROW = 64
"""Elements of 16 bits in a row of what `simt.copy_tensor` brings."""

WARPGROUP = 128
"""Threads that multiply operands in shared memory together."""

ACCESS_BYTES = 16
"""What one access of a thread takes at most."""

ATOMICS = ("add", "max", "min", "and", "or", "xor", "exchange", "compare_exchange")
"""What an atomic operation may do to an element."""

REDUCTIONS = ("add", "mul", "max", "min", "and", "or")
"""What the registers of a subgroup may become."""

OF_TILE = frozenset(
    f"tile.{name}" for name in ("cast", "compare", "program_id", "return", "select", "splat")
)
"""Operations of `tile` that a thread may do: to it a vector is registers, not a tile."""


@irdl_op_definition
class KernelOp(AnyKernelOp):
    """The program of one of `threads` threads of a block, in subgroups of `subgroup`.

    What else there is to it `tile.kernel` says. Barriers, shuffles and uniform values are in no
    loop or branch in which threads of a block may go different ways.

    simt.kernel @scale attributes {symbols = ["n"], grid = ["ceildiv(n, 64)"],
        access = ["read", "write"], threads = 64 : i64, subgroup = 32 : i64} {…}
    """

    name = "simt.kernel"

    threads = prop_def(IntegerAttr)
    subgroup = prop_def(IntegerAttr)

    def verify_(self) -> None:
        """Check arguments, grid, accesses, that subgroups fill the block, and that threads meet."""
        super().verify_()
        threads, subgroup = self.threads.value.data, self.subgroup.value.data
        require(subgroup > 0 and subgroup & (subgroup - 1) == 0, f"a subgroup of {subgroup}")
        require(threads <= MOST_THREADS, f"{threads} threads, a block has {MOST_THREADS} at most")
        require(
            threads > 0 and threads % subgroup == 0,
            f"{threads} threads are no whole number of subgroups of {subgroup}",
        )
        self._verify_body()
        size = self.workgroup_bytes
        require(size <= MOST_BYTES, f"{size} bytes, a block shares {MOST_BYTES} at most")

    def _verify_body(self) -> None:
        meeting: list[Operation] = []
        for op in self.body.walk():
            require(
                not op.name.startswith("tile.") or op.name in OF_TILE,
                f"{op.name} is of whole tiles, a thread has {', '.join(sorted(OF_TILE))}",
            )
            require(
                not isinstance(op, MemoryOp) or op.parent_op() is self,
                "simt.memory stands at the top of the kernel, in no loop or branch",
            )
            if isinstance(op, MEETINGS) and op.parent_op() is not self:
                meeting.append(op)
        differing = varying(self.body) if meeting else set[SSAValue]()
        for op in meeting:
            self._verify_meeting(op, differing)

    def _verify_meeting(self, op: Operation, differing: set[SSAValue]) -> None:
        around = op.parent_op()
        while around is not None and around is not self:
            require(
                not diverges(around, differing),
                f"all threads meet in {op.name}, but not all may come to it: they may go different "
                f"ways in the {around.name} around it",
            )
            around = around.parent_op()

    @property
    def workgroup_bytes(self) -> int:
        """The memory that the threads of a block share."""
        return sum(op.size for op in self.body.walk() if isinstance(op, MemoryOp))

    @property
    def checks(self) -> bool:
        """Whether it touches the error word."""
        return any(isinstance(op, ErrorWordOp) for op in self.body.walk())


def _kernel_of(op: Operation) -> KernelOp | None:
    around = op.parent_op()
    while around is not None and not isinstance(around, KernelOp):
        around = around.parent_op()
    return around


@irdl_op_definition
class ThreadIdOp(IRDLOperation):
    """This thread's number in its block; its subgroup is the quotient by the subgroup's size."""

    name = "simt.thread_id"

    i = result_def(IndexType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class MemoryOp(IRDLOperation):
    """Memory that the threads of a block share, with undefined contents at its start.

    It begins at a multiple of `alignment` bytes, or of 16.

    %m = simt.memory : memref<256xi32, "workgroup">
    """

    name = "simt.memory"

    alignment = opt_prop_def(IntegerAttr)
    y = result_def(MemRefType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, element: Attribute, size: int, alignment: int | None = None) -> None:
        super().__init__(
            properties={} if alignment is None else {"alignment": IntegerAttr(alignment, 64)},
            result_types=[MemRefType(element, [size], memory_space=WORKGROUP)],
        )

    def verify_(self) -> None:
        """Check that the size is static, the memory shared, and the alignment a power of two."""
        kind = cast("MemRefType[Any]", self.y.type)
        alignment = 16 if self.alignment is None else self.alignment.value.data
        require(
            16 <= alignment <= MOST_ALIGNMENT and alignment & (alignment - 1) == 0,
            f"an alignment of {alignment}",
        )
        require(all(n >= 0 for n in kind.get_shape()), "shared memory has a static size")
        require(kind.memory_space == WORKGROUP, f"the memory space is {kind.memory_space}")
        require(self.size <= MOST_BYTES, f"{self.size} bytes, a block shares {MOST_BYTES} at most")

    @property
    def size(self) -> int:
        """Bytes that it takes; an i1 takes one."""
        kind = cast("MemRefType[Any]", self.y.type)
        return prod(kind.get_shape()) * max(1, getattr(kind.element_type, "bitwidth", 64) // 8)


class _Dimension(IRDLOperation):
    """A number of one dimension of a memref."""

    x = operand_def(MemRefType)
    dim = prop_def(IntegerAttr)
    n = result_def(IndexType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = "$x attr-dict `:` type($x)"

    def __init__(self, x: SSAValue, dim: int) -> None:
        super().__init__(
            operands=[x], properties={"dim": IntegerAttr(dim, 64)}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        """Check that there is such a dimension."""
        rank = cast("MemRefType[Any]", self.x.type).get_num_dims()
        require(0 <= self.dim.value.data < rank, f"dim {self.dim.value.data} of rank {rank}")


@irdl_op_definition
class ExtentOp(_Dimension):
    """The number of elements in dimension `dim`."""

    name = "simt.extent"


@irdl_op_definition
class StrideOp(_Dimension):
    """The distance in elements between neighbours in dimension `dim`."""

    name = "simt.stride"


def _run_property(run: int) -> dict[str, Attribute | None]:
    return {} if run == 1 else {"run": IntegerAttr(run, 64)}


def _require_access(
    x: SSAValue,
    at: SSAValue,
    mask: SSAValue | None,
    value: Attribute,
    run: IntegerAttr[Any] | None,
) -> None:
    shape = shape_of(value)
    require(len(shape) <= 1, f"a thread's registers are one dimension, got {value}")
    require(element_of(value) == element_of(x.type), f"{value} in a memory of {element_of(x.type)}")
    require(at.type == vector(IndexType(), shape), f"places {at.type} for {value}")
    require(mask is None or mask.type == vector(i1, shape), "the mask does not fit the value")
    require(run is None or len(shape) == 1, f"a run of {value}")
    _require_run(element_of(value), 1 if run is None else run.value.data, at, mask)


def _require_run(kind: Attribute, run: int, at: SSAValue, mask: SSAValue | None = None) -> None:
    """Check that accesses of a thread can take places `run` at a time, as far as these are known.

    Of places that `mask` leaves out nothing is said.
    """
    count, bits = prod(shape_of(at.type)), int(getattr(kind, "bitwidth", 64))
    require(run > 0 and run & (run - 1) == 0 and count % run == 0, f"runs of {run} in {at.type}")
    require(
        run == 1 or (8 <= bits and run * bits <= 8 * ACCESS_BYTES),
        f"a run of {run} {kind}: one access takes whole bytes, {ACCESS_BYTES} at most",
    )
    places = _known(at) if run > 1 and mask is None else []
    for n in range(0, len(places), run):
        here = places[n : n + run]
        fits = here[0] % run == 0 and all(at == here[0] + k for k, at in enumerate(here))
        require(fits, f"places {here} are no run of {run} that is aligned")


def _known(at: SSAValue) -> list[int]:
    """Return the places that a constant has, none if they are computed."""
    op = at.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, DenseIntOrFPElementsAttr):
        return []
    numbers = [int(n) for n in cast("Any", op.value).get_values()]
    return numbers * prod(shape_of(at.type)) if len(numbers) == 1 else numbers


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Elements of a memory, one for each register; where `mask` is false, `pad` (0 if absent).

    Registers come in runs of `run`: neighbours in memory under one mask, the first of them at a
    multiple of their number.

    %v = simt.load %x[%at] mask %m : vector<4xi1>
         : memref<?x16xf32>, vector<4xindex> -> vector<4xf32>
    """

    name = "simt.load"

    x = operand_def(MemRefType)
    at = operand_def()
    mask = opt_operand_def()
    pad = opt_prop_def(FloatAttr | IntegerAttr)
    run = opt_prop_def(IntegerAttr)
    y = result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x `[` $at `]` (`mask` $mask^ `:` type($mask))? attr-dict "
        "`:` type($x) `,` type($at) `->` type($y)"
    )

    def __init__(
        self,
        x: SSAValue,
        at: SSAValue,
        mask: SSAValue | None = None,
        pad: FloatAttr[Any] | IntegerAttr[Any] | None = None,
        run: int = 1,
    ) -> None:
        super().__init__(
            operands=[x, at, mask],
            properties=({} if pad is None else {"pad": pad}) | _run_property(run),
            result_types=[vector(element_of(x.type), shape_of(at.type))],
        )

    def verify_(self) -> None:
        """Check that places, mask and value fit."""
        _require_access(self.x, self.at, self.mask, self.y.type, self.run)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Store registers; where `mask` is false, nothing. No two threads may meet in one element.

    Registers come in runs of `run`, as for a load.

    simt.store %v, %x[%at] mask %m : vector<4xi1>
        : vector<4xf32>, memref<?x16xf32>, vector<4xindex>
    """

    name = "simt.store"

    v = operand_def()
    x = operand_def(MemRefType)
    at = operand_def()
    mask = opt_operand_def()
    run = opt_prop_def(IntegerAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$v `,` $x `[` $at `]` (`mask` $mask^ `:` type($mask))? attr-dict "
        "`:` type($v) `,` type($x) `,` type($at)"
    )

    def __init__(
        self, v: SSAValue, x: SSAValue, at: SSAValue, mask: SSAValue | None = None, run: int = 1
    ) -> None:
        super().__init__(operands=[v, x, at, mask], properties=_run_property(run))

    def verify_(self) -> None:
        """Check that places, mask and value fit."""
        _require_access(self.x, self.at, self.mask, self.v.type, self.run)


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Change elements of a memory, each at once and as a whole, and give what was there before.

    With `o` there, `add`, `max`, `min`, `and`, `or` and `xor` store `kind(o, v)`, `exchange` stores
    `v`, and `compare_exchange` stores `v` if `o` is `expected`. Elements are i32, or f32 for `add`.
    Threads that meet in one element take turns in an order that nobody says: a sum of floats
    depends on it, and a GPU may take subnormal ones as 0, so no pass makes any. Other memory is
    ordered by barriers alone. Where `mask` is false nothing happens, and 0 is given.

    %o = simt.atomic %v, %x[%at] expected %e : i32 mask %k : i1 {kind = "compare_exchange"}
         : memref<?xi32>, index -> i32
    """

    name = "simt.atomic"

    v = operand_def()
    x = operand_def(MemRefType)
    at = operand_def()
    expected = opt_operand_def()
    mask = opt_operand_def()
    kind = prop_def(StringAttr)
    y = result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$v `,` $x `[` $at `]` (`expected` $expected^ `:` type($expected))? "
        "(`mask` $mask^ `:` type($mask))? attr-dict "
        "`:` type($v) `,` type($x) `,` type($at) `->` type($y)"
    )

    def __init__(
        self,
        kind: str,
        v: SSAValue,
        x: SSAValue,
        at: SSAValue,
        expected: SSAValue | None = None,
        mask: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[v, x, at, expected, mask],
            properties={"kind": StringAttr(kind)},
            result_types=[v.type],
        )

    def verify_(self) -> None:
        """Check the kind, the elements, and that places, masks and what is expected fit."""
        kind, element = self.kind.data, element_of(self.v.type)
        require(kind in ATOMICS, f"kind is {kind}, expected one of {', '.join(ATOMICS)}")
        allowed = (i32, f32) if kind == "add" else (i32,)
        require(
            element in allowed,
            f"an atomic {kind} of {element}, expected {' or '.join(map(str, allowed))}",
        )
        require(
            (kind == "compare_exchange") == (self.expected is not None),
            "a compare_exchange says what it expects, nothing else does",
        )
        expected = self.v if self.expected is None else self.expected
        require(self.y.type == self.v.type == expected.type, "values of different types")
        _require_access(self.x, self.at, self.mask, self.v.type, None)


@irdl_op_definition
class ErrorWordOp(IRDLOperation):
    """The error word of the step: 0, or the number of the node whose check was the first to fail.

    %w = simt.error_word : memref<1xi32>
    """

    name = "simt.error_word"

    y = result_def(MemRefType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self) -> None:
        super().__init__(result_types=[MemRefType(i32, [1])])

    def verify_(self) -> None:
        """Check the type."""
        require(self.y.type == MemRefType(i32, [1]), f"the error word is {self.y.type}")


@irdl_op_definition
class NodeOp(IRDLOperation):
    """The number of a source node in the table of nodes that goes with the code, from 1 on.

    %n = simt.node {node = "/embed/Gather"}
    """

    name = "simt.node"

    node = prop_def(StringAttr)
    n = result_def(i32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self, node: str) -> None:
        super().__init__(properties={"node": StringAttr(node)}, result_types=[i32])


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the block wait here, and see what any of them stored before."""

    name = "simt.barrier"

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """What the thread whose number differs in the bits `xor` holds; both are in one subgroup.

    %y = simt.shuffle %x {xor = 4 : i64} : (vector<2xf32>) -> vector<2xf32>
    """

    name = "simt.shuffle"

    x = operand_def()
    xor = prop_def(IntegerAttr)
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, xor: int) -> None:
        super().__init__(
            operands=[x], properties={"xor": IntegerAttr(xor, 64)}, result_types=[x.type]
        )

    def verify_(self) -> None:
        """Check the type, and that the partner is in the subgroup."""
        require(self.x.type == self.y.type, "a shuffle keeps its type")
        kernel, xor = _kernel_of(self), self.xor.value.data
        limit = kernel.subgroup.value.data if kernel else xor + 1
        require(0 < xor < limit, f"xor is {xor} in a subgroup of {limit}")


@irdl_op_definition
class SubgroupReduceOp(IRDLOperation):
    """What `cluster` neighbouring threads hold in a register made one, which all of them have.

    Clusters begin at multiples of their size; without `cluster` they are the whole subgroup. Values
    are i32, or i1 but for `add` and `mul`, in which no order of the operands makes a difference:
    sums and products wrap, and the larger i1 is true. Floats are combined by shuffles instead, in
    an order that the program says: hardware does not say in which order it adds them, nor which of
    two NaNs, or zeros, it keeps.

    %y = simt.subgroup_reduce %x {kind = "add", cluster = 8 : i64}
         : (vector<2xi32>) -> vector<2xi32>
    """

    name = "simt.subgroup_reduce"

    x = operand_def()
    kind = prop_def(StringAttr)
    cluster = opt_prop_def(IntegerAttr)
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, kind: str, cluster: int | None = None) -> None:
        size = {} if cluster is None else {"cluster": IntegerAttr(cluster, 64)}
        super().__init__(
            operands=[x], properties={"kind": StringAttr(kind), **size}, result_types=[x.type]
        )

    @property
    def size(self) -> int:
        """The threads whose registers become one."""
        if self.cluster is not None:
            return self.cluster.value.data
        kernel = _kernel_of(self)
        assert kernel is not None
        return kernel.subgroup.value.data

    def verify_(self) -> None:
        """Check the kind, the type, and that clusters divide the subgroup."""
        kind, element = self.kind.data, element_of(self.x.type)
        require(kind in REDUCTIONS, f"kind is {kind}, expected one of {', '.join(REDUCTIONS)}")
        allowed = (i32,) if kind in ("add", "mul") else (i1, i32)
        require(
            element in allowed,
            f"a reduction by {kind} of {element}, expected {' or '.join(map(str, allowed))}",
        )
        require(self.x.type == self.y.type, "a reduction keeps its type")
        kernel = _kernel_of(self)
        if self.cluster is not None:
            size = self.cluster.value.data
            limit = kernel.subgroup.value.data if kernel else size
            fits = size > 1 and size & (size - 1) == 0 and size <= limit
            require(fits, f"clusters of {size} in a subgroup of {limit}")


@irdl_op_definition
class PickOp(IRDLOperation):
    """Registers of a thread, by their numbers: a vector of them, or one as a scalar.

    %y = simt.pick %x {at = array<i64: 0, 0, 1>} : (vector<2xf32>) -> vector<3xf32>
    """

    name = "simt.pick"

    x = operand_def(VectorType)
    at = prop_def(DenseArrayBase)
    y = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, at: Sequence[int], *, scalar: bool = False) -> None:
        shape = () if scalar else (len(at),)
        super().__init__(
            operands=[x],
            properties={"at": ints(at)},
            result_types=[vector(element_of(x.type), shape)],
        )

    def verify_(self) -> None:
        """Check that there are such registers, and the result's type."""
        (size,), at = shape_of(self.x.type), values(self.at)
        require(bool(at) and all(0 <= r < size for r in at), f"registers {at} of {size}")
        expected = [(len(at),), ()] if len(at) == 1 else [(len(at),)]
        require(shape_of(self.y.type) in expected, f"{len(at)} registers in {self.y.type}")
        require(element_of(self.y.type) == element_of(self.x.type), f"picked {self.y.type}")


@irdl_op_definition
class JoinOp(IRDLOperation):
    """The registers of several values, scalars or vectors, one after the other."""

    name = "simt.join"

    xs = var_operand_def()
    y = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "$xs attr-dict `:` functional-type(operands, results)"

    def __init__(self, xs: Sequence[SSAValue]) -> None:
        size = sum(prod(shape_of(x.type)) for x in xs)
        super().__init__(operands=[xs], result_types=[vector(element_of(xs[0].type), (size,))])

    def verify_(self) -> None:
        """Check that the registers add up and are of one type."""
        size = sum(prod(shape_of(x.type)) for x in self.xs)
        require(shape_of(self.y.type) == (size,), f"{size} registers in {self.y.type}")
        kinds = {element_of(x.type) for x in (*self.xs, self.y)}
        require(len(kinds) == 1, "registers of different types in one value")


@irdl_op_definition
class MultiplyAccumulateOp(IRDLOperation):
    """`c + a b` of matrices that the 32 threads of a subgroup hold together, on a matrix unit.

    `a` is 16 by k, `b` k by 8 and `c` 16 by 8, with k = 16 of 16-bit floats and sums in f32, or 32
    of 8-bit integers and sums in i32; `unsigned` says of a and b whether they are. Of f32, k = 8,
    and of each number the unit takes 10 bits of fraction (tf32, ties away from 0). Thread t holds
    of `a` the rows t / 4 and 8 more, of `b` the column t / 4, of each a run of k / 8 columns of K
    from t % 4 · k / 8 on and another k / 2 further; of `c` the rows of its `a`, and two columns
    from t % 4 · 2 on. Registers go along the run, then to the other row, then to the other run.

    %d = simt.multiply_accumulate %a, %b, %c
         : (vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    """

    name = "simt.multiply_accumulate"

    a = operand_def(VectorType)
    b = operand_def(VectorType)
    c = operand_def(VectorType)
    unsigned = opt_prop_def(DenseArrayBase)
    y = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b `,` $c attr-dict `:` functional-type(operands, results)"

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, unsigned: Sequence[int] = ()) -> None:
        super().__init__(
            operands=[a, b, c],
            properties={"unsigned": ints(unsigned)} if any(unsigned) else {},
            result_types=[c.type],
        )

    @property
    def depth(self) -> int:
        """The columns of K."""
        return 2 * shape_of(self.a.type)[0]

    def verify_(self) -> None:
        """Check element types and numbers of registers."""
        kind = element_of(self.a.type)
        bits = getattr(kind, "bitwidth", 0)
        sums = i32 if kind == i8 else f32
        floats = isinstance(kind, Float16Type | BFloat16Type) or kind == f32
        require(floats or kind == i8, f"matrices of {kind}")
        run = 32 // bits
        expected = [vector(kind, (4 * run,)), vector(kind, (2 * run,)), vector(sums, (4,))]
        found = [self.a.type, self.b.type, self.c.type]
        require(found == expected, f"matrices in {found}, expected {expected}")
        require(self.y.type == self.c.type, "sums change their type")


@irdl_op_definition
class LoadMatrixOp(IRDLOperation):
    """Matrices of 8 by 8 elements of 16 bits from shared memory, `count` for each register of `at`.

    Of the 32 threads of a subgroup, thread t says where row t % 8 of matrix t / 8 begins, at a
    multiple of 8 elements, and gets of each matrix two elements of row t / 4, from column
    t % 4 · 2 on; if `transposed`, of column t / 4. Rows of matrices beyond `count` do not matter.

    %y = simt.load_matrix %m[%at] {count = 4 : i64}
         : memref<512xi16, "workgroup">, vector<2xindex> -> vector<16xi16>
    """

    name = "simt.load_matrix"

    x = operand_def(MemRefType)
    at = operand_def(VectorType)
    count = prop_def(IntegerAttr)
    transposed = opt_prop_def(UnitAttr)
    y = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `[` $at `]` attr-dict `:` type($x) `,` type($at) `->` type($y)"

    def __init__(self, x: SSAValue, at: SSAValue, count: int, *, transposed: bool = False) -> None:
        size = 2 * count * shape_of(at.type)[0]
        super().__init__(
            operands=[x, at],
            properties={"count": IntegerAttr(count, 64)}
            | ({"transposed": UnitAttr()} if transposed else {}),
            result_types=[vector(element_of(x.type), (size,))],
        )

    def verify_(self) -> None:
        """Check the memory, the count and the registers."""
        kind, count = cast("MemRefType[Any]", self.x.type), self.count.value.data
        require(kind.memory_space == WORKGROUP, "matrices are loaded from shared memory")
        require(getattr(kind.element_type, "bitwidth", 0) == 16, f"matrices of {kind}")
        require(count in (1, 2, 4), f"{count} matrices at once")
        rows = _known(self.at)
        require(all(n % 8 == 0 for n in rows), f"rows at {rows} begin at no multiple of 8 elements")
        size = 2 * count * shape_of(self.at.type)[0]
        require(self.y.type == vector(kind.element_type, (size,)), f"{size} in {self.y.type}")


@irdl_op_definition
class WarpgroupMultiplyOp(IRDLOperation):
    """Begin `c + a b` of matrices `m` by `k` and `k` by `n` of 16-bit floats in shared memory.

    All threads of a block make it together, with sums in f32, 64 rows for 128 of them. The sums are
    there, and the operands free, behind a `simt.warpgroup_wait`; before it, they may only be added
    to by another product. An operand
    lies in matrices of 8 by 8, each 64 elements in a row, from `a_at` or `b_at` on: the next 8 rows
    (columns, of `b`) are `a_steps[0]` elements further, the next 8 along K `a_steps[1]`. A matrix
    lies with K along its rows, or across them for an operand named in `across` (1 = it is).
    Registers of `c`: thread t has the rows t / 32 · 16 + t % 32 / 4 and 8 more, and two columns
    from t % 4 · 2 on. They go along the columns, then to the other row, then 8 columns on, then to
    the next rows that the block has. What threads stored is seen behind a `simt.fence` and a
    barrier.

    If `swizzled`, an operand lies as `simt.copy_tensor` puts it: in rows of 64 elements, with K
    along them or across, of which the next 8 are `steps[0]` elements further, and the next 64
    columns `steps[1]`. The 8 elements from column 8 u on of row r are where column 8 (u ^ r % 8)
    would be.
    """

    name = "simt.warpgroup_multiply"

    a = operand_def(MemRefType)
    a_at = operand_def(IndexType())
    b = operand_def(MemRefType)
    b_at = operand_def(IndexType())
    c = operand_def(VectorType)
    sizes = prop_def(DenseArrayBase)
    a_steps = prop_def(DenseArrayBase)
    b_steps = prop_def(DenseArrayBase)
    across = opt_prop_def(DenseArrayBase)
    swizzled = opt_prop_def(UnitAttr)
    kind = prop_def(TypeAttribute)
    y = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `[` $a_at `]` `,` $b `[` $b_at `]` `,` $c attr-dict "
        "`:` type($a) `,` type($b) `,` type($c) `->` type($y)"
    )

    def __init__(
        self,
        operands: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
        c: SSAValue,
        kind: Attribute,
        sizes: Sequence[int],
        steps: tuple[Sequence[int], Sequence[int]],
        across: Sequence[int],
        *,
        swizzled: bool = False,
    ) -> None:
        """Take `(a, a_at, b, b_at)`, and `sizes` m, n, k."""
        super().__init__(
            operands=[*operands, c],
            properties={
                "sizes": ints(sizes),
                "a_steps": ints(steps[0]),
                "b_steps": ints(steps[1]),
                "kind": kind,
            }
            | ({"across": ints(across)} if any(across) else {})
            | ({"swizzled": UnitAttr()} if swizzled else {}),
            result_types=[c.type],
        )

    def verify_(self) -> None:
        """Check memories, sizes, distances and registers."""
        m, n, k = values(self.sizes)
        for x in (self.a, self.b):
            kind = cast("MemRefType[Any]", x.type)
            require(kind.memory_space == WORKGROUP, "operands are in shared memory")
            require(getattr(kind.element_type, "bitwidth", 0) == 16, f"operands of {kind}")
        require(isinstance(self.kind, Float16Type | BFloat16Type), f"products of {self.kind}")
        threads = self.threads
        require(threads % WARPGROUP == 0, f"{threads} threads are not four subgroups each")
        rows = 64 * threads // WARPGROUP
        require(m % rows == 0 and n % 8 == 0 and 0 < n <= 256 and k % 16 == 0, f"{m} by {n} by {k}")
        steps = [*values(self.a_steps), *values(self.b_steps)]
        require(len(steps) == 4 and all(s % 8 == 0 for s in steps), f"distances {steps}")
        require(self.c.type == self.y.type == vector(f32, (m * n // threads,)), f"{self.c.type}")
        _require_waited(self.y)

    @property
    def threads(self) -> int:
        """The threads of the block; outside of a kernel as many as make it."""
        kernel = self.parent_op()
        while kernel is not None and not isinstance(kernel, KernelOp):
            kernel = kernel.parent_op()
        return WARPGROUP if kernel is None else kernel.threads.value.data


def _require_waited(sums: SSAValue) -> None:
    """Sums that are under way go to the next product, to a wait, or on in a loop."""
    known = (WarpgroupMultiplyOp, WarpgroupWaitOp, ForOp, YieldOp)
    used = [use.operation.name for use in sums.uses if not isinstance(use.operation, known)]
    require(not used, f"sums are used by {', '.join(used)} before they are waited for")


@irdl_op_definition
class WarpgroupWaitOp(IRDLOperation):
    """The sums `c`, when all products but the `pending` last ones that this thread began are done.

    With `pending` they are themselves still under way.

    %y = simt.warpgroup_wait %c {pending = 1 : i64} : (vector<32xf32>) -> vector<32xf32>
    """

    name = "simt.warpgroup_wait"

    c = operand_def(VectorType)
    pending = prop_def(IntegerAttr)
    y = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$c attr-dict `:` functional-type(operands, results)"

    def __init__(self, c: SSAValue, pending: int) -> None:
        super().__init__(
            operands=[c], properties={"pending": IntegerAttr(pending, 64)}, result_types=[c.type]
        )

    def verify_(self) -> None:
        """Check the number, the type, and that what is under way is waited for."""
        require(self.pending.value.data >= 0, "a number of products is not negative")
        require(self.c.type == self.y.type, "sums keep their type")
        if self.pending.value.data:
            _require_waited(self.y)


class _OfMbarriers(IRDLOperation):
    """What the threads of a block do with one of their barriers that count bytes."""

    b = operand_def(MemRefType)
    n = operand_def(IndexType())

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format: ClassVar[str | None] = "$b `[` $n `]` attr-dict `:` type($b)"


def _require_mbarriers(memory: SSAValue) -> None:
    kind = cast("MemRefType[Any]", memory.type)
    require(kind.memory_space == WORKGROUP, "barriers are in shared memory")
    require(kind.element_type == i64, f"barriers are i64, not {kind.element_type}")


@irdl_op_definition
class MbarrierInitOp(IRDLOperation):
    """The first thread makes a barrier of each element; others use them behind a `simt.barrier`.

    A phase of a barrier ends when the first thread has arrived, and all bytes that it expects are
    there. Phases are numbered from 0.

    simt.mbarrier_init %b : memref<4xi64, "workgroup">
    """

    name = "simt.mbarrier_init"

    b = operand_def(MemRefType)

    assembly_format = "$b attr-dict `:` type($b)"

    def __init__(self, b: SSAValue) -> None:
        super().__init__(operands=[b])

    def verify_(self) -> None:
        """Check the memory."""
        _require_mbarriers(self.b)


@irdl_op_definition
class MbarrierArriveOp(_OfMbarriers):
    """The first thread arrives at barrier `n`, whose phase ends when `bytes` more have come.

    simt.mbarrier_arrive %b[%n] {bytes = 16384 : i64} : memref<4xi64, "workgroup">
    """

    name = "simt.mbarrier_arrive"

    bytes = prop_def(IntegerAttr)

    def __init__(self, b: SSAValue, n: SSAValue, bytes: int) -> None:
        super().__init__(operands=[b, n], properties={"bytes": IntegerAttr(bytes, 64)})

    def verify_(self) -> None:
        """Check the memory and the number."""
        _require_mbarriers(self.b)
        require(0 < self.bytes.value.data < 1 << 20, f"{self.bytes.value.data} bytes are expected")


@irdl_op_definition
class MbarrierWaitOp(IRDLOperation):
    """All threads wait for the end of the phase of barrier `n` whose number is even, or odd.

    `parity` is 0 or 1. What the phase waited for is there then, for all of them.

    simt.mbarrier_wait %b[%n], %parity : memref<4xi64, "workgroup">
    """

    name = "simt.mbarrier_wait"

    b = operand_def(MemRefType)
    n = operand_def(IndexType())
    parity = operand_def(IndexType())

    assembly_format = "$b `[` $n `]` `,` $parity attr-dict `:` type($b)"

    def __init__(self, b: SSAValue, n: SSAValue, parity: SSAValue) -> None:
        super().__init__(operands=[b, n, parity])

    def verify_(self) -> None:
        """Check the memory."""
        _require_mbarriers(self.b)


@irdl_op_definition
class CopyTensorOp(IRDLOperation):
    """The first thread begins to copy a box of an argument into shared memory, from `to` on.

    The box begins at the subscripts `at`, one for each dimension, and has `box` elements along
    each: 64 of 16 bits along the last. What is outside is 0. It comes as rows of 64 elements, whose
    8 parts change places: part u of row r is where part u ^ r % 8 would be. When all of it is there
    the phase of barrier `n` of `b` has its bytes; until then nobody may touch it.

    simt.copy_tensor %x[%i, %k], %m[%to], %b[%n] {box = array<i64: 128, 64>}
        : memref<?x4096xbf16>, memref<32768xi16, "workgroup">, memref<4xi64, "workgroup">
    """

    name = "simt.copy_tensor"

    x = operand_def(MemRefType)
    at = var_operand_def(IndexType())
    m = operand_def(MemRefType)
    to = operand_def(IndexType())
    b = operand_def(MemRefType)
    n = operand_def(IndexType())
    box = prop_def(DenseArrayBase)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$x `[` $at `]` `,` $m `[` $to `]` `,` $b `[` $n `]` attr-dict "
        "`:` type($x) `,` type($m) `,` type($b)"
    )

    def __init__(
        self,
        source: tuple[SSAValue, Sequence[SSAValue]],
        target: tuple[SSAValue, SSAValue],
        barrier: tuple[SSAValue, SSAValue],
        box: Sequence[int],
    ) -> None:
        """Take memories, each with where in it."""
        super().__init__(
            operands=[source[0], source[1], *target, *barrier], properties={"box": ints(box)}
        )

    @property
    def bytes(self) -> int:
        """The bytes of the box."""
        return 2 * prod(values(self.box))

    def verify_(self) -> None:
        """Check the memories, and the sizes that such copies may have."""
        x, m = cast("MemRefType[Any]", self.x.type), cast("MemRefType[Any]", self.m.type)
        require(m.memory_space == WORKGROUP, "copies go to shared memory")
        require(x.memory_space != WORKGROUP, "copies come from an argument")
        _require_mbarriers(self.b)
        bits = [getattr(each.element_type, "bitwidth", 64) for each in (x, m)]
        require(bits == [16, 16], f"a copy of {x.element_type} to {m.element_type}")
        extents, box = list(x.get_shape()), values(self.box)
        require(isinstance(x.layout, NoneAttr), "a tensor that is copied lies row by row")
        require(1 <= len(extents) <= 5, f"a tensor of {len(extents)} dimensions")
        require(len(extents) == len(box) == len(self.at), f"a box of {box} of {x}")
        require(all(1 <= size <= 256 for size in box), f"a box of {box}")
        require(box[-1] == SWIZZLED_ROW, f"rows of {box[-1]} elements")
        whole = len(extents) == 1 or extents[-1] > 0
        require(whole and max(0, extents[-1]) % 8 == 0, "rows begin at multiples of 16 bytes")


@irdl_op_definition
class FenceOp(IRDLOperation):
    """What this thread stored in shared memory is there for units that read it by themselves."""

    name = "simt.fence"

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CopyAsyncOp(IRDLOperation):
    """Begin to copy elements of an argument into shared memory, in runs of `run` (see load).

    Where `mask` is false, zeros come. What is copied is there only after a `simt.wait`, for other
    threads after a barrier behind it; until then nobody may touch it.

    simt.copy_async %x[%at], %m[%to] mask %k : vector<8xi1> {run = 8 : i64}
        : memref<?x64xf16>, vector<8xindex>, memref<512xi16, "workgroup">, vector<8xindex>
    """

    name = "simt.copy_async"

    x = operand_def(MemRefType)
    at = operand_def(VectorType)
    m = operand_def(MemRefType)
    to = operand_def(VectorType)
    mask = opt_operand_def()
    run = prop_def(IntegerAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x `[` $at `]` `,` $m `[` $to `]` (`mask` $mask^ `:` type($mask))? attr-dict "
        "`:` type($x) `,` type($at) `,` type($m) `,` type($to)"
    )

    def __init__(
        self,
        x: SSAValue,
        at: SSAValue,
        m: SSAValue,
        to: SSAValue,
        run: int,
        mask: SSAValue | None = None,
    ) -> None:
        super().__init__(operands=[x, at, m, to, mask], properties={"run": IntegerAttr(run, 64)})

    @property
    def bytes(self) -> int:
        """The bytes of a run."""
        return self.run.value.data * getattr(element_of(self.x.type), "bitwidth", 64) // 8

    def verify_(self) -> None:
        """Check the memories, the places, the mask and the size of a run."""
        x, m = cast("MemRefType[Any]", self.x.type), cast("MemRefType[Any]", self.m.type)
        require(m.memory_space == WORKGROUP, "copies go to shared memory")
        require(x.memory_space != WORKGROUP, "copies come from an argument")
        bits = [getattr(each.element_type, "bitwidth", 64) for each in (x, m)]
        require(bits[0] == bits[1], f"a copy of {x.element_type} to {m.element_type}")
        shape = shape_of(self.at.type)
        require(self.at.type == self.to.type == vector(IndexType(), shape), "places differ")
        require(self.mask is None or self.mask.type == vector(i1, shape), "the mask does not fit")
        for places in (self.at, self.to):
            _require_run(x.element_type, self.run.value.data, places, self.mask)
        require(
            self.bytes in (4, 8, 16), f"a copy takes 4, 8 or 16 bytes at once, not {self.bytes}"
        )


@irdl_op_definition
class CommitOp(IRDLOperation):
    """The copies that this thread began since the last commit are one group."""

    name = "simt.commit"

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WaitOp(IRDLOperation):
    """Wait until all groups of copies of this thread but the `pending` last ones are done."""

    name = "simt.wait"

    pending = prop_def(IntegerAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": IntegerAttr(pending, 64)})

    def verify_(self) -> None:
        """Check the number."""
        require(self.pending.value.data >= 0, "a number of groups is not negative")


@irdl_op_definition
class UniformOp(IRDLOperation):
    """A scalar that is known to be the same in all threads of the block.

    %n = simt.uniform %m : (index) -> index
    """

    name = "simt.uniform"

    x = operand_def()
    y = result_def()

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue) -> None:
        super().__init__(operands=[x], result_types=[x.type])

    def verify_(self) -> None:
        """Check that it is a scalar."""
        require(not shape_of(self.x.type) and self.x.type == self.y.type, "uniform takes a scalar")


MEETINGS = (
    BarrierOp,
    CopyTensorOp,
    LoadMatrixOp,
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierWaitOp,
    MultiplyAccumulateOp,
    ShuffleOp,
    SubgroupReduceOp,
    UniformOp,
    WarpgroupMultiplyOp,
    WarpgroupWaitOp,
)
"""Operations that all threads of a block, or of a subgroup, do together."""

OPS: list[type[Operation]] = [
    AtomicOp,
    BarrierOp,
    CommitOp,
    CopyAsyncOp,
    CopyTensorOp,
    ErrorWordOp,
    ExtentOp,
    FenceOp,
    JoinOp,
    KernelOp,
    LoadMatrixOp,
    LoadOp,
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierWaitOp,
    MemoryOp,
    MultiplyAccumulateOp,
    NodeOp,
    PickOp,
    ShuffleOp,
    StoreOp,
    StrideOp,
    SubgroupReduceOp,
    ThreadIdOp,
    UniformOp,
    WaitOp,
    WarpgroupMultiplyOp,
    WarpgroupWaitOp,
]

SIMT = Dialect("simt", OPS)
