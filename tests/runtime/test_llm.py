import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from history_model import END, STOP, HistoryModel, HistoryTarget, as_read, byte_tokenizer

import lamina
from lamina.errors import InputError
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.runtime.completion import Completion

TOKENIZER = byte_tokenizer()
VOCABULARY = 300
"""More than the tokenizer's 258: the rest are padding."""
SAMPLED = {"max_new_tokens": 9, "temperature": 1.0, "seed": 3}


def make(**options: object) -> lamina.LLM:
    """A model that remembers; options are those of `as_read` and of `LLM`."""
    read = {key: options.pop(key) for key in ("tokenizer", "context", "eos") if key in options}
    model = as_read(**{"tokenizer": TOKENIZER, **read})  # type: ignore[arg-type]
    return lamina.LLM(model, HistoryTarget(HistoryModel(VOCABULARY)), **options)  # type: ignore[arg-type]


def inside(llm: lamina.LLM) -> HistoryModel:
    model = llm.session.executable
    assert isinstance(model, HistoryModel)
    return model


def free_pages(llm: lamina.LLM) -> int:
    return llm.session.pages.free


def saying(text: str, prompt: str = ">", **options: object) -> lamina.LLM:
    """A model that goes on from `prompt` by `text`."""
    llm, tokens = make(**options), TOKENIZER.encode(text)
    start = len(TOKENIZER.encode(prompt))
    inside(llm).say = lambda history: tokens[len(history) - start]
    return llm


def results(done: list[Completion]) -> list[tuple]:
    return [(each.text, each.token_ids, each.finish_reason) for each in done]


PROMPTS = ["One", "Two and more", "x" * 200, "", "Two and more"]


@pytest.fixture
def prompts() -> list:
    return [text or [5] for text in PROMPTS]


def alone(prompt: object, **options: object) -> tuple:
    return results(make().generate([prompt], **(SAMPLED | options)))[0]  # type: ignore[list-item]


@pytest.mark.parametrize("options", [{}, {"temperature": 0.0}, {"top_k": 5}])
def test_prompts_of_a_batch_are_completed_as_alone(prompts: list, options: dict) -> None:
    together = results(make().generate(prompts[:4], **(SAMPLED | options)))
    assert together == [alone(prompt, **options) for prompt in prompts[:4]]


def test_the_order_of_prompts_does_not_matter(prompts: list) -> None:
    one, other = (make().generate(some[:4], **SAMPLED) for some in (prompts, prompts[3::-1]))
    assert results(one) == results(other)[::-1]


def test_a_prompt_given_twice_is_completed_in_two_ways(prompts: list) -> None:
    done = make().generate(prompts, **SAMPLED)
    assert done[1].token_ids == make().generate(["Two and more"], **SAMPLED)[0].token_ids
    assert done[1].token_ids != done[4].token_ids


@pytest.mark.parametrize("chunk", [1, 7, 64, 500])
def test_chunks_of_a_prompt_do_not_matter(prompts: list, chunk: int) -> None:
    llm = make(chunk_tokens=chunk)
    assert results(llm.generate(prompts, **SAMPLED)) == results(make().generate(prompts, **SAMPLED))
    assert max(inside(llm).steps) <= chunk + len(prompts)


def test_prompts_wait_for_pages_and_leave_the_batch_when_done(prompts: list) -> None:
    llm = make(cache_tokens=208)
    assert results(llm.generate(prompts, **SAMPLED)) == results(make().generate(prompts, **SAMPLED))
    assert free_pages(llm) == 13


def test_a_seed_gives_the_same_text_again_and_no_seed_another() -> None:
    llm = make()
    options = SAMPLED | {"max_new_tokens": 30}
    assert results(llm.generate(["Hi"], **options)) == results(llm.generate(["Hi"], **options))
    one, other = (llm.generate(["Hi"], **(options | {"seed": None})) for _ in range(2))
    assert one[0].token_ids != other[0].token_ids


