"""The tree in which a recipe is followed."""

from pathlib import Path

import pytest
from recipe import Tree, copy_sources


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the source tree, compiled, which no recipe changes."""
    return copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture
def tree(tmp_path: Path, sources: Path) -> Tree:
    """Return a tree of one's own."""
    return Tree(tmp_path / "tree", sources)
