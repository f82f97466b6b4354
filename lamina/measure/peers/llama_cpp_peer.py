"""llama.cpp as the other side of a measurement: a process that measures when it is asked.

It reads one JSON object a line and answers each with one: {"prompt": ids, "tokens": n, "again":
false} with the seconds of evaluating the prompt, and of n evaluations of one token after it,
without sampling; "again" goes on from the last prompt, which has to be the same.
It needs llama-cpp-python and nothing of Lamina, so it may run in an environment of its own.
"""

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any


def main() -> None:
    """Load the model, say hello with llama.cpp's build line, and answer until input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    options = parser.parse_args()
    # llama.cpp writes where it likes; answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import llama_cpp  # pyright: ignore[reportMissingImports]

    library: Any = llama_cpp
    model = library.Llama(
        options.model,
        n_ctx=options.context,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        n_batch=512,
        n_ubatch=512,
        verbose=False,
    )
    build = ctypes.string_at(library.llama_print_system_info()).decode()
    _say(answers, {"build": f"llama-cpp-python {library.__version__}: {build}"})
    for line in sys.stdin:
        asked = json.loads(line)
        _say(answers, {"seconds": _measure(model, **asked)})


def _measure(model: Any, prompt: Sequence[int], tokens: int, again: bool) -> list[float]:
    began = perf_counter()
    if again:
        model.n_tokens = len(prompt)
    else:
        model.reset()
        model.eval(prompt)
    read = perf_counter()
    for step in range(tokens):
        model.eval([prompt[step % len(prompt)]])
    return [read - began, perf_counter() - read]


def _say(answers: Any, value: dict[str, Any]) -> None:
    print(json.dumps(value), file=answers, flush=True)


if __name__ == "__main__":
    main()
