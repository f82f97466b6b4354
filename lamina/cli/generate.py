"""`lamina generate`: write text."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import (
    DebugOption,
    DumpOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
)
from lamina.cli.output import emit_json, working

if TYPE_CHECKING:
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
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same seed makes the same choices.")
    ] = 0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", show_default=False, help="End before this text; repeatable."),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Wrap the prompt as a user's message to the model.")
    ] = False,
    activations: Annotated[
        str,
        typer.Option(
            metavar="auto|f32", help="auto: 8-bit where weights are quantised; f32: exact."
        ),
    ] = "auto",
    target: TargetOption = "cpu",
    threads: ThreadsOption = None,
    dump_ir: DumpOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write text that goes on from a prompt, as it comes.

    Examples:

      lamina generate -p "The capital of France is"

      lamina generate model.gguf -p "Why is the sky blue?" --chat -n 200 --temperature 0.7

      lamina generate -p "One" -p "Two" --json
    """
    from lamina.frontend.fetch import resolve_model

    path = resolve_model(model)
    from lamina.runtime.llm import LLM

    with working(f"Preparing {path.name} for {target}"):
        llm = LLM(path, target=target, threads=threads, activations=activations, dump=dump_ir)
    sampling = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "stop": stop or [],
    }
    prompts = [_as_message(llm, text) for text in prompt] if chat else list[Prompt](prompt)
    if json or len(prompts) > 1:
        _print_whole(llm, prompts, sampling, str(path) if json else None)
    else:
        _print_as_it_comes(llm, prompts[0], sampling)


def _as_message(llm: "LLM", text: str) -> Prompt:
    # As ids, since a control token that the user spells out in a message is plain text.
    return llm.tokenizer.encode_chat([{"role": "user", "content": text}])


def _print_as_it_comes(llm: "LLM", prompt: Prompt, sampling: dict[str, Any]) -> None:
    try:
        for piece in llm.stream(prompt, **sampling):
            print(piece, end="", flush=True)
    finally:
        print(flush=True)


def _print_whole(
    llm: "LLM", prompts: list[Prompt], sampling: dict[str, Any], model: str | None
) -> None:
    with working("Generating"):
        done = llm.generate(prompts, **sampling)
    if model is not None:
        emit_json({"model": model, "completions": [asdict(each) for each in done]})
        return
    for number, completion in enumerate(done, 1):
        print(f"== {number}\n{completion.text}\n")
