"""Decoding and prefilling speed of a fetched model, beside the limits of the machine.

    python bench/generation.py [--peer-python PATH] [--threads 1 2] [--only '*decode']
                               [--target 'cpu{features=avx2}']

Decoding is 128 tokens one at a time after a prompt of 8, choosing them included, and reads the
whole file for a token. Prefilling is one prompt of 512 tokens up to the first new one; its limit
is that of 8-bit multiply-adds with every weight but those of the embedding. The model is smollm2;
llama.cpp does the same if the interpreter of the peers has it, with all the instructions that it
was built for: a level that the target names is ours alone. `lamina bench FILE --vs llama.cpp`
takes any GGUF file.
"""

import math
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import command
from command import Setting
from figures import Row
from turns import Once

import lamina
from lamina.compiler import read
from lamina.errors import InputError
from lamina.frontend.fetch import resolve_model
from lamina.measure.peers.peer import Peer, running
from lamina.measure.peers.process import has_module

MODEL, PEER = "smollm2", "llama.cpp"
PROMPT, STEPS, PREFILL = 8, 128, 512
CONTEXT = 1024
TEXT = "The lighthouse stood where the road of stones ended, and somebody climbed it every night. "


def decode(llm: lamina.LLM, prompt: Sequence[int], steps: int) -> list[float]:
    """Return the seconds of each of the tokens after the first."""
    done = llm.generate([prompt], max_new_tokens=steps + 1)[0]
    if done.timings["new_tokens"] != steps + 1:
        raise SystemExit("the text ended early: choose another prompt")
    return [done.timings["decode_s"] / steps] * steps


def prefill(llm: lamina.LLM, prompt: Sequence[int]) -> list[float]:
    """Return the seconds to the first token."""
    return [llm.generate([prompt], max_new_tokens=1)[0].timings["prefill_s"]]


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the rows that are asked for; none, with a warning, if the model was not fetched."""
    names = {"decode": f"{MODEL} decode", "prefill": f"{MODEL} prefill {PREFILL}"}
    if not any(map(setting.wants, names.values())):
        return
    try:
        path = resolve_model(MODEL)
    except InputError as error:
        warnings.warn(str(error), stacklevel=2)
        return
    model = read(path, defer=True)
    shapes = [each.shape for name, each in model.weights.items() if "embd" not in name]
    multiplied = sum(math.prod(shape) for shape in shapes if len(shape) == 2)
    with (
        lamina.LLM(model, setting.target, threads=setting.threads, cache_tokens=CONTEXT) as llm,
        llama_cpp(setting.python, path, setting.threads, CONTEXT) as other,
    ):
        ids = llm.tokenizer.encode(TEXT * 64)[:PREFILL]
        few = ids[:PROMPT]
        if setting.wants(names["decode"]):
            peers = {PEER: _decoding(other, few)} if other else {}
            times = setting.times(lambda: decode(llm, few, STEPS), (), peers)
            least = path.stat().st_size / setting.limits.read
            yield _row(setting, names["decode"], times, 1.0, least)
        if setting.wants(names["prefill"]):
            peers = {PEER: _prefilling(other, ids)} if other else {}
            times = setting.times(lambda: prefill(llm, ids), (), peers)
            peak = setting.limits.integer_ops
            least = 2.0 * multiplied * PREFILL / peak if peak else None
            yield _row(setting, names["prefill"], times, float(PREFILL), least)


@contextmanager
def llama_cpp(python: str | None, path: Path, threads: int, context: int) -> Generator[Peer | None]:
    """Run llama.cpp, if the interpreter of the peers has it; else there is None."""
    if python is None or not has_module("llama_cpp", python):
        yield None
        return
    with running(PEER, path, threads, context, python) as other:
        print(f"{PEER}: {other.build}")
        yield other


def _decoding(other: Peer, ids: Sequence[int]) -> Once:
    return lambda: [other.run(ids, STEPS)[1] / STEPS] * STEPS


def _prefilling(other: Peer, ids: Sequence[int]) -> Once:
    return lambda: [other.run(ids, 0)[0]]


def _row(
    setting: Setting,
    name: str,
    times: dict[str, list[float]],
    tokens: float,
    least: float | None,
) -> Row:
    seconds = {side: parts[0] for side, parts in times.items()}
    return Row(name, setting.threads, seconds, tokens, "tokens/s", least)


SCRIPT = command.Script(None, measure, lambda row: row.name)

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
