"""The texts of this folder, compiled once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def metal(needs: Callable[..., str]) -> Callable[[str], object]:
    """Return the kernels of a file of this folder."""
    needs("g++", package="g++")
    # The compiler's tests read the cache folder that these fill.
    from lamina.testing import msl

    return cache(lambda name: msl.compile((HERE / f"{name}.metal").read_text(encoding="utf-8")))
