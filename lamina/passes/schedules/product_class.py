"""What products are alike: those whose kernels do the same work are scheduled alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import prod
from typing import Any, Final, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import cache, nn, quant, simt, tile
from lamina.dialects.plan import element_bytes
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.groups import body_ops
from lamina.passes.kernels.column_tiles import tile_counts
from lamina.passes.kernels.dot_kernel import Roles, multiplied_in
from lamina.passes.kernels.linear_kernel import Product, is_linear, is_unpacked, shape_of
from lamina.passes.schedules.cost_model import Linear
from lamina.passes.schedules.shared_tiles import Dot


def linear_of(group: nn.GroupOp, *, few: bool) -> Linear:
    """Return what the tile of a group's packed products depends on.

    Raises `LoweringError` where no tile suits what follows the products.
    """
    ops = body_ops(group)
    products = _products(ops)
    counts = tuple(tile_counts(ops))
    if not counts:
        raise LoweringError(f"{group.sym_name.data}: no tile of columns fits its end")
    shape = shape_of(products[0])
    return Linear(
        depth=shape.depth,
        columns=shape.columns,
        counts=counts,
        products=len(products),
        few=few,
        blocks=any(map(is_unpacked, products)),
        integer=any(isinstance(op, quant.LinearOp) for op in products),
        sums=max(map(_sums, products)),
        pages=any(isinstance(op, cache.WriteOp) for op in ops),
        weight=max(map(_weight_bytes, products)),
    )


def dot_of(group: nn.GroupOp) -> Dot:
    """Return what the tile of a group's product of two tensors depends on."""
    (op,) = (op for op in body_ops(group) if isinstance(op, nn.DotGeneralOp))
    roles, last = Roles.of(op), len(extents(op.y.type)) - 1
    sizes = [dim.constant for dim in extents(op.y.type)]
    rows = max((i for i in roles.left.values() if i >= len(tile.pairs(op.batch))), default=None)
    batches = prod(size or 1 for i, size in enumerate(sizes) if i not in (rows, last))
    return Dot(
        bits=8 * element_bytes(multiplied_in(op)),
        whole=all(_in_runs(x.type) for x in (op.a, op.b)),
        rows=1 if rows is None else sizes[rows],
        columns=sizes[last],
        depth=extents(op.a.type)[roles.contract[0]].constant,
        batches=batches,
        beside=_reads_beside(group, op),
    )


def _reads_beside(group: nn.GroupOp, op: nn.DotGeneralOp) -> bool:
    """Tell whether what follows a product reads another tensor of its result's extents."""
    others = [arg for arg in group.body.block.args if arg not in (op.a, op.b)]
    return any(extents(arg.type) == extents(op.y.type) for arg in others)


def _in_runs(type: Attribute) -> bool:
    """Tell whether rows of a tensor are whole runs of what a thread loads at once."""
    last = extents(type)[-1].constant
    return last is not None and last * _element_bytes(type) % simt.ACCESS_BYTES == 0


def class_of(group: nn.GroupOp, *, few: bool) -> str | None:
    """Return the class of a group's products as text, None for a group that takes no schedule.

    Groups of a class differ in names and in symbolic extents alone, as far as their tile goes:
    `linear few int4/32+offset K=576 N=1536: rms_norm quantize linear*2 silu mul quantize`.
    """
    anchor, ops = group.anchor.data, body_ops(group)
    rule = _FORMS.get(anchor)
    return None if rule is None else f"{anchor} {rule(ops, few)}: {_names(ops)}"


def _linear_form(ops: Sequence[Operation], few: bool) -> str:
    op = _products(ops)[0]
    shape = shape_of(op)
    return f"{'few' if few else 'many'} {_form(op)} K={shape.depth} N={shape.columns}"


def _dot_form(ops: Sequence[Operation], few: bool) -> str:
    """Return the operands' extents, K marked."""
    op = next(op for op in ops if isinstance(op, nn.DotGeneralOp))
    operands = zip((op.a, op.b), Roles.of(op).contract, strict=True)
    return " x ".join(_shape(value.type, k) for value, k in operands)


_FORMS: Final[dict[str, Callable[[Sequence[Operation], bool], str]]] = {
    "linear": _linear_form,
    "dot": _dot_form,
}
"""What a class says of the product, for each anchor whose kernels take a schedule."""


def _products(ops: Sequence[Operation]) -> list[Product]:
    return [cast("Product", op) for op in ops if is_linear(op)]


def _sums(op: Product) -> int:
    """Return the sums that the innermost loop has for an element."""
    if not isinstance(op, quant.LinearOp):
        return 1
    # Of half a block, what the offset is multiplied by is summed up beside.
    return quant.terms_of(op.d, op.s) * (1 if op.group == quant.BLOCK else 2)


def _weight_bytes(op: Product) -> float:
    shape = shape_of(op)
    parts = _weight(op)
    total = sum(prod(_static(part.type)) * _element_bytes(part.type) for part in parts)
    return total / max(1, shape.depth * shape.columns)


def _weight(op: Product) -> Sequence[SSAValue]:
    if isinstance(op, quant.LinearOp):
        return tuple(op.w)
    owner = op.b.owner
    if isinstance(owner, quant.DequantizeOp):
        return tuple(owner.w)
    return (owner.x if isinstance(owner, nn.CastOp) else op.b,)


def _form(op: Product) -> str:
    """Return how the weights come: `int4/32+offset`, `float of int8/32`, `f16`."""
    if isinstance(op, quant.LinearOp):
        terms = quant.terms_of(op.d, op.s)
        return _blocks(op) + (f" by {terms} terms" if terms > 1 else "")
    owner = op.b.owner
    if isinstance(owner, quant.DequantizeOp):
        return f"float of {_blocks(owner)}"
    return str(_tensor(_weight(op)[0].type).get_element_type())


def _blocks(op: quant.LinearOp | quant.DequantizeOp) -> str:
    scale = str(_tensor(op.w[1].type).get_element_type())
    wide = "" if scale == "f16" else f" {scale}"
    return f"int{op.bits}/{op.group}{wide}{'+offset' * op.has_offset}"


def _shape(type: Attribute, contracted: int) -> str:
    shape = extents(type)
    sizes = ("?" if dim.constant is None else str(dim.constant) for dim in shape)
    marked = (f"K={size}" if i == contracted else size for i, size in enumerate(sizes))
    return f"{_tensor(type).get_element_type()}[{', '.join(marked)}]"


def _names(ops: Iterable[Operation]) -> str:
    """Return what is done, in order: `rms_norm linear*2 rope 64`."""
    found = [text for op in ops if (text := _name(op))]
    counted = ((name, len(list(group))) for name, group in groupby(found))
    return " ".join(f"{name}*{count}" if count > 1 else name for name, count in counted)


def _name(op: Operation) -> str:
    name = op.name.split(".")[-1]
    if isinstance(op, nn.RopeOp):
        # What of a head lies together decides which tiles can finish it.
        return f"{name} {extents(op.x.type)[-1]}{' interleaved' * (op.interleaved is not None)}"
    if isinstance(op, nn.ReshapeOp):
        inner = extents(op.y.type)[1:]
        return f"{name} {'x'.join(map(str, inner))}" if len(inner) > 1 else ""
    return name


def _static(type: Attribute) -> tuple[int, ...]:
    return tuple(_tensor(type).get_shape())


def _element_bytes(type: Attribute) -> int:
    return element_bytes(_tensor(type).get_element_type())


def _tensor(type: Attribute) -> TensorType[Any]:
    return cast("TensorType[Any]", type)
