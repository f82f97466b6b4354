import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import lamina

Command = Callable[..., tuple[int, str, str]]
REFERENCE = ("--target", "reference")


@pytest.fixture
def folder(bytewise_llama: Path) -> Path:
    return bytewise_llama


def test_text_comes_out_as_the_model_writes_it(folder: Path, command: Command) -> None:
    (done,) = lamina.LLM(folder, "reference").generate("Hello", max_new_tokens=6)
    code, out, _ = command("generate", folder, "-p", "Hello", "-n", 6, *REFERENCE)
    assert (code, out) == (0, f"{done.text}\n")


def test_an_object_tells_all_of_each_completion(folder: Path, command: Command) -> None:
    given = ("-p", "One", "-p", "Two", "-n", 3, "--temperature", 1, "--seed", 7)
    code, out, _ = command("generate", folder, *given, *REFERENCE, "--json")
    completions = json.loads(out)["completions"]
    assert code == 0
    assert [each["timings"]["new_tokens"] for each in completions] == [3, 3]
    assert set(completions[0]) == {"text", "token_ids", "finish_reason", "timings"}


def test_a_chat_is_wrapped_by_the_template(folder: Path, command: Command) -> None:
    (done,) = lamina.LLM(folder, "reference").generate("Hi!", max_new_tokens=4)
    code, out, _ = command("generate", folder, "-p", "Hi", "-n", 4, "--chat", *REFERENCE)
    assert (code, out) == (0, f"{done.text}\n")


def test_a_wrong_option_is_one_sentence(folder: Path, command: Command) -> None:
    code, _, err = command("generate", folder, "-p", "Hi", "--top-p", 2, *REFERENCE)
    assert (code, err) == (1, "error: top_p is 2.0: expected a number from 0 to 1\n")


def test_stages_are_dumped(folder: Path, command: Command, tmp_path: Path) -> None:
    dump = ("--dump-ir", tmp_path / "stages")
    assert command("generate", folder, "-p", "Hi", "-n", 1, *REFERENCE, *dump)[0] == 0
    (stage,) = (tmp_path / "stages").glob("000-*.mlir")
    code, out, err = command("generate", stage, "-p", "Hi", "-n", 2, "--quiet", *REFERENCE)
    assert (code, err) == (0, "")
    assert out == command("generate", folder, "-p", "Hi", "-n", 2, *REFERENCE)[1]


def test_timings_are_one_line_of_errors(folder: Path, command: Command) -> None:
    _, _, err = command("generate", folder, "-p", "Hi", "-n", 3, *REFERENCE)
    line = r"load [\d.]+ s, compile [\d.]+ s, prefill \d+ tokens at [\d.]+ tok/s, decode 2 tokens at [\d.]+ tok/s\n"
    assert re.fullmatch(line, err)


def test_several_prompts_have_headings(folder: Path, command: Command) -> None:
    one, two = lamina.LLM(folder, "reference").generate(["One", "Two"], max_new_tokens=3)
    _, out, _ = command("generate", folder, "-p", "One", "-p", "Two", "-n", 3, *REFERENCE)
    assert out == f"== 1: One\n{one.text}\n\n== 2: Two\n{two.text}\n\n"


def test_a_cache_that_is_too_small_is_named(folder: Path, command: Command) -> None:
    code, _, err = command("generate", folder, "-p", "Hi", "--cache-tokens", 16, *REFERENCE)
    assert code == 1
    assert "the cache has 16 positions in all" in err


def test_a_prompt_is_written_before_its_text(folder: Path, command: Command) -> None:
    given = (folder, "-p", "Hi", "-n", 4, *REFERENCE)
    _, out, _ = command("generate", *given)
    assert command("generate", *given, "--echo")[1] == f"Hi{out}"
