"""What is measured of a model: the parts that a run of it has, and how long each takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from lamina.errors import LaminaError
from lamina.runtime.generation import Generation
from lamina.runtime.request import Limits, Request
from lamina.runtime.sampling_params import SamplingParams
from lamina.runtime.session import Session
from lamina.runtime.vocabulary import Vocabulary
from lamina.targets.base import Array, Executable
from lamina.targets.timeline import TracedStep


@dataclass(frozen=True)
class Phase:
    """A part of a run: `tokens` are what it works through, 0 where it has none to count."""

    name: str
    tokens: int

    @property
    def units(self) -> int:
        """What a rate counts: tokens, or else the run itself."""
        return self.tokens or 1


class Subject(Protocol):
    """A model that can be run again and again."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The parts of a run, in order."""
        ...

    def run(self) -> list[float]:
        """Run once and return the seconds of each phase."""
        ...

    def split(self, steps: Sequence[TracedStep]) -> list[Sequence[TracedStep]]:
        """Return the steps of each phase of one run."""
        ...


class Writing:
    """A decoder that reads a prompt and writes as many tokens as asked, whatever they are."""

    def __init__(self, session: Session, prompt: Sequence[int], tokens: int) -> None:
        """Go on from the ids `prompt` with `tokens` steps of one token."""
        self._session, self._prompt, self._tokens = session, list(prompt), tokens
        self._vocabulary = Vocabulary(session.vocabulary, frozenset())

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Reading the prompt, up to the first token; and each of the others."""
        return Phase("prefill", len(self._prompt)), Phase("decode", self._tokens)

    def run(self) -> list[float]:
        """Run once and return the seconds of each phase, choosing the tokens included."""
        params = SamplingParams(max_new_tokens=self._tokens + 1)
        requests = [Request(self._prompt, params)]
        limits = Limits(None, self._session.capacity)
        began = perf_counter()
        generation = Generation(self._session, self._vocabulary, limits, requests, began)
        for _ in generation.pieces():
            pass
        (done,) = generation.completions({})
        return [done.timings["prefill_s"], done.timings["decode_s"]]

    def split(self, steps: Sequence[TracedStep]) -> list[Sequence[TracedStep]]:
        """Return the steps of each phase of one run."""
        if len(steps) <= self._tokens:
            raise LaminaError(f"the run had {len(steps)} steps: expected more than {self._tokens}")
        return [steps[: -self._tokens], steps[-self._tokens :]]


class Calling:
    """A model that is called on the same inputs."""

    def __init__(self, executable: Executable, inputs: Mapping[str, Array]) -> None:
        """Take inputs and states by name."""
        self._executable, self._inputs = executable, dict(inputs)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The call."""
        return (Phase("run", 0),)

    def run(self) -> list[float]:
        """Call once and return the seconds."""
        began = perf_counter()
        self._executable(**self._inputs)
        return [perf_counter() - began]

    def split(self, steps: Sequence[TracedStep]) -> list[Sequence[TracedStep]]:
        """Return the steps of each phase of one run."""
        return [steps]
