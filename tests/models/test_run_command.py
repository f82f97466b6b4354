import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def llama(tiny: Any) -> str:
    return str(tiny("llama")[1].source)


@pytest.fixture(scope="module")
def bert(tiny: Any) -> str:
    return str(tiny("bert")[1].source)


@pytest.mark.parametrize("sizes", [(), ("--dim", "T=33", "--dim", "S=3", "--dim", "R=9")])
def test_targets_agree_on_a_batch_of_chance(
    command: Command, llama: str, sizes: tuple[str, ...], tmp_path: Path
) -> None:
    found = []
    for target in ("reference", "cpu{activations=f32}"):
        folder = tmp_path / target[:3]
        given = ("--random", *sizes, "--target", target, "--output", folder)
        assert command("run", llama, *given)[0] == 0
        found.append(np.load(folder / "logits.npy"))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-4)


def test_outputs_are_shown_with_shapes_and_statistics(command: Command, bert: str) -> None:
    code, out, _ = command(
        "run", bert, "--random", "--dim", "L=5", "--json", "--target", "reference"
    )
    assert code == 0
    (row,) = (each for each in json.loads(out)["outputs"] if each["name"] == "last_hidden_state")
    assert row["shape"][1:] == [5, 96]
    assert row["min"] < row["mean"] < row["max"]
    assert row["not_finite"] == 0


def test_an_input_comes_from_a_file(command: Command, bert: str, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.full((2, 7), 5, np.int32))
    given = ("--input", f"input_ids={tmp_path / 'ids.npy'}", "--random", "--dim", "B=2")
    code, out, err = command("run", bert, *given, "--dim", "L=7", "--target", "reference")
    assert (code, err) == (0, "")
    assert "[2, 7, 96]" in out


def test_inputs_that_nothing_says_are_named(command: Command, bert: str) -> None:
    code, out, err = command("run", bert, "--target", "reference")
    assert (code, out) == (1, "")
    assert "no value is given for input_ids, " in err
    assert "--random" in err


def test_an_input_of_the_wrong_shape_is_named(command: Command, bert: str, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.zeros(7, np.int32))
    given = ("--input", f"input_ids={tmp_path / 'ids.npy'}", "--random", "--target", "reference")
    code, _, err = command("run", bert, *given)
    assert code == 1
    assert "input_ids" in err


def test_stages_can_be_run(command: Command, llama: str, tmp_path: Path) -> None:
    given = ("--random", "--output", tmp_path)
    assert command("run", llama, *given, "--dump-ir", tmp_path)[0] == 0
    whole = np.load(tmp_path / "logits.npy")
    stages = sorted(tmp_path.glob("*.mlir"))
    for stage in (stages[0], stages[len(stages) // 2], stages[-1]):
        assert command("run", stage, *given)[0] == 0
        assert np.array_equal(np.load(tmp_path / "logits.npy"), whole)
