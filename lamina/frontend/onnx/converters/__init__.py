"""The converters of the box, a family of operators a file."""

from importlib import import_module
from typing import Final

_FAMILIES: Final = (
    "arithmetic",
    "bits",
    "control",
    "shapes",
    "padding",
    "elements",
    "sequences",
    "signal",
    "windows",
    "deformed",
    "reductions",
    "resize",
    "affine",
    "products",
    "quantised",
    "integer_products",
    "recurrent",
    "attention",
    "rotary",
    "fused_attention",
    "grouped_attention",
    "fused",
    "found",
)


def load() -> None:
    """Import every family, which registers its converters."""
    for family in _FAMILIES:
        import_module(f"{__name__}.{family}")
