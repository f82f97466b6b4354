"""Tile rules of quantised weights and activations, and the tiles of packed right operands."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, f32, i8, i32
from xdsl.ir import SSAValue

from lamina.dialects import quant, tile
from lamina.errors import LoweringError
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.kernels.tiles import Tiles, rule

BLOCK, ROWS = quant.BLOCK, quant.ROWS


def unpacked(tiles: Tiles, quants: SSAValue, bits: int) -> SSAValue:
    """Split packed bytes `[…, p, n, 4]` into unsigned bytes of one weight each.

    8-bit: as they are. 4-bit: `[…, 2p, n, 4]`, the low halves the even groups of 4 columns, the
    high halves the odd ones.
    """
    emit, shape = tiles.emit, tile.shape_of(quants.type)
    if bits == 8:
        return quants
    low = emit.binary(arith.AndIOp, quants, emit.full(15, i8, shape))
    high = emit.binary(arith.ShRUIOp, quants, emit.full(4, i8, shape))
    lead, (packed, n, four) = shape[:-3], shape[-3:]
    paired = (*lead, packed, 1, n, four)
    parts = [emit.reshape(part, paired) for part in (low, high)]
    joined = emit.add(tile.JoinOp(parts, len(lead) + 1))
    return emit.reshape(joined, (*lead, 2 * packed, n, four))


GROUPS = 2
"""Groups of 4 columns that a kernel unpacks at once: the two halves of a byte of 4-bit weights."""


def quant_tile(
    tiles: Tiles,
    op: quant.LinearOp | quant.DequantizeOp,
    index: Index,
    part: SSAValue,
    *,
    ahead: bool,
) -> SSAValue:
    """Load unsigned quants for `J` tiles of rows: `[J, GROUPS, 16, 4]` i8.

    `index` is (tiles of rows, block); `part` counts the pairs of groups in the block. What the
    next tiles have there is asked for `ahead`.
    """
    emit = tiles.emit
    size = GROUPS * op.bits // 8
    zero = emit.index(0)
    packed = Span(emit.times(part, size), size, inside=True)
    whole = [packed, *(Span(zero, n, inside=True) for n in (ROWS, 4))]
    shape = (index[0].size, size, ROWS, 4)
    return unpacked(tiles, _panels(tiles, op.w[0], (*index, *whole), shape, ahead), op.bits)


def _panels(
    tiles: Tiles, weight: SSAValue, index: Index, shape: tuple[int, ...], ahead: bool
) -> SSAValue:
    """Load a part of some tiles of rows, and ask for that of the next ones.

    A panel is a short stream, of which the hardware sees the beginning too late.
    """
    memref, panels = tiles.memrefs[weight], index[0]
    if ahead and isinstance(panels, Span):
        following = Span(tiles.emit.plus(panels.start, panels.size), panels.size, inside=True)
        tiles.prefetch(memref, (following, *index[1:]))
    return tiles.load(memref, index, shape=shape)


def scale_tile(tiles: Tiles, weight: SSAValue, at: Index, *, ahead: bool) -> SSAValue:
    """Load scales or offsets for `J` tiles of rows: `[J, 16]` f32.

    `at` is (tiles of rows, group of columns that share a scale). What the next tiles have there
    is asked for `ahead`.
    """
    emit = tiles.emit
    rows = Span(emit.index(0), ROWS, inside=True)
    shape = (at[0].size, ROWS)
    return emit.cast(_panels(tiles, weight, (*at, rows), shape, ahead), f32)


def offset_of(
    tiles: Tiles,
    op: quant.LinearOp | quant.DequantizeOp,
    scale: SSAValue,
    load: Callable[[SSAValue], SSAValue],
) -> SSAValue | None:
    """Return what is added to `scale * quant` in a product, shaped as `scale`; None for nothing.

    `load` gives the weight's stored offsets in that shape.
    """
    emit, zero = tiles.emit, op.zero.value.data
    offset = load(op.w[2]) if op.has_offset else None
    if not zero:
        return offset
    shift = emit.full(-float(zero), f32, tile.shape_of(scale.type))
    if offset is None:
        return emit.binary(arith.MulfOp, shift, scale)
    return emit.fma(shift, scale, offset)


def centred(tiles: Tiles, op: quant.LinearOp | quant.DequantizeOp, quants: SSAValue) -> SSAValue:
    """Return `quant - zero` as f32, of unsigned quants in i8."""
    emit, zero, shape = tiles.emit, op.zero.value.data, tile.shape_of(quants.type)
    if not zero:
        return emit.cast(quants, f32, unsigned=True)
    if not -128 <= -zero <= 2**op.bits - 1 - zero <= 127:
        numbers = emit.cast(quants, f32, unsigned=True)
        return emit.binary(arith.SubfOp, numbers, emit.full(float(zero), f32, shape))
    # Every difference fits into a signed byte, to which it may wrap.
    shift = emit.full((zero + 128) % 256 - 128, i8, shape)
    return emit.cast(emit.binary(arith.SubiOp, quants, shift), f32)


def dequantized_columns(
    tiles: Tiles, op: quant.DequantizeOp, rows: Subscript, k: SSAValue, *, ahead: bool
) -> SSAValue:
    """Return weights for `J` tiles of rows as a right operand: `[J, 4 * GROUPS, 16]` f32.

    They are those of the columns from `k` on, a multiple of their number.
    """
    emit, size = tiles.emit, 4 * GROUPS
    shape = (rows.size, size, ROWS)
    block = Span(emit.over(k, BLOCK), 1, inside=True)
    part = emit.over(emit.modulo(k, BLOCK), size)
    quants = centred(tiles, op, quant_tile(tiles, op, (rows, block), part, ahead=ahead))
    columns = emit.reshape(emit.add(tile.TransposeOp(quants, [0, 1, 3, 2])), shape)
    index = (rows, Span(emit.over(k, op.group), 1, inside=True))
    scale = scale_tile(tiles, op.w[1], index, ahead=ahead)
    wide = emit.broadcast(scale, [0, 2], shape)
    if not op.has_offset:
        return emit.binary(arith.MulfOp, columns, wide)
    offset = scale_tile(tiles, op.w[2], index, ahead=ahead)
    return emit.fma(columns, wide, emit.broadcast(offset, [0, 2], shape))


@rule(quant.DequantizeOp)
def _dequantize(tiles: Tiles, op: quant.DequantizeOp, index: Index, _: SSAValue) -> SSAValue:
    """Rows of a packed weight by their numbers, whole blocks of columns: `[M, n]` f32."""
    emit = tiles.emit
    rows, columns = index
    if not op.packed or columns.size % BLOCK or not isinstance(columns, Span):
        raise LoweringError("a fused dequantize takes whole blocks of a packed weight")
    count, blocks = rows.size, columns.size // BLOCK
    where = _row_numbers(tiles, rows)
    sixteen = emit.full(ROWS, IndexType(), [count])
    in_tile = Rows(emit.binary(arith.RemUIOp, where, sixteen), count)
    of_tile = Rows(emit.binary(arith.DivUIOp, where, sixteen), count)
    block = Span(emit.over(columns.start, BLOCK), blocks, columns.inside)
    quants = _quants_of_rows(tiles, op, of_tile, block, in_tile)
    groups = columns.size // op.group
    shape = (count, groups, op.group)
    numbers = emit.reshape(centred(tiles, op, quants), shape)
    group = Span(emit.over(columns.start, op.group), groups, columns.inside)

    def per_group(weight: SSAValue) -> SSAValue:
        at: Index = (of_tile, group, in_tile)
        loaded = tiles.load(tiles.memrefs[weight], at, shape=(count, groups), zip=(0, 2))
        return emit.cast(loaded, f32)

    scale = per_group(op.w[1])
    wide = emit.broadcast(scale, [0, 1], shape)
    if op.has_offset:
        offset = per_group(op.w[2])
        result = emit.fma(numbers, wide, emit.broadcast(offset, [0, 1], shape))
    else:
        result = emit.binary(arith.MulfOp, numbers, wide)
    return emit.reshape(result, sizes(index))


def _row_numbers(tiles: Tiles, rows: Subscript) -> SSAValue:
    if isinstance(rows, Rows):
        return rows.indices
    emit = tiles.emit
    counts = emit.add(tile.IotaOp(IndexType(), rows.size))
    return emit.binary(arith.AddiOp, counts, emit.add(tile.SplatOp(rows.start, [rows.size])))


def _quants_of_rows(
    tiles: Tiles, op: quant.DequantizeOp, of_tile: Rows, block: Span, in_tile: Rows
) -> SSAValue:
    emit, bits = tiles.emit, op.bits
    zero = emit.index(0)
    groups, four = Span(zero, bits, inside=True), Span(zero, 4, inside=True)
    shape = (of_tile.size, block.size, bits, 1, 4)
    at: Index = (of_tile, block, groups, in_tile, four)
    packed = tiles.load(tiles.memrefs[op.w[0]], at, shape=shape, zip=(0, 3))
    return unpacked(tiles, packed, bits)


@rule(quant.QuantizeOp)
def _quantize(tiles: Tiles, op: quant.QuantizeOp, index: Index, result: SSAValue) -> SSAValue:
    """Whole blocks of a row: one computation gives quants, scales and sums."""
    rows, last = index
    assert isinstance(last, Span)
    some, of = op.columns(result)
    columns = _scaled(tiles, last, of, some)
    if columns.size % BLOCK:
        raise LoweringError("a fused quantize takes whole blocks")
    parts = quantized(tiles, tiles.tile_of(op.x, (rows, columns)), op.terms)
    for value, part in zip(op.results, parts, strict=True):
        tiles.remember(value, (rows, quantized_span(tiles, op, value, columns)), part)
    return dict(zip(op.results, parts, strict=True))[result]  # pyright: ignore[reportArgumentType]


def quantized_span(tiles: Tiles, op: quant.QuantizeOp, result: SSAValue, span: Span) -> Span:
    """Return where in a result of `op` the columns `span` of its operand lie, whole blocks."""
    some, of = op.columns(result)
    return _scaled(tiles, span, some, of)


def _scaled(tiles: Tiles, span: Span, by: int, over: int) -> Span:
    emit = tiles.emit
    start = emit.times(emit.exactly_over(span.start, over), by)
    return Span(start, span.size // over * by, span.inside)


def quantized(tiles: Tiles, x: SSAValue, terms: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Quantise `x` [M, n] by blocks of 32, as `quant.quantize`: quants, scales and sums."""
    emit = tiles.emit
    rows, size = tile.shape_of(x.type)
    blocks = size // BLOCK
    rest = emit.reshape(x, (rows, blocks, BLOCK))
    quants: list[SSAValue] = []
    scales: list[SSAValue] = []
    sums: SSAValue | None = None
    for term in range(terms):
        integers, d = _term(tiles, rest)
        quants.append(emit.reshape(emit.cast(integers, i8), (rows, blocks, 1, BLOCK)))
        scales.append(emit.reshape(d, (rows, blocks, 1)))
        total = emit.cast(emit.reduce(integers, "add", [2]), f32)
        sums = emit.binary(arith.MulfOp, total, d) if sums is None else emit.fma(d, total, sums)
        if term < terms - 1:
            # The same as fma(-q, d, x), in whichever factor the sign is.
            minus = emit.broadcast(emit.add(arith.NegfOp(d)), [0, 1], (rows, blocks, BLOCK))
            rest = emit.fma(emit.cast(integers, f32), minus, rest)
    assert sums is not None
    q = emit.reshape(_joined(tiles, quants), (rows, size * terms))
    return q, emit.reshape(_joined(tiles, scales), (rows, blocks * terms)), sums


