"""The geometry of GGML's tensor types: elements and bytes of one block."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockType:
    """A GGML tensor type: `elements` neighbours of a row are stored in `bytes` bytes."""

    name: str
    ggml_id: int
    elements: int
    bytes: int

    @property
    def plain(self) -> bool:
        """Whether an element is a number by itself, not part of a quantised block."""
        return self.elements == 1

    def row_bytes(self, elements: int) -> int:
        """Return the bytes of a row of `elements`, which must be a multiple of the block."""
        return elements // self.elements * self.bytes


GGML_TYPES: dict[int, BlockType] = {
    ggml_id: BlockType(name, ggml_id, elements, size)
    for ggml_id, name, elements, size in (
        (0, "f32", 1, 4),
        (1, "f16", 1, 2),
        (2, "q4_0", 32, 18),
        (3, "q4_1", 32, 20),
        (6, "q5_0", 32, 22),
        (7, "q5_1", 32, 24),
        (8, "q8_0", 32, 34),
        (9, "q8_1", 32, 36),
        (10, "q2_k", 256, 84),
        (11, "q3_k", 256, 110),
        (12, "q4_k", 256, 144),
        (13, "q5_k", 256, 176),
        (14, "q6_k", 256, 210),
        (15, "q8_k", 256, 292),
        (16, "iq2_xxs", 256, 66),
        (17, "iq2_xs", 256, 74),
        (18, "iq3_xxs", 256, 98),
        (19, "iq1_s", 256, 50),
        (20, "iq4_nl", 32, 18),
        (21, "iq3_s", 256, 110),
        (22, "iq2_s", 256, 82),
        (23, "iq4_xs", 256, 136),
        (24, "i8", 1, 1),
        (25, "i16", 1, 2),
        (26, "i32", 1, 4),
        (27, "i64", 1, 8),
        (28, "f64", 1, 8),
        (29, "iq1_m", 256, 56),
        (30, "bf16", 1, 2),
        (34, "tq1_0", 256, 54),
        (35, "tq2_0", 256, 66),
        (39, "mxfp4", 32, 17),
        (40, "nvfp4", 64, 36),
    )
}
"""Every type that a GGUF file may name, by its number in the file."""

REMOVED_GGML_TYPES: dict[int, str] = {
    4: "q4_2",
    5: "q4_3",
    31: "q4_0_4_4",
    32: "q4_0_4_8",
    33: "q4_0_8_8",
    36: "iq4_nl_4_4",
    37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}
"""Numbers that once had a meaning and that no reader accepts any more."""

ACTIVATION_TYPES = frozenset({"q8_1", "q8_k"})
"""Blocks that hold a kernel's left operand; a file never stores them."""

BLOCK_TYPES: dict[str, BlockType] = {kind.name: kind for kind in GGML_TYPES.values()}
"""The same types by name."""
