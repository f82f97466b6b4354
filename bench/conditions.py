"""A decoder under conditions: long contexts, company, busy CPUs, and threads beyond the CPUs.

    python bench/conditions.py [MODEL] [--peer-python PATH] [--threads 1 2] [--only 'busy*']

Every figure is a ratio of two rates that were measured in turns, beside what it has to be. MODEL
is a GGUF file or the name of a fetched model. Decoding is one token at a time after a prompt of 8,
choosing them included; llama.cpp does the same if the interpreter of the peers has it. "together"
is the rate of eight sequences at once over that of one. "busy" is the rate that is kept while
another process spins on one of the CPUs, and "idle" the CPU time, over two seconds, of a process
that finished a request a second ago.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter, process_time, sleep

from bars import HEAD, Figure
from company import company, cpus, restricted
from generation import PEER, PREFILL, PROMPT, STEPS, TEXT, llama_cpp
from machine import describe
from positive import positive
from turns import Once, medians

import lamina
from lamina.frontend.fetch import resolve_model
from lamina.measure.peers.peer import Peer
from lamina.runtime.generation import Generation
from lamina.runtime.request import Limits, Request
from lamina.runtime.sampling_params import SamplingParams
from lamina.runtime.session import Session
from lamina.runtime.vocabulary import Vocabulary

LONG, SEQUENCES = 4000, 8
ROOM = LONG + STEPS + 1
OURS = "lamina"


@dataclass(frozen=True)
class Setting:
    """What is measured, with whom, and how often."""

    path: Path
    python: str | None
    rounds: int
    threads: Sequence[int]
    """With how many what does not compare them is measured."""

    def rates(self, sides: dict[str, Once], tokens: int) -> dict[str, float]:
        """Return the median tokens a second of each side, all having their turns."""
        return {name: tokens / sum(parts) for name, parts in medians(sides, self.rounds).items()}

    @contextmanager
    def model(self, threads: int) -> Iterator[lamina.LLM]:
        """Load the model, warmed up."""
        with lamina.LLM(self.path, threads=threads, cache_tokens=ROOM) as llm:
            write(llm.session, [prompt(llm)], 1)
            yield llm


def prompt(llm: lamina.LLM, tokens: int = PROMPT, skipped: int = 0) -> list[int]:
    """Return so many ids of a long text, from some token on."""
    ids = llm.tokenizer.encode(TEXT * (8 + (skipped + tokens) // PROMPT))
    return ids[skipped : skipped + tokens]


def write(session: Session, prompts: Sequence[Sequence[int]], steps: int) -> list[float]:
    """Return the seconds to the first token and of the `steps` after it, whatever they are."""
    params = SamplingParams(max_new_tokens=steps + 1)
    requests = [Request(ids, params) for ids in prompts]
    limits = Limits(None, session.capacity)
    vocabulary = Vocabulary(session.vocabulary, frozenset())
    generation = Generation(session, vocabulary, limits, requests, perf_counter())
    for _ in generation.pieces():
        pass
    timings = [done.timings for done in generation.completions({})]
    # The last sequence to begin has all the others beside it.
    return [max(each["prefill_s"] for each in timings), min(each["decode_s"] for each in timings)]


def decoding(llm: lamina.LLM, context: int = PROMPT, sequences: int = 1) -> Once:
    """Return what decodes `STEPS` tokens of each sequence behind `context` others."""
    prompts = [prompt(llm, context, 3 * number) for number in range(sequences)]
    return lambda: write(llm.session, prompts, STEPS)[1:]


def prefilling(llm: lamina.LLM) -> Once:
    """Return what reads a prompt up to the first new token."""
    return lambda: write(llm.session, [prompt(llm, PREFILL)], 0)[:1]


def long_context(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield how much faster than llama.cpp decoding is behind many tokens."""
    for threads in setting.threads:
        with (
            setting.model(threads) as llm,
            llama_cpp(setting.python, setting.path, threads, ROOM) as other,
        ):
            sides = {OURS: decoding(llm, LONG)}
            if other is not None:
                sides[PEER] = _behind(other, prompt(llm, LONG))
            rates = setting.rates(sides, STEPS)
        ratio = rates[OURS] / rates[PEER] if PEER in rates else None
        yield Figure(name, threads, ratio, 2.5, rates)


def _behind(other: Peer, ids: Sequence[int]) -> Once:
    other.run(ids, 0)
    return lambda: other.run(ids, STEPS, again=True)[1:]


