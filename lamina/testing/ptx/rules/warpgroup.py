"""Matrix products of four warps on operands in shared memory (PTX ISA 9.7.15)."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx import fragments
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.descriptors import Descriptor
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.products import WARPGROUP, Key, Product
from lamina.testing.ptx.rounding import canonical
from lamina.testing.ptx.rules.rule import Rule, nothing
from lamina.testing.ptx.scalars import RAW, SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction, Integer, Operand, Register, Vector
from lamina.testing.ptx.threads import Threads

B64, PRED = SCALARS["b64"], SCALARS["pred"]
ROWS = 64

_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")

Matrices = Callable[[Threads, Array], tuple[Array, Array]]
"""Return the matrices of warpgroups in float64, and the places that they were read from."""


def _whole(t: Threads, lanes: Lanes) -> Array:
    """Return the numbers of the warpgroups that execute; all 128 threads have to."""
    rows = lanes.mask.reshape(-1, WARPGROUP)
    full = rows.all(axis=1)
    torn = rows.any(axis=1) & ~full
    if torn.any():
        first = int(torn.argmax())
        present = first * WARPGROUP + int(rows[first].argmax())
        raise t.fault("divergence", "all 128 threads of a warpgroup have to be here", present)
    return np.flatnonzero(full)


def _decode(decoder: Decoder, op: Instruction) -> Step:
    name = op.modifiers[0]
    if name == "fence":
        return nothing(decoder, op)
    if name == "commit_group":
        return _commit
    if name == "wait_group":
        return _wait(decoder, op)
    if name != "mma_async" or "sp" in op.modifiers:
        raise decoder.unknown(op)
    return _multiply(decoder, op)


def _commit(t: Threads, lanes: Lanes) -> None:
    t.products.committed[_whole(t, lanes)] += 1


def _wait(decoder: Decoder, op: Instruction) -> Step:
    newest = op.operands[0]
    if not isinstance(newest, Integer):
        raise decoder.unknown(op)

    def step(t: Threads, lanes: Lanes) -> None:
        warpgroups = _whole(t, lanes)
        for product, chosen in t.products.done(warpgroups, newest.value):
            now = t.shared.bytes[product.places[chosen]]
            changed = (now != product.octets[chosen]).any(axis=1)
            if changed.any():
                who = int(product.warpgroups[chosen][changed.argmax()]) * WARPGROUP
                what = "shared memory was written while a product was still to read it"
                raise t.fault("race", what, who)
            for key in product.registers:
                register = t.rows[key[0], RAW[key[0]]][key[1]]
                t.products.show(key, product.warpgroups[chosen], register)

    return step


def _multiply(decoder: Decoder, op: Instruction) -> Step:
    shape = next((word for word in op.modifiers if re.fullmatch(r"m64n\d+k\d+", word)), "")
    kind_d, kind_a, kind_b = (decoder.scalar(op, at) for at in (-3, -2, -1))
    if not shape or kind_a.name not in _TYPES or kind_d.name not in ("f32", "f16", "s32"):
        raise decoder.unknown(op)
    n, k = map(int, re.findall(r"\d+", shape)[1:])
    if n % 8 or not 8 <= n <= 256 or k * kind_a.bits != 256:
        raise decoder.unknown(op)
    target, first, second, *rest = op.operands
    keep = decoder.read(op, rest[0], PRED)
    numbers = [item.value for item in rest[1:] if isinstance(item, Integer)]
    signs, turns = numbers[:2], numbers[2:]
    sign = int(np.prod(signs)) if signs else 1
    from_registers = isinstance(first, Vector)
    turned = [*([0] if from_registers else []), *turns, 0, 0]
    left = _left(decoder, op, first, kind_a, k, transposed=bool(turned[0]))
    right = _described(decoder, op, second, kind_b, (n, k), transposed=bool(turned[1]))
    accumulator = _Accumulator(decoder, op, target, kind_d, n)

    def step(t: Threads, lanes: Lanes) -> None:
        warpgroups = _whole(t, lanes)
        a, read_a = left(t, warpgroups)
        b, read_b = right(t, warpgroups)
        kept = np.broadcast_to(keep(t), t.count)[warpgroups * WARPGROUP]
        before = np.where(kept[:, None, None], accumulator.read(t, warpgroups), 0.0)
        accumulator.write(t, warpgroups, sign * (a @ b.transpose(0, 2, 1)) + before)
        places = np.concatenate([read_a, read_b], axis=1)
        t.products.under_way.append(
            Product(
                warpgroups,
                accumulator.keys,
                t.products.committed[warpgroups],
                places,
                t.shared.bytes[places],
            )
        )

    return step


class _Accumulator:
    """The registers of D: 64 by n, 16 rows a warp."""

    def __init__(
        self, decoder: Decoder, op: Instruction, target: Operand, kind: Scalar, n: int
    ) -> None:
        items = target.items if isinstance(target, Vector) else ()
        if len(items) != n // 2 * kind.bits // 32:
            raise ValueError
        self.keys: tuple[Key, ...] = tuple(
            decoder.row(item) for item in items if isinstance(item, Register)
        )
        self._kind = kind
        self._n = n
        places = np.empty((16, n), np.int64)
        for tile in range(n // 8):
            _, held = fragments.result(16, 8)
            lane, element = np.divmod(held, 4)
            places[:, 8 * tile : 8 * tile + 8] = (lane * (n // 2) + 4 * tile + element).reshape(
                16, 8
            )
        self._places = places.ravel()
        self._order = np.argsort(self._places)

    def read(self, t: Threads, warpgroups: Array) -> Array:
        """Return D (warpgroups, 64, n) in float64."""
        rows = [
            t.products.seen(key, warpgroups, t.rows[key[0], RAW[key[0]]][key[1]])
            for key in self.keys
        ]
        words = np.stack(rows, axis=2).reshape(len(warpgroups), 4, 32 * len(rows))
        elements = words.view(self._kind.dtype)[:, :, self._places].astype(np.float64)
        return elements.reshape(len(warpgroups), ROWS, self._n)

    def write(self, t: Threads, warpgroups: Array, y: Array) -> None:
        """Hide D until it is waited for; meanwhile the registers are poison."""
        if self._kind.is_float:
            y = canonical(numerics.narrow(y, self._kind.dtype))
        else:
            y = y.astype(np.int64).astype(self._kind.dtype)
        held = np.ascontiguousarray(y.reshape(len(warpgroups), 4, -1)[:, :, self._order])
        words = held.view(np.uint32).reshape(len(warpgroups), WARPGROUP, -1)
        poison = np.uint32(int.from_bytes(bytes([t.poison]) * 4, "little"))
        for number, key in enumerate(self.keys):
            t.products.hide(key, warpgroups, words[:, :, number])
            register = t.rows[key[0], RAW[key[0]]][key[1]]
            register.reshape(-1, WARPGROUP)[warpgroups] = poison


def _left(
    decoder: Decoder, op: Instruction, operand: Operand, kind: Scalar, k: int, *, transposed: bool
) -> Matrices:
    if not isinstance(operand, Vector):
        return _described(decoder, op, operand, kind, (ROWS, k), transposed=transposed)
    registers, places = fragments.left(16, k, 32 // kind.bits)
    if len(operand.items) != registers:
        raise ValueError
    reads: list[Read] = [decoder.read(op, item, SCALARS["b32"]) for item in operand.items]

    def matrices(t: Threads, warpgroups: Array) -> tuple[Array, Array]:
        words = np.stack([np.broadcast_to(read(t), t.count) for read in reads], axis=1)
        held = words.reshape(-1, 4, 32 * registers)[warpgroups].view(kind.dtype)
        elements = held[:, :, places].astype(np.float64)
        nothing_read = np.zeros((len(warpgroups), 0), np.int64)
        return elements.reshape(len(warpgroups), ROWS, k), nothing_read

    return matrices


def _described(
    decoder: Decoder,
    op: Instruction,
    operand: Operand,
    kind: Scalar,
    shape: tuple[int, int],
    *,
    transposed: bool,
) -> Matrices:
    """Return a function that reads matrices through descriptors, one a warpgroup."""
    size = kind.bits // 8
    if transposed and size != 2:
        raise decoder.unknown(op)
    word = decoder.read(op, operand, B64)

    def matrices(t: Threads, warpgroups: Array) -> tuple[Array, Array]:
        words = np.broadcast_to(word(t), t.count).reshape(-1, WARPGROUP)[warpgroups]
        uneven = (words != words[:, :1]).any(axis=1)
        if uneven.any():
            who = int(warpgroups[uneven.argmax()]) * WARPGROUP
            raise t.fault("divergence", "the descriptor differs within a warpgroup", who)
        addresses = np.stack(
            [
                Descriptor.of(int(value)).addresses(*shape, size, transposed=transposed)
                for value in words[:, 0]
            ]
        ).reshape(len(warpgroups), -1)
        places = _noted(t, warpgroups, addresses, size)
        elements = t.shared.rows(size, 1)[places // size, 0]
        if kind.name == "tf32":
            elements = elements & np.uint32(0xFFFFE000)
        read = elements.view(kind.dtype).astype(np.float64)
        octets = (places[:, :, None] + np.arange(size)).reshape(len(warpgroups), -1)
        return read.reshape(len(warpgroups), *shape), octets

    return matrices


def _noted(t: Threads, warpgroups: Array, addresses: Array, size: int) -> Array:
    """Check an access by warpgroups, note it, and return the places."""
    who = np.repeat(warpgroups * WARPGROUP, addresses.shape[1])
    flat = addresses.ravel()
    wrong = t.shared.outside(flat, size)
    if wrong is not None:
        what = f"a descriptor reaches shared address {int(flat[wrong]):#x}, which is outside"
        raise t.fault("bounds", what, int(who[wrong]))
    places = t.block_of(who) * t.shared.stride + flat
    pairs = who * (len(t.shared.bytes) // 16) + places // 16
    first = np.unique(pairs, return_index=True)[1]
    units = places[first] // 16
    t.raise_for(t.shared.read(who[first], units * 16, 16), who[first], flat[first])
    fenced = t.fenced.reshape(-1, WARPGROUP).min(axis=1)[who[first] // WARPGROUP]
    t.raise_for(t.shared.unfenced(units * 16, 16, t.fenced, fenced), who[first], flat[first])
    return places.reshape(addresses.shape)


RULES: dict[str, Rule] = {"wgmma": _decode}
"""The rule for products of warpgroups."""
