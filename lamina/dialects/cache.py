"""The `cache` dialect: keys and values of past tokens in pages, threaded as values.

A batch is ragged: T tokens of S sequences, one after another. `positions[T]` is each token's
place in its sequence, `query_start[S + 1]` where each sequence's tokens begin, `table[S, B]` the
page of each of a sequence's blocks of `page` positions. A page pool is a value that is used once:
a write gives the next one, so order and in-place update follow from data flow.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.nn import FUNCTIONAL
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor


@irdl_attr_definition
class PagesType(ParametrizedAttribute, TypeAttribute):
    """A pool of pages of `page` positions x `heads` x `dim`, of `element`; its extent is `count`.

    `tile` is the layout: 0 keeps positions apart, `[count, heads, page, dim]`; n > 0 puts n
    positions side by side, `[count, heads, page / n, dim, n]`, which suits keys.

    !cache.pages<f16, "pages", 3 : i64, 16 : i64, 64 : i64, 16 : i64>
    """

    name = "cache.pages"

    element: Attribute
    count: StringAttr
    heads: IntegerAttr[IntegerType]
    page: IntegerAttr[IntegerType]
    dim: IntegerAttr[IntegerType]
    tile: IntegerAttr[IntegerType]

    @staticmethod
    def of(element: Attribute, count: str, heads: int, page: int, dim: int, tile: int) -> PagesType:
        """Return the type of a pool."""
        sizes = (IntegerAttr(n, 64) for n in (heads, page, dim, tile))
        return PagesType(element, StringAttr(count), *sizes)

    def verify(self) -> None:
        """Check that elements are floats, and that tiles divide a page."""
        floats = Float16Type | BFloat16Type | Float32Type
        require(isinstance(self.element, floats), f"pages of {self.element}: f16, bf16 or f32")
        tile, page = self.tile.value.data, self.page.value.data
        require(page > 0 and tile >= 0, f"page of {page} positions in tiles of {tile}")
        require(tile == 0 or page % tile == 0, f"page of {page} positions in tiles of {tile}")

    @property
    def storage(self) -> TensorType[Any]:
        """The pool as a tensor of its layout."""
        count, page = parse_dim(self.count.data), self.page.value.data
        heads, dim, tile = self.heads.value.data, self.dim.value.data, self.tile.value.data
        if tile:
            return tensor(self.element, [count, heads, page // tile, dim, tile])
        return tensor(self.element, [count, heads, page, dim])


@irdl_op_definition
class SequenceOp(IRDLOperation):
    """The sequence of each token: `y[t]` counts the s with `query_start[s + 1] <= t`. Composite."""

    name = "cache.sequence"

    query_start = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = f"$query_start {FUNCTIONAL}"

    def __init__(self, query_start: SSAValue, tokens: Dim) -> None:
        super().__init__(operands=[query_start], result_types=[tensor(i32, [tokens])])

    def verify_(self) -> None:
        """Check types."""
        require(len(extents(self.query_start.type)) == 1, "query_start is [S + 1]")
        require(self.y.type == tensor(i32, extents(self.y.type)[:1]), "y is [T] of i32")


@irdl_op_definition
class WriteOp(IRDLOperation):
    """The pool with `x[T, H, D]` put at each token's sequence and position.

    Position p of sequence s lies in page `table[s, p / page]`, row `p mod page`.
    """

    name = "cache.write"

    pages = operand_def(PagesType)
    x = operand_def(TensorType)
    positions = operand_def(TensorType)
    sequence = operand_def(TensorType)
    table = operand_def(TensorType)
    y = result_def(PagesType)

    traits = traits_def(Pure())
    assembly_format = f"$pages `,` $x `,` $positions `,` $sequence `,` $table {FUNCTIONAL}"

    def __init__(
        self,
        pages: SSAValue,
        x: SSAValue,
        positions: SSAValue,
        sequence: SSAValue,
        table: SSAValue,
    ) -> None:
        super().__init__(operands=[pages, x, positions, sequence, table], result_types=[pages.type])

    def verify_(self) -> None:
        """Check shapes."""
        kind, x = cast("PagesType", self.pages.type), extents(self.x.type)
        require(self.pages.type == self.y.type, "a write keeps the pool's type")
        require(
            x[1:] == (Dim.of(kind.heads.value.data), Dim.of(kind.dim.value.data)),
            f"x is {self.x.type}",
        )
        require(self.positions.type == tensor(i32, x[:1]), f"positions are {self.positions.type}")
        require(self.sequence.type == tensor(i32, x[:1]), f"sequence is {self.sequence.type}")


@irdl_op_definition
class ReadOp(IRDLOperation):
    """What each token may see: `y[t, l] = pool[l]` of its sequence where l <= positions[t], else 0.

    y is f32 [T, B * page, H, D].
    """

    name = "cache.read"

    pages = operand_def(PagesType)
    positions = operand_def(TensorType)
    sequence = operand_def(TensorType)
    table = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = f"$pages `,` $positions `,` $sequence `,` $table {FUNCTIONAL}"

    def __init__(
        self, pages: SSAValue, positions: SSAValue, sequence: SSAValue, table: SSAValue
    ) -> None:
        super().__init__(
            operands=[pages, positions, sequence, table],
            result_types=[_read_type(pages.type, positions.type, table.type)],
        )

    def verify_(self) -> None:
        """Check the result's type."""
        expected = _read_type(self.pages.type, self.positions.type, self.table.type)
        require(self.y.type == expected, f"result is {self.y.type}, expected {expected}")


