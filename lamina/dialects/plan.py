"""The `plan` dialect: launches of kernels on buffers of one arena.

At this level `@forward` takes buffers, outputs included, and returns nothing. Before memory is
planned, intermediates are `plan.alloc`; afterwards, `plan.view` of the arena at offsets that are
extents of the symbols. A `plan.launch` is a set of kernels that need nothing of each other.

Where kernels run on a device with memory of its own, that is where buffers are. What host calls
work on has `memory = "host"`, and `plan.copy` goes from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i8,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
)
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.areas import Area, Columns, packed_strides
from lamina.dialects.bounds import is_plainly_positive
from lamina.dialects.dims import Dim, parse_dim, product
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, signless, tensor
from lamina.dialects.tile import ACCESSES, ints, values

ALIGNMENT = 64
"""Bytes to which every buffer's start is aligned."""


@lru_cache(maxsize=4096)
def room_of(size: Dim) -> Dim:
    """Return what a buffer of `size` bytes takes of an arena: whole lines, and never below 0."""
    rounded = size.ceildiv(ALIGNMENT) * ALIGNMENT
    return rounded if is_plainly_positive(rounded) else rounded.maximum(0)


HOST = "host"
"""The memory of whoever drives a device."""


def _extent(text: str) -> Dim:
    try:
        return parse_dim(text)
    except ValueError as error:
        raise VerifyException(str(error)) from error


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Memory of a tensor, row by row: `!plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>`."""

    name = "plan.buffer"

    tensor: TensorType

    @property
    def memref(self) -> MemRefType[Any]:
        """The kernel argument that such a buffer is passed as."""
        return MemRefType(signless(self.tensor.get_element_type()), self.tensor.get_shape())

    @property
    def bytes(self) -> Dim:
        """The size in bytes; booleans take one each."""
        return _tensor_bytes(self.tensor)


@lru_cache(4096)
def _tensor_bytes(tensor: TensorType) -> Dim:
    return product(extents(tensor)) * element_bytes(tensor.get_element_type())


def columns_of(value: SSAValue) -> Columns | None:
    """Return how the rows of a buffer lie, where there is something between them."""
    return value.owner.columns if isinstance(value.owner, ViewOp) else None


def strides_of(value: SSAValue) -> tuple[Dim, ...]:
    """Return the distance of neighbours in each dimension of a buffer, in elements."""
    shape, columns = extents(cast("BufferType", value.type).tensor), columns_of(value)
    return columns.strides(shape) if columns else packed_strides(shape)


def area_of(value: SSAValue) -> Area:
    """Return the bytes of a buffer, counted from where what it is a view of begins."""
    start = Dim.of(value.owner.offset.data) if isinstance(value.owner, ViewOp) else Dim.of(0)
    return area_at(cast("BufferType", value.type), start, columns_of(value))


def area_at(kind: BufferType, start: Dim, columns: Columns | None) -> Area:
    """Return the bytes of a buffer that begins at `start`, maybe as columns of a larger one."""
    if columns is None:
        return Area.stretch(start, kind.bytes)
    shape, size = extents(kind.tensor), element_bytes(kind.tensor.get_element_type())
    rows, width = product(shape[: columns.outer]), product(shape[columns.outer :])
    return Area.columns(start, width * size, rows, columns.stride * size)


def element_bytes(type: Attribute) -> int:
    """Return the bytes that an element takes in memory."""
    bits = 64 if str(type) == "index" else int("".join(c for c in str(type) if c.isdigit()))
    return max(1, bits // 8)


def is_host(value: SSAValue) -> bool:
    """Return whether a buffer is in the memory of the host, while others are on a device."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.x
    owner = value.owner
    return isinstance(owner, AllocOp | ArenaOp) and owner.memory is not None


def _memory(name: str | None) -> StringAttr | None:
    return None if name is None else StringAttr(name)


def _verify_memory(memory: StringAttr | None) -> None:
    known = memory is None or memory.data == HOST
    require(known, f"a memory is {HOST!r}, or is not said: got {memory}")


