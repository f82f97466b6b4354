"""`lamina generate`: write text."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lamina.cli.options import (
    DebugOption,
    DumpOption,
    FallbackOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
    said_of,
    with_fallback,
)
from lamina.cli.output import emit_json, first_line, for_terminal, say, working
from lamina.cli.profile import ProfileOption, check_profile, profiled

if TYPE_CHECKING:
    from lamina.runtime.completion import Completion
    from lamina.runtime.llm import LLM

Prompt = str | list[int]
"""Text, or token ids taken as they are."""


def generate(
    *,
    prompt: Annotated[
        list[str],
        typer.Option("-p", "--prompt", metavar="TEXT", help="The text to go on from; repeatable."),
    ],
    model: ModelArgument = "smollm2",
    max_new_tokens: Annotated[
        int, typer.Option("-n", "--max-new-tokens", metavar="N", help="Write at most N tokens.")
    ] = 128,
    temperature: Annotated[
        float, typer.Option(metavar="T", help="0 takes the likeliest token, more is more varied.")
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(metavar="K", help="Choose among the K likeliest tokens; 0: among all.")
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(metavar="P", help="Choose among the likeliest tokens that together have P."),
    ] = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            metavar="P", help="Leave out tokens less probable than P times the likeliest."
        ),
    ] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(metavar="X", help="Above 1 makes tokens that came already less likely.")
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same seed makes the same choices.")
    ] = 0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", show_default=False, help="End before this text; repeatable."),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Wrap each prompt as a user's message to the model.")
    ] = False,
    echo: Annotated[
        bool, typer.Option("--echo", help="Write a single prompt before the text that follows it.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Leave out the line of timings.")
    ] = False,
    cache_tokens: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Tokens of all prompts and answers that memory is kept for."
        ),
    ] = 4096,
    activations: Annotated[
        str,
        typer.Option(
            metavar="auto|f32", help="auto: 8-bit where weights are quantised; f32: exact."
        ),
    ] = "auto",
    target: TargetOption = "auto",
    fallback: FallbackOption = "host",
    threads: ThreadsOption = None,
    dump_ir: DumpOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write text that goes on from a prompt, as it comes.

    Several prompts are served together. A line of timings goes to standard error.

    Examples:

      lamina generate -p "The capital of France is" --echo

      lamina generate model.gguf -p "Why is the sky blue?" --chat -n 200 --temperature 0.7

      lamina generate -p "One" -p "Two" --json
    """
    from lamina.frontend.fetch import resolve_model

    path, place = resolve_model(model), check_profile(profile)
    target = with_fallback(target, fallback)
    from lamina.runtime.llm import LLM

    with working(f"Preparing {path.name}{said_of(target)}"):
        llm = LLM(
            path,
            target=target,
            threads=threads,
            cache_tokens=cache_tokens,
            activations=activations,
            dump=dump_ir,
        )
    sampling = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": stop or [],
    }
    prompts = [_as_message(llm, text) for text in prompt] if chat else list[Prompt](prompt)
    with profiled(llm.session.executable, place):
        if len(prompts) == 1 and not json:
            done = [_print_as_it_comes(llm, prompts[0], sampling, prompt[0] if echo else "")]
        else:
            done = _write(llm, prompts, sampling)
    if json:
        emit_json({"model": str(path), "completions": [asdict(each) for each in done]})
        return
    if len(prompts) > 1:
        for number, (text, completion) in enumerate(zip(prompt, done, strict=True), 1):
            print(f"== {number}: {first_line(text)}\n{for_terminal(completion.text)}\n")
    if not quiet:
        say(timings_of(done))


def _as_message(llm: "LLM", text: str) -> Prompt:
    # As ids, since a control token that the user spells out in a message is plain text.
    return llm.tokenizer.encode_chat([{"role": "user", "content": text}])


def _print_as_it_comes(
    llm: "LLM", prompt: Prompt, sampling: dict[str, Any], before: str
) -> "Completion":
    pieces = llm.stream(prompt, **sampling)
    try:
        with working("Reading the prompt"):
            piece = next(pieces)
        print(for_terminal(before), end="")
        while True:
            print(for_terminal(piece), end="", flush=True)
            piece = next(pieces)
    except StopIteration as end:
        return cast("Completion", end.value)
    finally:
        print(flush=True)


def _write(llm: "LLM", prompts: list[Prompt], sampling: dict[str, Any]) -> "list[Completion]":
    with working("Writing"):
        return llm.generate(prompts, **sampling)


def timings_of(done: "Sequence[Completion]") -> str:
    """Return how long loading, compiling, and tokens of all completions together took."""
    every = [each.timings for each in done]
    read = sum(each["prompt_tokens"] for each in every)
    new = sum(each["new_tokens"] - 1 for each in every)
    parts = [
        f"load {every[0]['load_s']:.2f} s, compile {every[0]['compile_s']:.2f} s",
        _rate("prefill", int(read), max(each["prefill_s"] for each in every)),
        _rate("decode", int(new), max(each["decode_s"] for each in every)),
    ]
    return ", ".join(part for part in parts if part)


def _rate(name: str, tokens: int, seconds: float) -> str:
    return f"{name} {tokens} tokens at {tokens / seconds:.1f} tok/s" if tokens and seconds else ""
