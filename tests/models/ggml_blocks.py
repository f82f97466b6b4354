"""The numbers behind rows of GGML's blocks, in float64, by the published layouts alone."""

from collections.abc import Callable

import numpy as np

SIZES = {
    **{"q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34)},
    **{"q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210)},
}
"""The elements and bytes of a block."""


def numbers(kind: str, raw: np.ndarray) -> np.ndarray:
    """The numbers of rows given as bytes [rows, bytes of a row]."""
    blocks = raw.reshape(-1, SIZES[kind][1])
    return OF_BLOCKS[kind](blocks).reshape(len(raw), -1)


def random_rows(kind: str, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows as bytes, of numbers about `columns ** -0.5` in size."""
    elements, size = SIZES[kind]
    place, share, offset, ratio = SCALES[kind]
    raw = rng.integers(0, 256, (rows, columns // elements, size), np.uint8)
    unit = columns**-0.5 / share
    scale = rng.uniform(0.6 * unit, 1.4 * unit, (rows, columns // elements, 1))
    raw[..., place : place + 2] = scale.astype(np.float16).view(np.uint8)
    if ratio:
        raw[..., offset : offset + 2] = (ratio * scale).astype(np.float16).view(np.uint8)
    return raw.reshape(rows, -1)


SCALES = {
    "q4_0": (0, 4.6, 0, 0),
    "q4_1": (0, 7.5, 2, -7.5),
    "q5_0": (0, 9.2, 0, 0),
    "q5_1": (0, 15.5, 2, -15.5),
    "q8_0": (0, 74, 0, 0),
    "q4_k": (0, 400, 2, 7.5),
    "q5_k": (0, 800, 2, 15.5),
    "q6_k": (208, 1366, 0, 0),
}
"""Where the scale is, how large a block's numbers are in it, where the offset is, both's ratio."""


def half(blocks: np.ndarray, place: int) -> np.ndarray:
    return blocks[:, place : place + 2].copy().view(np.float16).astype(np.float64)


def nibbles(packed: np.ndarray) -> np.ndarray:
    """Sixteen bytes' low halves, then their high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float64)


def fifths(bits: np.ndarray) -> np.ndarray:
    """What bit j of four bytes adds to element j."""
    word = bits.copy().view("<u4")
    return np.concatenate([word >> j & 1 for j in range(32)], axis=1) * 16.0


def factors(packed: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The six bits of group j's scale and of its offset, each [blocks, 1], of twelve bytes."""
    s = [packed[:, i : i + 1].astype(int) for i in range(12)]
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4


def with_offsets(blocks: np.ndarray, fifth_bits: bool) -> np.ndarray:
    """q4_k and q5_k."""
    groups, start = [], 48 if fifth_bits else 16
    for j in range(8):
        pair = blocks[:, start + 32 * (j // 2) : start + 32 * (j // 2 + 1)]
        quants = (pair >> 4 if j % 2 else pair & 15).astype(np.float64)
        if fifth_bits:
            quants += 16 * (blocks[:, 16:48] >> j & 1)
        scale, offset = factors(blocks[:, 4:16], j)
        groups.append(half(blocks, 0) * scale * quants - half(blocks, 2) * offset)
    return np.concatenate(groups, axis=1)


def q6_k(blocks: np.ndarray) -> np.ndarray:
    groups = []
    for part in range(8):
        half_block, quarter = divmod(part, 4)
        low = blocks[:, 64 * half_block + 32 * (quarter % 2) :][:, :32]
        low = low >> 4 if quarter > 1 else low & 15
        high = blocks[:, 128 + 32 * half_block :][:, :32] >> 2 * quarter & 3
        scales = blocks[:, 192 + 2 * part : 194 + 2 * part].view(np.int8).repeat(16, axis=1)
        groups.append(half(blocks, 208) * scales * ((low | high << 4).astype(np.float64) - 32))
    return np.concatenate(groups, axis=1)


OF_BLOCKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "q4_0": lambda b: half(b, 0) * (nibbles(b[:, 2:]) - 8),
    "q4_1": lambda b: half(b, 0) * nibbles(b[:, 4:]) + half(b, 2),
    "q5_0": lambda b: half(b, 0) * (nibbles(b[:, 6:]) + fifths(b[:, 2:6]) - 16),
    "q5_1": lambda b: half(b, 0) * (nibbles(b[:, 8:]) + fifths(b[:, 4:8])) + half(b, 2),
    "q8_0": lambda b: half(b, 0) * b[:, 2:].view(np.int8),
    "q4_k": lambda b: with_offsets(b, False),
    "q5_k": lambda b: with_offsets(b, True),
    "q6_k": q6_k,
}