def test_padded_ids_are_never_written() -> None:
    (done,) = make().generate(["Hi"], max_new_tokens=200, temperature=9.0, seed=0)
    assert max(done.token_ids) < TOKENIZER.vocab_size < VOCABULARY


def test_a_completion_says_how_long_it_took_and_how_much_it_is() -> None:
    timings = saying("Hello").generate(">", max_new_tokens=5)[0].timings
    seconds = [timings.pop(f"{part}_s") for part in ("load", "compile", "prefill", "decode")]
    assert min(seconds) >= 0
    assert timings == {"prompt_tokens": 1, "new_tokens": 5}


def test_text_ends_where_it_is_as_long_as_asked() -> None:
    (done,) = saying("Hello").generate(">", max_new_tokens=4)
    assert results([done]) == [("Hell", TOKENIZER.encode("Hell"), "length")]


@pytest.mark.parametrize("mark", [END, STOP])
def test_any_end_of_sequence_ends_it(mark: str) -> None:
    llm = saying(f"Hi{mark}more", eos=TOKENIZER.encode(STOP))
    (done,) = llm.generate(">", max_new_tokens=9)
    assert results([done]) == [("Hi", TOKENIZER.encode(f"Hi{mark}"), "stop")]


def test_a_stop_string_ends_the_text_before_it() -> None:
    (done,) = saying("one, two, three").generate(">", max_new_tokens=15, stop=[", t", "thr"])
    assert (done.text, done.finish_reason) == ("one", "stop")
    assert done.timings["new_tokens"] == len(done.token_ids) == len("one, t")


def test_a_stop_string_of_the_prompt_does_not_count() -> None:
    llm = saying("pper stop", prompt="stop sto")
    (done,) = llm.generate("stop sto", max_new_tokens=20, stop=["stop"])
    assert (done.text, done.finish_reason) == ("pper ", "stop")


@pytest.mark.parametrize(("stop", "left"), [("é", "nè ê"), ("\N{PARROT}", "nè êé ")])
def test_a_stop_string_is_made_of_characters_and_not_of_bytes(stop: str, left: str) -> None:
    (done,) = saying("nè êé \N{PARROT} and more").generate(">", max_new_tokens=20, stop=[stop])
    assert (done.text, done.finish_reason) == (left, "stop")
    assert TOKENIZER.encode(left + stop) == done.token_ids


def test_a_stop_string_is_part_of_the_text_where_that_is_asked_for() -> None:
    options = {"stop": ["stop"], "include_stop_str_in_output": True}
    (done,) = saying("one two stop three").generate(">", max_new_tokens=20, **options)
    assert (done.text, done.finish_reason) == ("one two stop", "stop")
    assert done.timings["new_tokens"] == len(done.token_ids)


@pytest.mark.parametrize("text", [f"almost st{END}", "almost st"])
def test_the_beginning_of_a_stop_string_is_shown_at_the_end(text: str) -> None:
    (done,) = saying(text).generate(">", max_new_tokens=len(TOKENIZER.encode(text)), stop=["stop"])
    assert done.text == "almost st"


def test_pieces_are_whole_characters_and_add_up_to_the_text() -> None:
    text = "nice 🦜 naïve"
    llm = saying(text)
    pieces = list(llm.stream(">", max_new_tokens=len(TOKENIZER.encode(text))))
    assert "🦜" in pieces
    assert "".join(pieces) == text


def test_a_stream_shows_no_part_of_a_stop_string_but_what_never_became_one() -> None:
    pieces = list(saying("a##b###c").stream(">", max_new_tokens=8, stop=["###"]))
    assert pieces == ["a", "##b"]


def test_a_stream_returns_its_completion() -> None:
    def whole() -> Iterator[str]:
        found.append((yield from saying("Hello").stream(">", max_new_tokens=5)))

    found: list[Completion] = []
    pieces = list(whole())
    assert [each.text for each in found] == ["".join(pieces)] == ["Hello"]


