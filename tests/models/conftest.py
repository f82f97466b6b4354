"""Fixtures that write tiny checkpoints and read them."""

from collections.abc import Callable
from functools import cache

import pytest
from checkpoints import CHECKPOINTS, Checkpoint

import lamina
from lamina.frontend.model import Model
from lamina.targets.base import Executable


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Checkpoint, Model]]:
    """Return a tiny checkpoint by name, and the model read from it."""

    @cache
    def read(name: str) -> tuple[Checkpoint, Model]:
        checkpoint = CHECKPOINTS[name]()
        return checkpoint, lamina.read(checkpoint.write(tmp_path_factory.mktemp(name)))

    return read


@pytest.fixture(scope="session")
def meaning() -> "Callable[[Model], Executable]":
    """Return what a model's imported graph computes, by its operations' meanings."""
    made: dict[int, tuple[Model, Executable]] = {}

    def compiled(model: Model) -> Executable:
        if id(model) not in made:
            # The model is kept beside its code, so that its number is no other's.
            made[id(model)] = model, lamina.compile(model, target="reference", pipeline=())
        return made[id(model)][1]

    return compiled
