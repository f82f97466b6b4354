"""What Python calls are given by mistake is refused in a sentence, never met deep inside."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina import compiler
from lamina.arguments import listed, whole_number
from lamina.errors import InputError
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.targets.cpu.target import CpuTarget

MODULE = ModuleOp([])
PATHS: dict[str, Any] = {
    "is of type int: expected a path as text": 3,
    "is of type NoneType: expected a path as text": None,
    "is of type bytes: expected a path as text": b"x",
    "is empty: expected the name of a file": "",
    "cannot be read: File name too long": "x" * 5000,
}
CALLS: dict[str, dict[str, Any]] = {
    "model is of type str: expected a model as lamina.read returns it": {"model": "m.gguf"},
    "model is of type NoneType: expected a model as": {"model": None},
    "target is of type int: expected the name of a target": {"target": 3},
    "target is of type ABCMeta: expected the name": {"target": CpuTarget},
    "pipeline is of type int: expected a spec such as": {"pipeline": 3},
    "a member of pipeline is of type str: expected a pass": {"pipeline": ["decompose-math"]},
    "a member of pipeline is of type ABCMeta: expected": {"pipeline": [DecomposeMathPass]},
    "weights is of type int: expected weights by name": {"weights": 3},
    "threads is 'x': expected a whole number from 1 to 512": {"threads": "x"},
    "threads is 2.5: expected a whole number": {"threads": 2.5},
    "threads is True: expected a whole number": {"threads": True},
    "threads is 0: expected a whole number": {"threads": 0},
    "threads is -1: expected a whole number": {"threads": -1},
}


@pytest.mark.parametrize("told", PATHS)
def test_what_is_no_path_is_not_read(told: str) -> None:
    with pytest.raises(InputError, match=told):
        lamina.read(PATHS[told])
    with pytest.raises(InputError, match=told):
        lamina.LLM(PATHS[told])


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("told", CALLS)
def test_what_cannot_be_compiled_is_named(told: str, target: str) -> None:
    given = {"model": MODULE, "target": target, **CALLS[told]}
    with pytest.raises(InputError, match=f"^{told}"):
        lamina.compile(**given)


@pytest.mark.parametrize("dump", [3, b"x", ""])
def test_a_dump_goes_to_a_path(dump: Any) -> None:
    with pytest.raises(InputError, match=r"^dump is "):
        compiler.lower(MODULE, "reference", (), dump)


def test_a_compiled_model_goes_to_a_path() -> None:
    model: Any = MODULE
    for path in (None, ""):
        with pytest.raises(InputError, match=r"^path is "):
            compiler.compile_to_file(model, path)


def test_a_home_that_nobody_has_is_no_model() -> None:
    with pytest.raises(InputError, match="there is no model at ~nobody-of-this-name/m"):
        lamina.LLM("~nobody-of-this-name/m.gguf")


def test_a_pipeline_may_be_given_once_only() -> None:
    passes: Any = (each for each in (DecomposeMathPass(),))
    assert compiler.lower(MODULE, "reference", passes) is not MODULE


def test_a_folder_that_cannot_be_looked_into_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").symlink_to(tmp_path / "m.mlir")
    with pytest.raises(InputError, match=r"m\.mlir: there is no such file"):
        lamina.read(tmp_path / "m.mlir")


def test_whole_numbers_of_any_library_are_taken() -> None:
    assert whole_number(np.int64(3), "n", 1, 3) == 3
    with pytest.raises(InputError, match=r"^n is np\.int64\(4\): expected a whole number from 1 t"):
        whole_number(np.int64(4), "n", 1, 3)


@pytest.mark.parametrize("value", [None, 3, b"ab", {"a": 1}])
def test_what_is_no_list_is_named(value: object) -> None:
    with pytest.raises(InputError, match=r"^ids is of type \w+: expected ids$"):
        listed(value, "ids", "ids")
