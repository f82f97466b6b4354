"""What is run of a model to measure it: a decoder writes, any other model is called."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import read_size
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.frontend.model import Model
    from lamina.measure.subjects import Calling, Writing
    from lamina.targets.base import Executable

DimsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=N",
        show_default=False,
        help="For other models: a symbolic extent of the made-up inputs, 8 by default; repeatable.",
    ),
]


def prompt_tokens_option(default: int) -> Any:
    """Return the option `--prompt-tokens` of a command that runs `default` if nothing is said."""
    said = f"For a decoder: tokens of the prompt, {default} by default."
    return typer.Option(metavar="N", min=1, show_default=False, help=said)


def tokens_option(default: int) -> Any:
    """Return the option `--tokens` of a command that runs `default` if nothing is said."""
    said = f"For a decoder: tokens after it, {default} by default."
    return typer.Option("-n", "--tokens", metavar="N", min=1, show_default=False, help=said)


@dataclass(frozen=True)
class Asked:
    """What a command was asked to run: `length` and `more` tokens, unless options say others.

    `dims` are the texts of `--dim`, `peers` who runs the same.
    """

    length: int
    more: int
    prompt_tokens: int | None = None
    tokens: int | None = None
    dims: Sequence[str] = ()
    peers: Sequence[str] = ()


def subject_of(
    model: "Model", executable: "Executable", asked: Asked
) -> "tuple[Writing | Calling, list[int]]":
    """Return what is run of a model, and the prompt that its peers get too.

    Raises `InputError` for options of the other kind of model, and for tokens beyond its context.
    """
    import numpy as np

    from lamina.cli.run import make_up
    from lamina.measure.subjects import Calling, Writing
    from lamina.runtime.decoder import is_decoder
    from lamina.runtime.session import Session

    if not is_decoder(executable.signature):
        refused = {
            "--vs": asked.peers,
            "--prompt-tokens": asked.prompt_tokens,
            "--tokens": asked.tokens,
        }
        for option, value in refused.items():
            if value:
                raise InputError(f"{option}: is for models that write text, and this one does not")
        sizes = dict(read_size(text) for text in asked.dims)
        return Calling(executable, make_up(executable.signature, True, sizes, 0)), []
    if asked.dims:
        raise InputError(
            f"--dim {asked.dims[0]}: this model writes text: its extents follow from "
            "--prompt-tokens and --tokens"
        )
    length, more = asked.prompt_tokens or asked.length, asked.tokens or asked.more
    context = model.config.context_length if model.config is not None else None
    if context is not None and length + more > context:
        raise InputError(
            f"{length} tokens of a prompt and {more} more are beyond the model's context of "
            f"{context}: lower --prompt-tokens or --tokens"
        )
    session = Session(executable, length + more)
    drawn = np.random.default_rng(0).integers(0, session.vocabulary, length)
    prompt = [int(token) for token in drawn]
    return Writing(session, prompt, more), prompt
