"""What a call costs beside its kernels: checks of arguments, binding, memory for outputs.

    python bench/calls.py [--calls 2000]

The model is one map of a few elements; times are medians of whole calls. Rows with a number of
bytes have outputs of that size, less what a session's call takes, whose outputs stay where they
are: that is what giving each call memory of its own costs.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from machine import describe
from positive import positive

import lamina

INPUTS = 3
WIDTH = 64


def text_of(inputs: int) -> str:
    """Return a module that makes the relu of each input [N, 64]."""
    kind = f'tensor<?x{WIDTH}xf32, #nn.dims<["N"]>>'
    takes = [f'%x{n}: {kind} {{lamina.input = "x{n}"}}' for n in range(inputs)]
    gives = [f'{kind} {{lamina.output = "y{n}"}}' for n in range(inputs)]
    body = [f"  %y{n} = nn.relu %x{n} : {kind}\n" for n in range(inputs)]
    found = ", ".join(f"%y{n}" for n in range(inputs))
    ends = f"  func.return {found} : {', '.join([kind] * inputs)}\n"
    head = f"func.func @forward({', '.join(takes)}) -> ({', '.join(gives)}) {{\n"
    return f"{head}{''.join(body)}{ends}}}\n"


def executable_of(inputs: int, threads: int) -> Any:
    """Return that module, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "relu.mlir"
        path.write_text(text_of(inputs))
        return lamina.compile(lamina.read(path), "cpu", threads=threads)


def seconds(call: Callable[[], object], calls: int) -> float:
    """Return the median of many calls."""
    found: list[float] = []
    for _ in range(calls):
        began = perf_counter()
        call()
        found.append(perf_counter() - began)
    return median(found[calls // 10 :])


def arrays(inputs: int, rows: int) -> dict[str, Any]:
    """Return a call's arguments."""
    return {f"x{n}": np.ones((rows, WIDTH), np.float32) for n in range(inputs)}


def small(inputs: int, threads: int, calls: int) -> None:
    """Print what calls with few elements take."""
    executable = executable_of(inputs, threads)
    few, more = arrays(inputs, 1), arrays(inputs, 2)
    took = seconds(lambda: executable(**few), calls)
    print(f"{inputs} inputs and outputs: {took * 1e6:.1f} us")
    took = seconds(lambda: (executable(**few), executable(**more)), calls) / 2
    print(f"{inputs} inputs and outputs, two shapes in turns: {took * 1e6:.1f} us")


def large(rows: int, threads: int, calls: int) -> None:
    """Print what the memory of a large output takes."""
    executable = executable_of(1, threads)
    given, session = arrays(1, rows), executable.session()
    lent = seconds(lambda: executable(**given), calls)
    kept = seconds(lambda: session.run(given), calls)
    print(f"an output of {rows * WIDTH * 4:,} bytes: {(lent - kept) * 1e6:.1f} us")


def main() -> None:
    """Measure, and print a line for each kind of call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=positive, default=2000)
    parser.add_argument("--threads", type=positive, default=1)
    options = parser.parse_args()
    print(f"on {describe()}, median of {options.calls} calls")
    for inputs in (1, INPUTS):
        small(inputs, options.threads, options.calls)
    for rows in (4_000, 40_000):
        large(rows, options.threads, options.calls // 4)


if __name__ == "__main__":
    main()
