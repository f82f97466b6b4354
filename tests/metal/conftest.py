"""What the tests of Metal need: a C++ compiler, that kernels run by way of."""

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def compiler(needs: Callable[..., str]) -> str:
    return needs("g++", package="g++")
