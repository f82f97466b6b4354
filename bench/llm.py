"""Decoding and prefilling speed of a GGUF file, beside llama.cpp in the same run.

    python bench/llm.py model.gguf --threads 2 [--peer-python PATH]

Both sides take turns, decoding and prefilling, for five rounds; the medians count. Decoding is
128 tokens one at a time after a prompt of 8: ours through `generate`, choosing the tokens
included, theirs by `eval`, without sampling. Prefilling is one prompt of 512 tokens: ours from
the call of `generate` to its first token, theirs one `eval`. Both get the same token ids.
llama.cpp needs llama-cpp-python, here or in the environment of the interpreter `--peer-python`;
without it only our side is measured.
"""

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Protocol

from machine import describe

import lamina
from lamina.frontend.fetch import resolve_model
from lamina.measure.peers.peer import Peer, running

PEER = "llama.cpp"
PROMPT, STEPS, PREFILL = 8, 128, 512
CONTEXT = 1024
TEXT = """\
The old lighthouse stood at the end of a long road of stones, and each evening its keeper climbed
two hundred steps to light the lamp. Ships far out at sea turned by that light, and none of their
crews ever learned his name. In winter the waves reached the door; in summer children came with
bread and asked him how far one could see. As far as you can wait, he used to say.
"""


class Side(Protocol):
    """Somebody who can be timed; both give seconds."""

    def decode(self, prompt: Sequence[int]) -> float:
        """Return what a token takes, one after the other behind `prompt`."""
        ...

    def prefill(self, prompt: Sequence[int]) -> float:
        """Return what all of `prompt` takes."""
        ...


class Ours:
    """Lamina in this process."""

    def __init__(self, llm: lamina.LLM) -> None:
        self._llm = llm

    def decode(self, prompt: Sequence[int]) -> float:
        """Return the seconds a token."""
        done = self._llm.generate([prompt], max_new_tokens=STEPS + 1)[0]
        if done.timings["new_tokens"] != STEPS + 1:
            raise SystemExit("the text ended early: choose another prompt")
        return done.timings["decode_s"] / STEPS

    def prefill(self, prompt: Sequence[int]) -> float:
        """Return the seconds to the first token."""
        return self._llm.generate([prompt], max_new_tokens=1)[0].timings["prefill_s"]


class Theirs:
    """llama.cpp in a process of its own."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def decode(self, prompt: Sequence[int]) -> float:
        """Return the seconds a token."""
        return self._peer.run(prompt, STEPS)[1] / STEPS

    def prefill(self, prompt: Sequence[int]) -> float:
        """Return the seconds of the whole prompt."""
        return self._peer.run(prompt, 0)[0]


def rounds(sides: dict[str, Side], ids: Sequence[int], count: int) -> dict[tuple[str, str], float]:
    """Return the median seconds of `count` rounds, by what was done and by whom.

    One more round comes first and does not count: it brings weights into memory.
    """
    taken: dict[tuple[str, str], list[float]] = {}
    for number in range(count + 1):
        for name, side in sides.items():
            for what, seconds in (
                ("decode", side.decode(ids[:PROMPT])),
                ("prefill", side.prefill(ids[:PREFILL])),
            ):
                if number:
                    taken.setdefault((what, name), []).append(seconds)
        print(f"round {number} of {count}", file=sys.stderr)
    return {key: median(values) for key, values in taken.items()}


def report(seconds: dict[tuple[str, str], float]) -> Iterator[str]:
    """Yield a line for each measure: tokens a second of each side, and how many times faster."""
    for what, tokens in (("decode", 1), ("prefill", PREFILL)):
        speeds = {who: tokens / took for (did, who), took in seconds.items() if did == what}
        line = ", ".join(f"{who} {speed:.1f} tokens/s" for who, speed in speeds.items())
        times = f", {speeds['lamina'] / speeds[PEER]:.2f} x" if len(speeds) == 2 else ""
        yield f"{what}: {line}{times}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="smollm2", help="a GGUF file, or its name")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--peer-python", metavar="PATH", help="an interpreter with llama_cpp")
    options = parser.parse_args()
    path = resolve_model(options.model)
    llm = lamina.LLM(path, options.target, threads=options.threads, cache_tokens=CONTEXT)
    ids = llm.tokenizer.encode(TEXT * 8)[:PREFILL]
    print(f"{path.name}, {options.threads} threads, median of {options.rounds} rounds")
    print(f"on {describe()}")
    sides: dict[str, Side] = {"lamina": Ours(llm)}
    with ExitStack() as stack:
        if options.peer_python is None and importlib.util.find_spec("llama_cpp") is None:
            print("llama.cpp: not installed (pip install 'lamina[bench]', or --peer-python)")
        else:
            other = running(PEER, path, options.threads, CONTEXT, options.peer_python)
            peer = stack.enter_context(other)
            sides[PEER] = Theirs(peer)
            print(peer.build)
        for line in report(rounds(sides, ids, options.rounds)):
            print(line)


if __name__ == "__main__":
    main()
