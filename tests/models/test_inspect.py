import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def path(tiny: Any) -> str:
    return str(tiny("llama")[1].source)


@pytest.fixture(scope="module")
def facts(command: Command, path: str) -> Any:
    """What inspect says without any option."""
    code, out, _ = command("inspect", path, "--json")
    assert code == 0
    return json.loads(out)


def test_inspect_names_the_format_and_the_settings(facts: Any) -> None:
    assert facts["format"] == "huggingface"
    assert facts["config"]["hidden_size"] == 96


def test_inspect_counts_weights_by_dtype(facts: Any) -> None:
    weights = facts["weights"]
    assert weights["count"] == len(weights["each"])
    assert weights["bytes"] == sum(each["bytes"] for each in weights["by_dtype"])
    assert weights["elements"] == sum(math.prod(each["shape"]) for each in weights["each"])


def test_inspect_shows_what_forward_takes_and_gives(facts: Any) -> None:
    named = {each["name"]: each["shape"] for each in facts["signature"]}
    assert named["tokens"] == ["T"]
    assert named["logits"] == ["R", "301"]


def test_inspect_tells_for_which_range_a_kernel_is(facts: Any) -> None:
    plan = facts["plan"]
    ranges = {each["when"]: each for each in plan["launches"]}
    assert ranges["T <= 1"]["at_most"] == ranges["T > 1"]["above"] == 1
    for when, row in ranges.items():
        calls = [c for kernel in plan["kernels"] for c in kernel["calls"] if c["when"] == when]
        assert sum(each["count"] for each in calls) == row["calls"] >= row["launches"] > 0


def test_inspect_shows_the_arena_beside_all_intermediates(command: Command, path: str) -> None:
    code, out, _ = command("inspect", path, "--json", "--dim", "R=1")
    assert code == 0
    for row in json.loads(out)["plan"]["memory"]:
        assert row["symbols"]["R"] == 1
        assert 0 < row["largest_live_bytes"] <= row["sum_bytes"]
        assert 0 < row["arena_bytes"] < row["sum_bytes"]


def test_the_arena_of_a_long_prompt_grows_with_its_length(command: Command, path: str) -> None:
    sizes = []
    for tokens in (2**14, 2**15):
        dims = (f"T={tokens}", "R=1", f"W={tokens // 16}", f"B={tokens // 16}", "S=1")
        options = [part for dim in dims for part in ("--dim", dim)]
        _, out, _ = command("inspect", path, "--json", *options)
        sizes += [row["arena_bytes"] for row in json.loads(out)["plan"]["memory"]]
    assert sizes[1] <= 2.01 * sizes[0]


def test_inspect_says_all_of_it_in_words(command: Command, path: str) -> None:
    code, out, _ = command("inspect", path)
    assert code == 0
    for word in ("huggingface", "hidden_size", "@forward", "runs if", "T <= 1", "arena bytes"):
        assert word in out


def test_stages_can_be_inspected(command: Command, path: str, tmp_path: Path) -> None:
    assert command("inspect", path, "--dump-ir", tmp_path)[0] == 0
    stages = sorted(tmp_path.glob("*.mlir"))
    for stage in (stages[0], stages[len(stages) // 2], stages[-1]):
        code, out, _ = command("inspect", stage, "--json")
        assert code == 0
        assert json.loads(out)["plan"]["memory"]


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
