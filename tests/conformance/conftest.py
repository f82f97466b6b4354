"""Say at the end how many checks ran, and keep nothing: no case is compiled twice."""

from collections.abc import Iterator

import pytest

from lamina.testing.conformance import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(_own_cache: None) -> Iterator[None]:
    """What is kept goes by a module's text, which takes a while to print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_DISK_CACHE", "off")
        yield
