"""A request while it is being served."""

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from lamina.runtime.batch import Part
from lamina.runtime.completion import Completion, FinishReason
from lamina.runtime.output_text import OutputText
from lamina.runtime.pages import PageIds
from lamina.runtime.request import Request
from lamina.runtime.sampler import Sampler
from lamina.runtime.vocabulary import Vocabulary
from lamina.targets.base import Array

_NO_PAGES: PageIds = np.empty(0, np.int32)


class ActiveRequest:
    """The tokens of one sequence, its pages, and the text it has written so far."""

    owner: int
    """Its number among the owners of pages."""
    pages: PageIds
    """The pages of its blocks, once it has them."""
    finish_reason: FinishReason | None
    """Why it ended; None until then."""

    def __init__(
        self,
        request: Request,
        vocabulary: Vocabulary,
        new_tokens: int,
        owner: int,
        *,
        live: bool = True,
    ) -> None:
        """Serve `request` with at most `new_tokens` tokens; its text is shown `live`, or not."""
        self.owner = owner
        self.pages = _NO_PAGES
        self.finish_reason = None
        self._tokens = list(request.prompt)
        self._prompt_tokens = len(self._tokens)
        self._most = self._prompt_tokens + new_tokens
        self._cached = 0
        self._eos_ids = vocabulary.eos_ids
        self._text = OutputText(vocabulary.tokenizer, request.params, self._tokens, live=live)
        self._sampler = Sampler(request.params, vocabulary.size, request.prompt, request.choice)
        self._first_at = self._last_at = 0.0

    @property
    def positions(self) -> int:
        """The positions that it may need; the last token needs none."""
        return self._most - 1

    @property
    def pending(self) -> int:
        """Tokens that are still to be run: of the prompt, later the one that came last."""
        return len(self._tokens) - self._cached

    @property
    def in_prompt(self) -> bool:
        """Whether the prompt is not yet run to its end."""
        return self._cached < self._prompt_tokens

    def part(self, count: int) -> Part:
        """Return the next `count` tokens to run, with logits if they are all there are."""
        start, end = self._cached, self._cached + count
        return Part(self._tokens[start:end], start, self.pages, int(end == len(self._tokens)))

    def ran(self, count: int) -> None:
        """Note that `count` tokens were run."""
        self._cached += count

    def take(self, logits: Array) -> str:
        """Choose the next token by the last one's logits; return the text to show, if any."""
        token = self._sampler.sample(logits)
        self._last_at = perf_counter()
        if len(self._tokens) == self._prompt_tokens:
            self._first_at = self._last_at
        self._tokens.append(token)
        if token in self._eos_ids:
            return self._finish("stop", "")
        piece = self._text.push(token)
        if self._text.stopped:
            return self._finish("stop", piece)
        return self._finish("length", piece) if len(self._tokens) == self._most else piece

    def completion(self, began: float, setup: Mapping[str, float]) -> Completion:
        """Return the result of a request that has ended, called for at time `began`."""
        assert self.finish_reason is not None
        new = self._tokens[self._prompt_tokens :]
        timings = {
            **setup,
            "prefill_s": self._first_at - began,
            "decode_s": self._last_at - self._first_at,
            "prompt_tokens": self._prompt_tokens,
            "new_tokens": len(new),
        }
        return Completion(self._text.text, new, self.finish_reason, timings)

    def _finish(self, reason: FinishReason, piece: str) -> str:
        piece += self._text.finish()
        self.finish_reason = "stop" if self._text.stopped else reason
        return piece
