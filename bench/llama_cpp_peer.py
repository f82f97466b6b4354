"""llama.cpp as the other side of `bench/llm.py`: a process that measures when it is asked.

It reads one JSON object a line and answers each with one: {"decode": ids, "steps": n} with the
seconds of n evaluations of one token after the prompt, {"prefill": ids} with those of the prompt.
It needs llama-cpp-python and nothing of Lamina, so it may run in an environment of its own.
"""

import argparse
import ctypes
import json
import os
import sys
from time import perf_counter
from typing import Any


def main() -> None:
    """Load the model, say hello with llama.cpp's build line, and answer until input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    # llama.cpp writes where it likes; answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import llama_cpp

    model = llama_cpp.Llama(
        options.model,
        n_ctx=1024,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        n_batch=512,
        n_ubatch=512,
        verbose=False,
    )
    build = ctypes.string_at(llama_cpp.llama_print_system_info()).decode()
    _say(answers, {"version": llama_cpp.__version__, "build": build})
    for line in sys.stdin:
        _say(answers, {"seconds": _measure(model, json.loads(line))})


def _measure(model: Any, asked: dict[str, Any]) -> float:
    model.reset()
    if "prefill" in asked:
        started = perf_counter()
        model.eval(asked["prefill"])
        return perf_counter() - started
    prompt = asked["decode"]
    model.eval(prompt)
    started = perf_counter()
    for step in range(asked["steps"]):
        model.eval([prompt[step % len(prompt)]])
    return perf_counter() - started


def _say(answers: Any, value: dict[str, Any]) -> None:
    print(json.dumps(value), file=answers, flush=True)


if __name__ == "__main__":
    main()