def together(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield how many times the rate of one sequence several have."""
    several = f"{SEQUENCES} sequences"
    for threads in setting.threads:
        with setting.model(threads) as llm:
            sides = {"one": decoding(llm), several: decoding(llm, sequences=SEQUENCES)}
            rates = setting.rates(sides, STEPS)
        rates[several] *= SEQUENCES
        yield Figure(name, threads, rates[several] / rates["one"], 4.0, rates)


def busy(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield the part of the rate that is kept beside a busy process: ours, and llama.cpp's."""
    with setting.model(2) as llm, llama_cpp(setting.python, setting.path, 2, ROOM) as other:
        alone: dict[str, Once] = {OURS: decoding(llm)}
        if other is not None:
            ids = prompt(llm)
            alone[PEER] = lambda: other.run(ids, STEPS)[1:]
        sides = {f"{who}{how}": _beside(once, how) for who, once in alone.items() for how in HOW}
        rates = setting.rates(sides, STEPS)
    for who in alone:
        own = {side: rate for side, rate in rates.items() if side.startswith(who)}
        kept = rates[f"{who} beside it"] / rates[who]
        bar = 0.4 if who == OURS else None
        yield Figure(f"{name}, {who}", 2, kept, bar, own, share=True)


HOW = ("", " beside it")


def _beside(once: Once, how: str) -> Once:
    def run() -> Sequence[float]:
        with company(cpus()[-1]):
            return once()

    return run if how else once


def two_threads(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield how much faster two threads are than one."""
    with setting.model(1) as one, setting.model(2) as two:
        for what, make, tokens, bar in (
            ("prefill", prefilling, PREFILL, 1.85),
            ("decode", decoding, STEPS, 1.6),
        ):
            rates = setting.rates({"one": make(one), "two": make(two)}, tokens)
            yield Figure(f"{name}, {what}", 2, rates["two"] / rates["one"], bar, rates)


def too_many(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield how much longer decoding takes with more threads than CPUs."""
    right = len(cpus())
    with ExitStack() as stack:
        counts = (right, 2 * right, 4 * right)
        models = {count: stack.enter_context(setting.model(count)) for count in counts}
        sides = {f"{count} threads": decoding(llm) for count, llm in models.items()}
        rates = setting.rates(sides, STEPS)
    best = f"{right} threads"
    for count in counts[1:]:
        side = f"{count} threads"
        own = {best: rates[best], side: rates[side]}
        yield Figure(name, count, rates[best] / rates[side], 1.2, own, most=True)


def one_cpu(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield how much longer a process with one CPU takes to decode when asked for two threads."""
    sides = {f"{threads} threads": _alone(setting.path, threads) for threads in (1, 2)}
    rates = setting.rates(sides, 1)
    yield Figure(name, 2, rates["1 threads"] / rates["2 threads"], 1.2, rates, most=True)


def _alone(path: Path, threads: int) -> Once:
    command = [sys.executable, "-m", "lamina", "generate", str(path), "--json", "-p", TEXT]
    command += ["-n", str(STEPS), "--temperature", "0", "--threads", str(threads)]

    def run() -> list[float]:
        with restricted({cpus()[0]}):
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        timings = json.loads(done.stdout)["completions"][0]["timings"]
        return [timings["decode_s"] / (timings["new_tokens"] - 1)]

    return run


def idle(setting: Setting, name: str) -> Iterator[Figure]:
    """Yield the part of a CPU that a process takes that has nothing to do."""
    with setting.model(2) as llm:
        shares: list[float] = []
        for _ in range(setting.rounds):
            write(llm.session, [prompt(llm)], STEPS)
            sleep(1.0)
            began, before = perf_counter(), process_time()
            sleep(2.0)
            shares.append((process_time() - before) / (perf_counter() - began))
    yield Figure(name, 2, max(shares), 0.01, {}, most=True, share=True)


Measure = Callable[[Setting, str], Iterator[Figure]]

MEASURES: dict[str, Measure] = {
    f"decode behind {LONG} tokens": long_context,
    f"{SEQUENCES} sequences together": together,
    "busy CPU, decode": busy,
    "two threads over one": two_threads,
    "more threads than CPUs": too_many,
    "two threads on one CPU": one_cpu,
    "idle": idle,
}
"""What is measured, by name."""


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("model", nargs="?", default="smollm2", help="a GGUF file, or its name")
    made.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    made.add_argument("--rounds", type=positive, default=5)
    made.add_argument("--only", nargs="+", default=("*",), metavar="PATTERN", help="as 'busy*'")
    made.add_argument("--peer-python", metavar="PATH", help="an interpreter with llama.cpp")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return made


def main() -> None:
    """Measure and print, and write the JSON file if one is asked for."""
    options = parser().parse_args()
    if not hasattr(os, "sched_setaffinity") or len(cpus()) < 2:
        raise SystemExit("this needs a system with affinity masks, and two CPUs")
    print(f"on {describe()}, median of {options.rounds} rounds")
    path = resolve_model(options.model)
    setting = Setting(path, options.peer_python, options.rounds, options.threads)
    figures: list[Figure] = []
    print(HEAD)
    for name, measure in MEASURES.items():
        if any(fnmatchcase(name, pattern) for pattern in options.only):
            for figure in measure(setting, name):
                print(figure, flush=True)
                figures.append(figure)
    if options.json:
        document = {"machine": describe(), "rows": [figure.as_dict() for figure in figures]}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