def _read_type(pages: Attribute, positions: Attribute, table: Attribute) -> TensorType[Any]:
    kind = cast("PagesType", pages)
    length = extents(table)[1] * kind.page.value.data
    return tensor(f32, [extents(positions)[0], length, kind.heads.value.data, kind.dim.value.data])


BESIDE = 4
"""Numbers that a part of attention keeps beside its weighted values: their maximum, their sum, and
two that have none, so that rows are as aligned as 16 bytes are."""


class _Attention(IRDLOperation):
    """Operands, scale and block of attention over pages."""

    q = operand_def(TensorType)
    k = operand_def(PagesType)
    v = operand_def(PagesType)
    positions = operand_def(TensorType)
    query_start = operand_def(TensorType)
    table = operand_def(TensorType)
    work = operand_def(TensorType)
    scale = prop_def(FloatAttr)
    block = prop_def(IntegerAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = (
        f"$q `,` $k `,` $v `,` $positions `,` $query_start `,` $table `,` $work {FUNCTIONAL}"
    )

    def verify_operands(self) -> None:
        """Check the operands' shapes."""
        q, kind = extents(self.q.type), cast("PagesType", self.k.type)
        require(len(q) == 3, "q is [T, H, D]")
        require(
            q[2] == kind.dim.value.data,
            f"head dimension {q[2]} over pages of {kind.dim.value.data}",
        )
        require(q[1] % kind.heads.value.data == 0, f"{q[1]} heads over {kind.heads.value.data}")
        require(self.positions.type == tensor(i32, q[:1]), f"positions {self.positions.type}")
        require(extents(self.work.type)[1] == 2, f"work is {self.work.type}, expected [W, 2]")

    def verify_span(self, span: IntegerAttr[Any]) -> None:
        """Check that a part of the positions has whole pages."""
        page = cast("PagesType", self.k.type).page.value.data
        whole = span.value.data > 0 and span.value.data % page == 0
        require(whole, f"parts of {span.value.data} positions over pages of {page}")


@irdl_op_definition
class AttentionOp(_Attention):
    """Causal attention of `q[T, H, D]` over the pages: softmax(scale * q k^T) v. Composite.

    H is a multiple of the pool's heads (grouped queries: head h reads pool head h * G / H). The
    token at position p sees positions 0..p of its sequence; rows never written are not read.
    `work[W, 2]` lists (sequence, query block) so that every token is in exactly one entry: entry
    (s, b) is the tokens `query_start[s] + b * block …` of s. Pages are visited in ascending
    order, `page` keys at a time, with running maximum and sum (Dao 2023; Kwon et al. 2023). With
    a `span`, each part of so many positions is summed up by itself, and parts in ascending order.
    """

    name = "cache.attention"

    span = opt_prop_def(IntegerAttr)

    def __init__(
        self,
        q: SSAValue,
        k: SSAValue,
        v: SSAValue,
        batch: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
        *,
        scale: float,
        block: int,
        span: int | None = None,
    ) -> None:
        properties: dict[str, Attribute | None] = {
            "scale": FloatAttr(scale, f32),
            "block": IntegerAttr(block, 64),
            "span": None if span is None else IntegerAttr(span, 64),
        }
        super().__init__(operands=[q, k, v, *batch], properties=properties, result_types=[q.type])

    def verify_(self) -> None:
        """Check shapes."""
        self.verify_operands()
        require(self.y.type == self.q.type, "y has the type of q")
        if self.span is not None:
            self.verify_span(self.span)


@irdl_op_definition
class PartialAttentionOp(_Attention):
    """The parts of `cache.attention`, `span` positions each, for `cache.merge`.

    y is f32 [min(T, rows), H, P, D + 4] with P = ceildiv(B * page, span), for it is called with at
    most `rows` tokens, and memory is for no more. Row (t, h, p) has the values of
    positions `p * span …` weighted by e^(score - maximum), then the maximum of the scores and the
    sum of the weights. What is left of a row means nothing, nor does a part of positions that the
    token does not see.
    """

    name = "cache.partial_attention"

    span = prop_def(IntegerAttr)
    rows = prop_def(IntegerAttr)

    def __init__(
        self,
        q: SSAValue,
        k: SSAValue,
        v: SSAValue,
        batch: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
        *,
        scale: float,
        block: int,
        span: int,
        rows: int,
    ) -> None:
        sizes = {"block": block, "span": span, "rows": rows}
        properties: dict[str, Attribute | None] = {"scale": FloatAttr(scale, f32)}
        properties |= {name: IntegerAttr(size, 64) for name, size in sizes.items()}
        y = _parts_type((q.type, k.type, batch[2].type), span, rows)
        super().__init__(operands=[q, k, v, *batch], properties=properties, result_types=[y])

    def verify_(self) -> None:
        """Check shapes."""
        self.verify_operands()
        self.verify_span(self.span)
        types = (self.q.type, self.k.type, self.table.type)
        expected = _parts_type(types, self.span.value.data, self.rows.value.data)
        require(self.y.type == expected, f"result is {self.y.type}, expected {expected}")


def _parts_type(
    types: tuple[Attribute, Attribute, Attribute], span: int, rows: int
) -> TensorType[Any]:
    """Return the type of the parts of attention with queries, pages and a table of these types."""
    (tokens, heads, width), blocks = extents(types[0]), extents(types[2])[1]
    per_part = span // cast("PagesType", types[1]).page.value.data
    return tensor(f32, [tokens.minimum(rows), heads, blocks.ceildiv(per_part), width + BESIDE])


@irdl_op_definition
class MergeOp(IRDLOperation):
    """Attention `y[T, H, D]` of its parts: those that each token sees, in ascending order.

    %y = cache.merge %parts, %positions {span = 256 : i64} : (…) -> tensor<?x9x64xf32, …>
    """

    name = "cache.merge"

    parts = operand_def(TensorType)
    positions = operand_def(TensorType)
    span = prop_def(IntegerAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$parts `,` $positions {FUNCTIONAL}"

    def __init__(self, parts: SSAValue, positions: SSAValue, span: int) -> None:
        _, heads, _, width = extents(parts.type)
        (tokens,) = extents(positions.type)
        super().__init__(
            operands=[parts, positions],
            properties={"span": IntegerAttr(span, 64)},
            result_types=[tensor(f32, [tokens, heads, width - BESIDE])],
        )

    def verify_(self) -> None:
        """Check shapes."""
        parts, y = extents(self.parts.type), extents(self.y.type)
        require(len(parts) == 4 and self.span.value.data > 0, f"parts are {self.parts.type}")
        expected = (parts[1], parts[3] - BESIDE)
        require(y[1:] == expected, f"result is {self.y.type} of parts {self.parts.type}")
        require(self.positions.type == tensor(i32, y[:1]), f"positions {self.positions.type}")


OPS: list[type[Operation]] = [
    AttentionOp,
    MergeOp,
    PartialAttentionOp,
    ReadOp,
    SequenceOp,
    WriteOp,
]

CACHE = Dialect("cache", OPS, [PagesType])