def test_a_closed_stream_gives_its_pages_back() -> None:
    llm = make(cache_tokens=64)
    stream = llm.stream([1, 2], max_new_tokens=60)
    next(stream)
    assert free_pages(llm) == 0
    stream.close()
    assert free_pages(llm) == 4


def test_streams_can_be_mixed() -> None:
    llm = make()
    streams = [llm.stream([n], max_new_tokens=40) for n in (3, 4)]
    mixed = ["".join(pieces) for pieces in zip(*zip(*streams, strict=False), strict=True)]
    wholes = [make().generate([[n]], max_new_tokens=40)[0].text for n in (3, 4)]
    assert all(whole.startswith(part) and part for whole, part in zip(wholes, mixed, strict=True))


def test_a_prompt_without_room_beside_open_streams_is_refused() -> None:
    llm = make(cache_tokens=64)
    stream = llm.stream([1, 2], max_new_tokens=40)
    next(stream)
    with pytest.raises(InputError, match="3 of 4 pages are held by calls that have not ended"):
        llm.generate([[1]], max_new_tokens=30)
    assert free_pages(llm) == 1
    stream.close()
    assert llm.generate([[1]], max_new_tokens=30)


@pytest.mark.parametrize(
    ("length", "new", "written"), [(512, 9, 1), (510, 9, 3), (500, 9, 9)], ids=str
)
def test_text_ends_with_the_context(length: int, new: int, written: int) -> None:
    (done,) = make().generate([[1] * length], max_new_tokens=new)
    assert (len(done.token_ids), done.finish_reason) == (written, "length")


@pytest.mark.parametrize(
    ("length", "new", "message"),
    [
        (513, 1, "prompt 2 has 513 tokens, but the context of the model is 512"),
        (101, 1, "prompt 2 needs 101 positions, but the cache has 100 in all"),
        (90, 12, "prompt 2 has 90 tokens and 12 may follow, but the cache has 100 positions"),
    ],
)
def test_a_prompt_that_cannot_fit_is_refused_before_any_runs(
    length: int, new: int, message: str
) -> None:
    llm = make(cache_tokens=100)
    with pytest.raises(InputError, match=message):
        llm.generate([[1], [1] * length], max_new_tokens=new)
    assert inside(llm).steps == []
    assert llm.generate([[1] * 90], max_new_tokens=11)


