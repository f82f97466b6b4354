"""The loop that serves requests together, step by step."""

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from time import perf_counter

from lamina.errors import InputError
from lamina.runtime.active_request import ActiveRequest
from lamina.runtime.batch import Part
from lamina.runtime.completion import Completion
from lamina.runtime.request import Limits, Request
from lamina.runtime.session import Session
from lamina.runtime.vocabulary import Vocabulary
from lamina.targets.base import Array

Turn = tuple[ActiveRequest, int]
"""A request and how many of its tokens a step runs."""


class Generation:
    """Some requests, served together on one session.

    A step runs one token of every sequence that is past its prompt, and a chunk of prompts.
    Sequences come in as pages are free, in order, and leave when they end.
    """

    def __init__(
        self,
        session: Session,
        vocabulary: Vocabulary,
        limits: Limits,
        requests: Sequence[Request],
        began: float | None = None,
        *,
        live: bool = True,
    ) -> None:
        """Check every request before any of them runs: `InputError` names one that cannot fit.

        `began` is when the caller asked, by `time.perf_counter`. Text that is not shown `live` may
        come at the end.
        """
        self._began = perf_counter() if began is None else began
        self._session = session
        self._all = [
            ActiveRequest(
                request,
                vocabulary,
                limits.new_tokens(request, f"prompt {number}"),
                session.pages.new_owner(),
                live=live,
            )
            for number, request in enumerate(requests, 1)
        ]
        self._waiting = deque(self._all)
        self._running: list[ActiveRequest] = []

    def pieces(self) -> Generator[str]:
        """Serve to the end, yielding the text that each step adds; close it to end early.

        Pieces of several requests come mixed. Pages are given back however it ends. `InputError`
        if others hold so many pages that nothing can run.
        """
        try:
            while self._waiting or self._running:
                self._admit()
                yield from self._step()
        finally:
            self._session.pages.give_back([each.owner for each in self._all])

    def completions(self, setup: Mapping[str, float]) -> list[Completion]:
        """Return the results in order, once all is served; `setup` goes into their timings."""
        return [each.completion(self._began, setup) for each in self._all]

    def _admit(self) -> None:
        pages = self._session.pages
        while self._waiting:
            first = self._waiting[0]
            taken = pages.take(first.owner, self._session.pages_for(first.positions))
            if taken is not None:
                first.pages = taken
                self._running.append(self._waiting.popleft())
            elif self._running:
                return
            else:
                raise InputError(
                    f"there is no room for a prompt: {pages.count - pages.free} of {pages.count} "
                    "pages are held by calls that have not ended, so end or close them first"
                )

    def _step(self) -> list[str]:
        turns = self._turns()
        started = perf_counter()
        parts = [request.part(count) for request, count in turns]
        shown = self._session.step(parts, lambda logits: _take(turns, parts, logits))
        self._session.chunk.took(sum(count for _, count in turns), perf_counter() - started)
        ended = [each.owner for each, _ in turns if each.finish_reason is not None]
        if ended:
            self._session.pages.give_back(ended)
            self._running = [each for each in self._running if each.finish_reason is None]
        return shown

    def _turns(self) -> list[Turn]:
        room, turns = self._session.chunk.tokens, list[Turn]()
        for request in self._running:
            count = request.pending
            if request.in_prompt:
                count = min(count, room)
                room -= count
            if count:
                turns.append((request, count))
        return turns


def _take(turns: Sequence[Turn], parts: Sequence[Part], logits: Array) -> list[str]:
    """Note what was run, and choose the next token of each sequence that has a row of logits."""
    row, shown = 0, list[str]()
    for (request, count), part in zip(turns, parts, strict=True):
        request.ran(count)
        if part.rows:
            if piece := request.take(logits[row]):
                shown.append(piece)
            row += 1
    return shown