def _joined(tiles: Tiles, terms: list[SSAValue]) -> SSAValue:
    return terms[0] if len(terms) == 1 else tiles.emit.add(tile.JoinOp(terms, 2))


def _term(tiles: Tiles, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return quants i32 [M, n/32, 32] and scales [M, n/32] of blocks [M, n/32, 32].

    Magnitudes are compared as integers: floats without a sign order as their bits do, NaN on top.
    Quotients are at most 127 but where a scale is too small, infinite or NaN: then quants are 0.
    """
    emit, shape = tiles.emit, tile.shape_of(x.type)
    rows, blocks, _ = shape
    bits = emit.add(arith.BitcastOp(emit.add(math.AbsFOp(x)), tile.vector(i32, shape)))
    largest = emit.reduce(bits, "max", [2])
    largest = emit.add(arith.BitcastOp(largest, tile.vector(f32, (rows, blocks))))
    scales = (rows, blocks)
    d = emit.binary(arith.DivfOp, largest, emit.full(127.0, f32, scales))
    ratio = emit.binary(arith.DivfOp, x, emit.broadcast(d, [0, 1], shape))
    near = emit.binary(arith.AddfOp, ratio, emit.full(_TO_INTEGER, f32, shape))
    near = emit.add(arith.BitcastOp(near, tile.vector(i32, shape)))
    integers = emit.binary(arith.SubiOp, near, emit.full(_bits(_TO_INTEGER), i32, shape))
    d_bits = emit.add(arith.BitcastOp(d, tile.vector(i32, scales)))
    above = emit.binary(arith.SubiOp, d_bits, emit.full(_bits(quant.LEAST_SCALE), i32, scales))
    width = emit.full(_bits(float("inf")) - _bits(quant.LEAST_SCALE), i32, scales)
    usable = emit.add(tile.CompareOp("lt", above, width, unsigned=True))
    whole, none = (emit.full(n, i32, scales) for n in (-1, 0))
    kept = emit.broadcast(emit.add(tile.SelectOp(usable, whole, none)), [0, 1], shape)
    return emit.binary(arith.AndIOp, integers, kept), d


_TO_INTEGER = 1.5 * 2**23
"""Added to a float of less than 2^22, its last bits are the nearest integer, ties to even."""


def _bits(x: float) -> int:
    return int.from_bytes(pack("<f", x), "little")