def test_logits_of_more_tokens_than_the_context_are_refused() -> None:
    with pytest.raises(InputError, match="ids has 513 tokens, but the context of the model is 512"):
        make().logits([1] * 513)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([3, 4], "prompt 1 is of type int: expected text or a list of token ids"),
        (["a", b"b"], "prompt 2 is of type bytes: expected text"),
        ([[]], "prompt 1 is empty: expected at least one token"),
        ([""], "prompt 1 is empty"),
        ([[1, -1]], "prompt 1 has -1: expected token ids from 0 to 257"),
        ([[258]], "prompt 1 has 258"),
        ([[1.0]], r"prompt 1 has 1\.0"),
        ([[True]], "prompt 1 has True"),
        (None, "prompts is of type NoneType: expected text, or a list of prompts"),
        (3, "prompts is of type int"),
        (b"a", "prompts is of type bytes"),
        ({"a": 1}, "prompts is of type dict"),
    ],
)
def test_a_prompt_that_is_none_is_refused(prompts: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make().generate(prompts)


def test_a_stream_refuses_a_prompt_at_once() -> None:
    with pytest.raises(InputError, match="prompt 1 is empty"):
        make().stream("")


def test_no_prompts_are_no_completions() -> None:
    assert make().generate([]) == []


def test_ids_may_be_an_array() -> None:
    ids = np.array([3, 4, 5])
    assert results(make().generate([ids], seed=0)) == results(make().generate([[3, 4, 5]], seed=0))


@pytest.mark.parametrize(
    "act",
    [
        lambda llm: llm.generate("Hello"),
        lambda llm: llm.generate([[1]], stop=["."]),
        lambda llm: llm.tokenizer,
    ],
)
def test_without_a_tokenizer_there_is_no_text(act: Callable[[lamina.LLM], object]) -> None:
    llm = make(tokenizer=None)
    with pytest.raises(InputError, match="the model has no tokenizer"):
        act(llm)
    (done,) = llm.generate([[299]], max_new_tokens=3)
    assert (done.text, len(done.token_ids)) == ("", 3)


def test_a_closed_model_is_refused() -> None:
    with make() as llm:
        llm.generate("Hello")
    with pytest.raises(InputError, match="the model is closed"):
        llm.generate("Hello")


def test_unknown_activations_are_refused() -> None:
    with pytest.raises(InputError, match="activations is 'int3': expected auto or f32"):
        make(activations="int3")


def test_an_interrupt_ends_a_generation_soon_and_leaves_the_model_usable() -> None:
    llm = make(cache_tokens=512)
    before = results(llm.generate(["Hello"], **SAMPLED))
    inside(llm).before = lambda inputs: time.sleep(0.01)
    started = time.perf_counter()
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["Hello", "World"], max_new_tokens=200)
    assert time.perf_counter() - started < 1.0
    assert free_pages(llm) == 32
    assert results(llm.generate(["Hello"], **SAMPLED)) == before


def test_an_interrupt_in_a_prompt_ends_it_too() -> None:
    llm = make()
    inside(llm).before = lambda inputs: signal.raise_signal(signal.SIGINT)
    for act in (llm.logits, lambda prompt: list(llm.stream(prompt))):
        with pytest.raises(KeyboardInterrupt):
            act([1] * 300)
        assert free_pages(llm) == 256


def test_threads_share_a_model() -> None:
    llm = make()
    done: dict[int, object] = {}

    def work(number: int) -> None:
        done[number] = results(llm.generate([[number] * 20], **SAMPLED))[0]

    threads = [threading.Thread(target=work, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == {n: alone([n] * 20) for n in range(6)}


def test_steps_of_decoding_run_a_token_a_sequence(prompts: list) -> None:
    llm = make(chunk_tokens=1000)
    llm.generate(prompts, max_new_tokens=3)
    assert inside(llm).steps == [sum(max(len(text), 1) for text in PROMPTS), 5, 5]


def test_a_shrinking_batch_keeps_every_sequence_its_own() -> None:
    llm = make()
    inside(llm).say = lambda history: history[0] if len(history) < history[0] else 256
    done = llm.generate([[n] for n in (5, 2, 9, 3)], max_new_tokens=20)
    assert [each.token_ids for each in done] == [[n] * (n - 1) + [256] for n in (5, 2, 9, 3)]
    assert all(one >= other for one, other in pairwise(inside(llm).steps))


SPACED = tokenizer_from_gguf(
    {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "▁a"],
        "tokenizer.ggml.token_type": np.array([2, 3, 3, 1, 1, 1, 1, 1, 1], np.int32),
        "tokenizer.ggml.scores": np.array([0, 0, 0, -9, -9, -9, -1, -2, -3], np.float32),
    }
)
"""A vocabulary that puts a blank before every text."""


@pytest.mark.parametrize(("prompt", "text"), [("a", " ab ab"), ([1], "ab ab"), ("a<s>", "ab ab")])
def test_text_that_goes_on_keeps_its_first_blank(prompt: object, text: str) -> None:
    llm = make(tokenizer=SPACED)
    inside(llm).say = lambda history: 7
    assert llm.generate([prompt], max_new_tokens=2)[0].text == text  # type: ignore[list-item]
    assert "".join(llm.stream(prompt, max_new_tokens=2)) == text  # type: ignore[arg-type]
