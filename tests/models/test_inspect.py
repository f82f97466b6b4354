import json
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def path(tiny: Any) -> str:
    return str(tiny("llama")[1].source)


def test_inspect_shows_the_arena_beside_all_intermediates(command: Command, path: str) -> None:
    code, out, _ = command("inspect", path, "--json", "--dim", "R=1")
    assert code == 0
    for row in json.loads(out)["plan"]["memory"]:
        assert row["R"] == 1
        assert 0 < row["largest_live bytes"] <= row["sum bytes"]
        assert 0 < row["arena bytes"] < row["sum bytes"]


def test_a_target_without_an_arena_has_no_memory_to_show(command: Command, path: str) -> None:
    code, out, _ = command("inspect", path, "--json", "--target", "reference")
    assert code == 0
    assert json.loads(out)["plan"]["memory"] == []


def test_an_unknown_target_is_refused(command: Command, path: str) -> None:
    code, _, err = command("inspect", path, "--target", "nope")
    assert code == 1
    assert "there is no target 'nope'" in err


def test_a_wrong_extent_is_refused(command: Command, path: str) -> None:
    code, _, err = command("inspect", path, "--dim", "R=x")
    assert (code, err) == (1, "error: --dim R=x: expected NAME=N\n")
