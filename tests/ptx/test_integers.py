"""Integer instructions against Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest
from launching import compute

EDGES = (0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def draw(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    bits = 8 * np.dtype(dtype).itemsize
    edges = [value & ((1 << bits) - 1) for value in EDGES]
    numbers = [*rng.choice(edges, 160), *rng.integers(0, 1 << min(bits, 63), 96)]
    return np.array(numbers, f"u{bits // 8}").view(dtype)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def signed8(word: int, at: int) -> int:
    return ((word >> 8 * at & 255) ^ 128) - 128


TWO: dict[str, tuple[str, str, Callable[[int, int], int]]] = {
    "add.s32": ("i4", "i4", lambda a, b: a + b),
    "add.u64": ("u8", "u8", lambda a, b: a + b),
    "sub.s16": ("i2", "i2", lambda a, b: a - b),
    "add.sat.s32": ("i4", "i4", lambda a, b: max(-(2**31), min(2**31 - 1, a + b))),
    "sub.sat.s32": ("i4", "i4", lambda a, b: max(-(2**31), min(2**31 - 1, a - b))),
    "mul.lo.s32": ("i4", "i4", lambda a, b: a * b),
    "mul.hi.s32": ("i4", "i4", lambda a, b: a * b >> 32),
    "mul.hi.u32": ("u4", "u4", lambda a, b: a * b >> 32),
    "mul.hi.s64": ("i8", "i8", lambda a, b: a * b >> 64),
    "mul.hi.u64": ("u8", "u8", lambda a, b: a * b >> 64),
    "mul.wide.s32": ("i4", "i8", lambda a, b: a * b),
    "mul.wide.u16": ("u2", "u4", lambda a, b: a * b),
    "mul24.lo.u32": ("u4", "u4", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "div.s32": ("i4", "i4", lambda a, b: truncated(a, b) if b else -1),
    "div.u64": ("u8", "u8", lambda a, b: a // b if b else -1),
    "rem.s32": ("i4", "i4", lambda a, b: a - truncated(a, b) * b if b else a),
    "rem.u32": ("u4", "u4", lambda a, b: a % b if b else a),
    "min.s32": ("i4", "i4", min),
    "max.u32": ("u4", "u4", max),
    "and.b32": ("u4", "u4", lambda a, b: a & b),
    "xor.b64": ("u8", "u8", lambda a, b: a ^ b),
}


@pytest.mark.parametrize("name", TWO)
def test_an_instruction_of_two_integers(name: str) -> None:
    source, result, meaning = TWO[name]
    a, b = draw(source, 1), draw(source, 2)
    y = compute(f"{name} %y, %a, %b;", result, a, b)
    wrapped = [
        meaning(int(p), int(q)) & ((1 << 8 * y.itemsize) - 1) for p, q in zip(a, b, strict=True)
    ]
    assert y.view(f"u{y.itemsize}").tolist() == wrapped


ONE: dict[str, tuple[str, str, Callable[[int], int]]] = {
    "neg.s32": ("i4", "i4", lambda a: -a),
    "abs.s64": ("i8", "i8", abs),
    "not.b16": ("u2", "u2", lambda a: ~a),
    "cnot.b32": ("u4", "u4", lambda a: int(a == 0)),
    "popc.b64": ("u8", "u4", int.bit_count),
    "clz.b32": ("u4", "u4", lambda a: 32 - a.bit_length()),
    "clz.b64": ("u8", "u4", lambda a: 64 - a.bit_length()),
    "brev.b32": ("u4", "u4", lambda a: int(f"{a:032b}"[::-1], 2)),
    "brev.b64": ("u8", "u8", lambda a: int(f"{a:064b}"[::-1], 2)),
    "bfind.u32": ("u4", "u4", lambda a: a.bit_length() - 1),
    "bfind.s32": ("i4", "u4", lambda a: (a if a >= 0 else ~a).bit_length() - 1),
    "bfind.shiftamt.u32": ("u4", "u4", lambda a: 32 - a.bit_length() if a else -1),
}


@pytest.mark.parametrize("name", ONE)
def test_an_instruction_of_one_integer(name: str) -> None:
    source, result, meaning = ONE[name]
    a = draw(source, 3)
    y = compute(f"{name} %y, %a;", result, a)
    assert y.tolist() == [
        int(np.array(meaning(int(x)) & ((1 << 8 * y.itemsize) - 1), f"u{y.itemsize}").view(y.dtype))
        for x in a
    ]


SHIFTS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "shl.b32": ("u4", lambda a, b: a << b if b < 32 else 0),
    "shr.u32": ("u4", lambda a, b: a >> b if b < 32 else 0),
    "shr.s32": ("i4", lambda a, b: a >> min(b, 31)),
    "shl.b64": ("u8", lambda a, b: a << b if b < 64 else 0),
    "shr.s64": ("i8", lambda a, b: a >> min(b, 63)),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_by_the_width_or_more_leaves_zeros_or_the_sign(name: str) -> None:
    source, meaning = SHIFTS[name]
    a, b = draw(source, 4), np.resize(np.arange(70, dtype="u4"), 256)
    y = compute(f"{name} %y, %a, %b;", source, a, b)
    mask = (1 << 8 * a.itemsize) - 1
    wanted = [meaning(int(p), int(q)) & mask for p, q in zip(a, b, strict=True)]
    assert y.view(f"u{y.itemsize}").tolist() == wanted


def extracted(a: int, start: int, length: int, *, sign: bool) -> int:
    bits = a & 0xFFFFFFFF
    if not length:
        return 0
    top = a >> min(start + length - 1, 31) & 1 if sign else 0
    field = [bits >> n & 1 if n < 32 else top for n in range(start, start + length)]
    field += [top] * (32 - length)
    return sum(bit << n for n, bit in enumerate(field[:32]))


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_bfe_extracts_a_field(kind: str) -> None:
    a = draw(f"{kind[0].replace('s', 'i')}4", 5)
    rng = np.random.default_rng(6)
    b, c = rng.integers(0, 40, 256).astype("u4"), rng.integers(0, 40, 256).astype("u4")
    y = compute(f"bfe.{kind} %y, %a, %b, %c;", "u4", a, b, c)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    assert y.tolist() == [extracted(*row, sign=kind == "s32") for row in rows]


def test_bfi_inserts_a_field() -> None:
    a, b = draw("u4", 7), draw("u4", 8)
    c = np.random.default_rng(9).integers(0, 34, 256).astype("u4")
    y = compute("bfi.b32 %y, %a, %b, %c, 7;", "u4", a, b, c)
    masks = [(127 << s) & 0xFFFFFFFF for s in c.tolist()]
    assert y.tolist() == [
        (q & ~m) | (p << s & m)
        for p, q, s, m in zip(a.tolist(), b.tolist(), c.tolist(), masks, strict=True)
    ]


def test_prmt_picks_bytes_and_signs() -> None:
    a, b, c = draw("u4", 10), draw("u4", 11), draw("u4", 12)
    y = compute("prmt.b32 %y, %a, %b, %c;", "u4", a, b, c)

    def octet(pair: int, choice: int) -> int:
        value = pair >> 8 * (choice & 7) & 255
        return (255 if value & 128 else 0) if choice & 8 else value

    assert y.tolist() == [
        sum(octet(q << 32 | p, s >> 4 * n & 15) << 8 * n for n in range(4))
        for p, q, s in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]


@pytest.mark.parametrize("table", [0x80, 0x96, 0xCA, 0xE8])
def test_lop3_looks_three_bits_up(table: int) -> None:
    a, b, c = draw("u4", 13), draw("u4", 14), draw("u4", 15)
    y = compute(f"lop3.b32 %y, %a, %b, %c, {table};", "u4", a, b, c)

    def bit(p: int, q: int, r: int, n: int) -> int:
        return table >> ((p >> n & 1) << 2 | (q >> n & 1) << 1 | r >> n & 1) & 1

    assert y.tolist() == [
        sum(bit(p, q, r, n) << n for n in range(32))
        for p, q, r in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]


@pytest.mark.parametrize("mode", ["l.wrap", "l.clamp", "r.wrap", "r.clamp"])
def test_shf_shifts_a_pair(mode: str) -> None:
    a, b = draw("u4", 16), draw("u4", 17)
    c = np.resize(np.arange(40, dtype="u4"), 256)
    y = compute(f"shf.{mode}.b32 %y, %a, %b, %c;", "u4", a, b, c)

    def shifted(p: int, q: int, s: int) -> int:
        by = s & 31 if mode.endswith("wrap") else min(s, 32)
        pair = q << 32 | p
        return (pair << by) >> 32 & 0xFFFFFFFF if mode[0] == "l" else pair >> by & 0xFFFFFFFF

    assert y.tolist() == [
        shifted(*row) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]


def test_dp4a_adds_four_products() -> None:
    a, b, c = draw("u4", 18), draw("u4", 19), draw("i4", 20)
    y = compute("dp4a.s32.u32 %y, %a, %b, %c;", "i4", a, b, c)
    sums = [
        r + sum(signed8(p, n) * (q >> 8 * n & 255) for n in range(4))
        for p, q, r in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert y.view("u4").tolist() == [total & 0xFFFFFFFF for total in sums]


def test_a_carry_goes_from_the_low_to_the_high_word() -> None:
    a, b = draw("u8", 21), draw("u8", 22)
    body = """
    mov.b64 {%x0, %x1}, %a; mov.b64 {%x2, %x3}, %b;
    add.cc.u32 %x4, %x0, %x2; addc.u32 %x5, %x1, %x3;
    sub.cc.u32 %x6, %x4, %x2; subc.u32 %x7, %x5, %x3;
    mov.b64 %y, {%x6, %x7}; mov.b64 %rd11, {%x4, %x5}; xor.b64 %y, %y, %rd11;
    """
    y = compute(body, "u8", a, b)
    assert y.tolist() == (a ^ (a + b)).tolist()


def test_mad_wide_adds_to_a_product_of_twice_the_width() -> None:
    a, b, c = draw("i4", 23), draw("i4", 24), draw("i8", 25)
    y = compute("mad.wide.s32 %y, %a, %b, %c;", "i8", a, b, c)
    assert y.tolist() == (a.astype("i8") * b + c).tolist()
