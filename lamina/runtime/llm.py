"""Language models: read, compile, and write text."""

import os
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from lamina import compiler
from lamina.arguments import listed, path_text
from lamina.errors import InputError
from lamina.frontend.fetch import resolve_model
from lamina.frontend.model import Model
from lamina.frontend.tokenizer import Tokenizer
from lamina.runtime.completion import Completion
from lamina.runtime.generation import Generation
from lamina.runtime.request import Limits, Request
from lamina.runtime.sampler import choice_numbers
from lamina.runtime.sampling_options import SamplingOptions
from lamina.runtime.sampling_params import SamplingParams
from lamina.runtime.scoring import token_logits
from lamina.runtime.session import Session
from lamina.runtime.vocabulary import Vocabulary
from lamina.targets.base import Target
from lamina.targets.spec import AUTO
from lamina.targets.timeline import Timeline, trace

Prompt = str | Sequence[int]
"""Text, or token ids taken as they are: no beginning-of-sequence token is added to them."""

_ACTIVATIONS: Final = ("auto", "f32")


class LLM:
    """A language model, compiled and loaded, with a cache of keys and values.

    Text gets a beginning-of-sequence token only if the model's file asks for one, and control
    tokens that it spells are parsed. Threads may share it; their steps take turns. As a context
    manager it closes itself.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model,
        target: str | Target = AUTO,
        threads: int | None = None,
        cache_tokens: int = 4096,
        activations: str = "auto",
        dump: str | os.PathLike[str] | None = None,
        *,
        chunk_tokens: int | None = None,
    ) -> None:
        """Read and compile `model`: a path, the name of a fetched model, or one that was read.

        `target` and `threads` are as for `lamina.compile`.
        `cache_tokens` is how many positions all sequences together may take. `activations`
        "auto" has 8-bit ones where weights are quantised, "f32" exact ones; a target without
        that option is exact. `dump` is a folder for the stages of compilation. `chunk_tokens` is
        the most prompt tokens a step takes; by default steps are short enough for Ctrl-C to work
        within half a second. Raises `InputError` for a model that writes no text and as
        `lamina.read` and `lamina.compile` do.
        """
        if activations not in _ACTIVATIONS:
            raise InputError(f"activations is {activations!r}: expected auto or f32")
        started = perf_counter()
        if not isinstance(model, Model):
            model = compiler.read(resolve_model(path_text(model, "model")), defer=True)
        loaded = perf_counter()
        chosen = _with_activations(compiler.resolve_target(target, model, threads), activations)
        executable = compiler.compile(model, chosen, dump=dump)
        self._setup = {"load_s": loaded - started, "compile_s": perf_counter() - loaded}
        session = Session(executable, cache_tokens, chunk_tokens=chunk_tokens)
        self._session: Session | None = session
        self._vocabulary = _vocabulary(model, session.vocabulary)
        context = None if model.config is None else model.config.context_length
        self._limits = Limits(context, cache_tokens)

    @property
    def tokenizer(self) -> Tokenizer:
        """How the model cuts text; `InputError` if its files have no tokenizer."""
        if self._vocabulary.tokenizer is None:
            raise InputError("the model has no tokenizer: give it token ids")
        return self._vocabulary.tokenizer

    @property
    def session(self) -> Session:
        """The code, the pages of the cache, and steps; `InputError` once the model is closed."""
        if self._session is None:
            raise InputError("the model is closed: make a new LLM")
        return self._session

    def generate(
        self, prompts: str | Sequence[Prompt], **sampling: Unpack[SamplingOptions]
    ) -> list[Completion]:
        """Go on from every prompt, all at once, and return their completions in order.

        A prompt's completion does not depend on the others. A prompt longer than the model's
        context, or one that the whole cache cannot hold with the new tokens asked for, is an
        `InputError` before anything runs; where the context ends earlier than
        `max_new_tokens` asks, so does the completion. Other options are those of
        `SamplingParams`. After Ctrl-C the model can be used further.
        """
        began = perf_counter()
        expected = "text, or a list of prompts"
        every = [prompts] if isinstance(prompts, str) else listed(prompts, "prompts", expected)
        generation = self._generation(every, SamplingParams(**sampling), began, live=False)
        with closing(generation.pieces()) as pieces:
            for _ in pieces:
                pass
        return generation.completions(self._setup)

    def stream(
        self, prompt: Prompt, **sampling: Unpack[SamplingOptions]
    ) -> Generator[str, None, Completion]:
        """Go on from one prompt, yielding text as it comes; the generator returns the completion.

        No piece ends inside a character or has a part of a stop string. Raises `InputError` as
        `generate`, at once. Closing the generator ends the request.
        """
        params, began = SamplingParams(**sampling), perf_counter()
        return self._pieces(self._generation([prompt], params, began))

    def logits(self, ids: Prompt) -> NDArray[np.float32]:
        """Return the logits after each token of `ids`, float32 [n, vocabulary of the model].

        `InputError` if there are more than the context or the cache can hold.
        """
        session = self.session
        tokens = self._vocabulary.ids(ids, "ids")
        self._limits.check_length(len(tokens), "ids")
        return token_logits(session, tokens)

    @contextmanager
    def trace(self) -> Generator[Timeline]:
        """Note what each thread does in every step until the block is left.

        The timeline has the calls of each step with their kernels and times, and its `write`
        makes a file for a viewer. Raises `UnsupportedError` if the target keeps none.
        """
        with trace(self.session.executable) as timeline:
            yield timeline

    def close(self) -> None:
        """Let code, weights and cache go; using the model afterwards is an `InputError`."""
        self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _generation(
        self,
        prompts: Sequence[object],
        params: SamplingParams,
        began: float,
        *,
        live: bool = True,
    ) -> Generation:
        session, vocabulary = self.session, self._vocabulary
        if params.stop:
            vocabulary.text_tokenizer("stop")
        ids = [vocabulary.ids(each, f"prompt {n}") for n, each in enumerate(prompts, 1)]
        choices = choice_numbers(ids)
        requests = [
            Request(each, params, choice) for each, choice in zip(ids, choices, strict=True)
        ]
        return Generation(session, vocabulary, self._limits, requests, began, live=live)

    def _pieces(self, generation: Generation) -> Generator[str, None, Completion]:
        with closing(generation.pieces()) as pieces:
            yield from pieces
        return generation.completions(self._setup)[0]


def _with_activations(target: Target, activations: str) -> Target:
    names = {field.name for field in fields(target)}
    if activations == "auto" or "activations" not in names:
        return target
    return replace(target, **cast("dict[str, Any]", {"activations": activations}))


def _vocabulary(model: Model, logits: int) -> Vocabulary:
    tokenizer = model.tokenizer
    eos = frozenset(() if model.config is None else model.config.eos_ids)
    if tokenizer is None:
        return Vocabulary(logits, eos)
    return Vocabulary(min(logits, tokenizer.vocab_size), eos | tokenizer.eos_ids, tokenizer)
