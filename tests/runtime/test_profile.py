import json
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path

import pytest

import lamina
from lamina.errors import UnsupportedError

Command = Callable[..., tuple[int, str, str]]


def spans(path: Path) -> list[dict[str, object]]:
    """What the threads did, by a profile."""
    return [each for each in json.loads(path.read_text())["traceEvents"] if each["ph"] == "X"]


def steps(path: Path) -> set[int]:
    """The steps of a profile."""
    return {each["args"]["step"] for each in spans(path)}  # type: ignore[index]


@pytest.mark.parametrize("more", [(), ("--json",), ("-p", "Again")])
def test_a_profile_of_generation_has_every_step(
    bytewise_llama: Path, command: Command, tmp_path: Path, more: tuple[str, ...]
) -> None:
    path = tmp_path / "trace.json"
    given = ("-p", "Hello", "-n", 3, "--profile", path, "--temperature", 1, "--seed", 3)
    code, out, err = command("generate", bytewise_llama, *given, *more)
    assert code == 0, err
    assert out
    assert steps(path) == {0, 1, 2}


def test_a_profile_of_a_run_has_one_step(
    bytewise_llama: Path, command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    code, _, err = command("run", bytewise_llama, "--random", "--profile", path)
    assert code == 0, err
    assert steps(path) == {0}
    assert [each.name for each in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/trace.json", "there is no folder"),
        ("", "it is no file"),
        ("/dev/null", "it is no file"),
    ],
)
def test_a_profile_that_cannot_be_written_is_refused_before_any_work(
    command: Command, tmp_path: Path, place: str, reason: str
) -> None:
    code, out, err = command("run", tmp_path, "--random", "--profile", tmp_path / place)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: --profile {tmp_path / place}: {reason}")


def test_a_full_disk_leaves_no_profile(
    bytewise_llama: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    path = tmp_path / "trace.json"
    code, _, err = command("run", bytewise_llama, "--random", "--profile", path)
    assert (code, err) == (1, f"error: {path}: cannot be written: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_a_target_without_a_timeline_is_one_sentence(
    bytewise_llama: Path, command: Command, tmp_path: Path
) -> None:
    given = ("--random", "--target", "reference", "--profile", tmp_path / "trace.json")
    code, out, err = command("run", bytewise_llama, *given)
    assert (code, out) == (1, "")
    expected = (
        "a ReferenceExecutable keeps no timeline: use the target cpu, or one that has a device"
    )
    assert err == f"error: {expected}\n"


def test_a_model_notes_the_steps_of_a_block(bytewise_llama: Path) -> None:
    with lamina.LLM(bytewise_llama) as llm:
        llm.generate([[1, 2]], max_new_tokens=2)
        with llm.trace() as timeline:
            llm.logits([1, 2, 3])
        llm.logits([1, 2, 3])
    (step,) = timeline.steps
    assert any("attention" in call.kernel for call in step.calls)


def test_a_model_of_the_reference_says_that_it_notes_nothing(bytewise_llama: Path) -> None:
    with (
        lamina.LLM(bytewise_llama, "reference") as llm,
        pytest.raises(UnsupportedError, match="keeps no timeline"),
        llm.trace(),
    ):
        pass