@irdl_op_definition
class AllocOp(IRDLOperation):
    """An intermediate buffer that has no place yet.

    %b = plan.alloc {memory = "host"} : !plan.buffer<…>
    """

    name = "plan.alloc"

    memory = opt_prop_def(StringAttr)
    y = result_def(BufferType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, type: BufferType, memory: str | None = None) -> None:
        super().__init__(properties={"memory": _memory(memory)}, result_types=[type])

    def verify_(self) -> None:
        """Check the memory."""
        _verify_memory(self.memory)


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """The arena of a memory: one buffer of bytes, as large as the plan needs."""

    name = "plan.arena"

    memory = opt_prop_def(StringAttr)
    y = result_def(BufferType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, size: Dim, memory: str | None = None) -> None:
        super().__init__(
            properties={"memory": _memory(memory)},
            result_types=[BufferType(tensor(i8, [size]))],
        )

    def verify_(self) -> None:
        """Check the memory."""
        _verify_memory(self.memory)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same memory from byte `offset` on, under another type: an alias, never a copy.

    With `assumed` all of it, by another spelling of its size: calls in which the two differ are
    refused before. With a `stride`, columns of a matrix: the first `outer` dimensions count rows
    that begin so many elements apart. Such a view has no views of its own.

    %b = plan.view %arena {offset = "2304*T"} : !plan.buffer<…> to !plan.buffer<…>
    %c = plan.view %b {offset = "64", outer = 1 : i64, stride = "96"} : …
    """

    name = "plan.view"

    x = operand_def(BufferType)
    offset = prop_def(StringAttr)
    assumed = opt_prop_def(UnitAttr)
    stride = opt_prop_def(StringAttr)
    outer = opt_prop_def(IntegerAttr)
    y = result_def(BufferType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `to` type($y)"

    def __init__(
        self,
        x: SSAValue,
        offset: Dim,
        type: Attribute,
        *,
        assumed: bool = False,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(
            operands=[x],
            properties={
                "offset": StringAttr(str(offset)),
                "assumed": UnitAttr() if assumed else None,
                "stride": StringAttr(str(columns.stride)) if columns else None,
                "outer": IntegerAttr(columns.outer, 64) if columns else None,
            },
            result_types=[type],
        )

    @property
    def columns(self) -> Columns | None:
        """How the rows lie, where there is something between them."""
        if self.stride is None or self.outer is None:
            return None
        return Columns(self.outer.value.data, Dim.of(self.stride.data))

    def verify_(self) -> None:
        """Check the offset and the stride."""
        _extent(self.offset.data)
        require((self.stride is None) == (self.outer is None), "a stride has an outer, or neither")
        if (columns := columns_of(self.x)) is not None:
            require(False, f"a view of columns that are {columns.stride} elements apart")
        if self.stride is not None and self.outer is not None:
            _extent(self.stride.data)
            rank = len(extents(self.y.type.tensor))
            require(0 < self.outer.value.data <= rank, "outer counts dimensions of the view")
            require(self.assumed is None, "a stride is not assumed")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A set of `plan.call` that may run at once; the next launch sees all that they wrote."""

    name = "plan.launch"

    body = region_def("single_block")

    traits = traits_def(NoTerminator())
    assembly_format = "attr-dict-with-keyword $body"

    def __init__(self, body: Region) -> None:
        super().__init__(regions=[body])

    @property
    def calls(self) -> tuple[CallOp, ...]:
        """The calls of the set."""
        return tuple(op for op in self.body.block.ops if isinstance(op, CallOp))

    def verify_(self) -> None:
        """Check that there is nothing but calls."""
        require(all(isinstance(op, CallOp) for op in self.body.block.ops), "a launch holds calls")


@irdl_op_definition
class CallOp(IRDLOperation):
    """Run kernel `callee` on buffers; `symbols` gives the extent of each of the kernel's symbols.

    plan.call @scale(%x, %y) {symbols = ["T"]} : !plan.buffer<…>, !plan.buffer<…>
    """

    name = "plan.call"

    callee = prop_def(FlatSymbolRefAttrConstr)
    buffers = var_operand_def(BufferType)
    symbols = prop_def(ArrayAttr[StringAttr])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $buffers `)` attr-dict `:` type($buffers)"

    def __init__(
        self, callee: str, buffers: Sequence[SSAValue], symbols: Sequence[Dim | str]
    ) -> None:
        super().__init__(
            operands=[buffers],
            properties={
                "callee": SymbolRefAttr(callee),
                "symbols": ArrayAttr([StringAttr(str(Dim.of(s))) for s in symbols]),
            },
        )

    def verify_(self) -> None:
        """Check the extents."""
        for symbol in self.symbols:
            _extent(symbol.data)


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """Run the first branch whose range holds `value`: `value <= bounds[i]`, else the last."""

    name = "plan.switch"

    value = prop_def(StringAttr)
    bounds = prop_def(DenseArrayBase)
    branches = var_region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(NoTerminator())
    assembly_format = "attr-dict-with-keyword $branches"

    def __init__(self, value: Dim, bounds: Sequence[int], branches: Sequence[Region]) -> None:
        super().__init__(
            properties={"value": StringAttr(str(value)), "bounds": ints(bounds)},
            regions=[list(branches)],
        )

    def verify_(self) -> None:
        """Check the number of branches."""
        bounds = values(self.bounds)
        _extent(self.value.data)
        require(len(self.branches) == len(bounds) + 1, "a switch has one branch a range")
        require(list(bounds) == sorted(set(bounds)), f"bounds {bounds} do not ascend")


