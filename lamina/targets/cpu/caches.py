"""How large the data caches of a core are, as the system says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20}
_DATA: Final = ("Data", "Unified")
_BELIEVED: Final = range(4 << 10, (16 << 20) + 1)


@dataclass(frozen=True)
class CacheSizes:
    """The bytes of a core's first and second level of data cache; small ones where unknown."""

    l1: int = 32 << 10
    l2: int = 1 << 20


@cache
def cache_sizes(folder: Path = _FOLDER) -> CacheSizes:
    """Return the sizes that Linux writes in `folder`, or those of most machines."""
    found: dict[str, int] = {}
    try:
        for index in sorted(folder.glob("index*")):
            level, kind, size = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
            if kind in _DATA and level in ("1", "2"):
                found[f"l{level}"] = _bytes(size)
    except (OSError, ValueError):
        return CacheSizes()
    return CacheSizes(**{name: size for name, size in found.items() if size in _BELIEVED})


def _bytes(text: str) -> int:
    """Return the bytes that `32K` says; `ValueError` if it is no size."""
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(number) * unit