@irdl_op_definition
class BindOp(IRDLOperation):
    """Make the integers in buffer `x` the values of `symbols`, and begin a phase.

    A value below 0 is an error of the call, as is one for which the extents of a pair in `equal`
    differ. The arena may grow here, and buffers whose extents have these symbols begin to be.
    """

    name = "plan.bind"

    x = operand_def(BufferType)
    symbols = prop_def(ArrayAttr[StringAttr])
    equal = prop_def(ArrayAttr[ArrayAttr[StringAttr]])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x)"

    def __init__(
        self,
        x: SSAValue,
        symbols: ArrayAttr[StringAttr],
        equal: ArrayAttr[ArrayAttr[StringAttr]],
    ) -> None:
        super().__init__(operands=[x], properties={"symbols": symbols, "equal": equal})

    def verify_(self) -> None:
        """Check that there is an integer for each symbol."""
        kind = cast("BufferType", self.x.type)
        count = product(extents(kind.tensor))
        require(count == len(self.symbols), f"bind of {kind} to {len(self.symbols)} symbols")
        for pair in self.equal:
            for extent in pair:
                _extent(extent.data)


@irdl_op_definition
class HostOp(IRDLOperation):
    """Run group `callee` by its NumPy meaning: operands first, then its results' buffers.

    Counted and named by whoever compiles: it is correct, and slow. Where there are `binds`, the
    results' shapes give those symbols their values, a phase begins as for `plan.bind`, and there
    are no buffers of results: `plan.receive` follows.
    """

    name = "plan.host"

    callee = prop_def(FlatSymbolRefAttrConstr)
    buffers = var_operand_def(BufferType)
    access = prop_def(ArrayAttr[StringAttr])
    binds = opt_prop_def(ArrayAttr[StringAttr])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $buffers `)` attr-dict `:` type($buffers)"

    def __init__(
        self,
        callee: str,
        buffers: Sequence[SSAValue],
        access: Sequence[str],
        binds: Sequence[str] = (),
    ) -> None:
        names = ArrayAttr([StringAttr(name) for name in binds])
        super().__init__(
            operands=[buffers],
            properties={
                "callee": SymbolRefAttr(callee),
                "access": ArrayAttr([StringAttr(a) for a in access]),
                "binds": names if binds else None,
            },
        )

    def verify_(self) -> None:
        """Check the accesses."""
        require(len(self.access) == len(self.buffers), "one access a buffer")
        require(all(a.data in ACCESSES for a in self.access), f"access is one of {ACCESSES}")


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """Put the results of the host call before, which has bound symbols, into buffers.

    plan.receive %y : !plan.buffer<tensor<?xf32, #nn.dims<["n0"]>>>
    """

    name = "plan.receive"

    buffers = var_operand_def(BufferType)

    assembly_format = "$buffers attr-dict `:` type($buffers)"

    def __init__(self, buffers: Sequence[SSAValue]) -> None:
        super().__init__(operands=[buffers])


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copy all of `x` to `y`, from the host's memory to the device's or back.

    plan.copy %x, %y : !plan.buffer<…>
    """

    name = "plan.copy"

    T: ClassVar = VarConstraint("T", base(BufferType))

    x = operand_def(T)
    y = operand_def(T)

    assembly_format = "$x `,` $y attr-dict `:` type($x)"

    def __init__(self, x: SSAValue, y: SSAValue) -> None:
        super().__init__(operands=[x, y])


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of a plan."""

    name = "plan.return"

    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


OPS: list[type[Operation]] = [
    AllocOp,
    ArenaOp,
    BindOp,
    CallOp,
    CopyOp,
    HostOp,
    LaunchOp,
    ReceiveOp,
    ReturnOp,
    SwitchOp,
    ViewOp,
]

PLAN = Dialect("plan", OPS, [BufferType])
