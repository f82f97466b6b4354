"""What the first token costs in a new process: wall time and the most memory.

    python bench/start.py [MODEL] [--rounds 3]

The command is `lamina generate MODEL -p Hello -n 1 --temperature 0`, the model's file being in
the system's cache. "cold" has an empty cache folder of ours, "warm" the one that cold left, and
"compiled" starts from what `lamina compile` wrote, with the weights in it. The memory is also that
of a start that writes 128 tokens, beside what it may be: 1.3 times the file and 150 MB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from machine import describe
from positive import positive

from lamina.frontend.fetch import resolve_model

TOKENS = 128
Run = tuple[float, int, int]
"""Seconds of one token, the most bytes of it, and of `TOKENS`."""


def written(model: Path, target: str, cache: str, tokens: int = 1) -> tuple[float, int]:
    """Return the seconds of a process that writes some tokens, and the most bytes it held."""
    command = [sys.executable, "-m", "lamina", "generate", str(model)]
    command += ["-p", "Hello", "-n", str(tokens), "--temperature", "0", "--target", target]
    started = perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=os.environ | {"LAMINA_CACHE": cache}
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"lamina ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, usage.ru_maxrss * unit


def started(model: Path, target: str, folder: str) -> dict[str, Run]:
    """Return what starts cost, by kind, in an empty folder."""
    found: dict[str, Run] = {}
    for kind in ("cold", "warm"):
        seconds, most = written(model, target, f"{folder}/one")
        found[kind] = seconds, most, written(model, target, f"{folder}/many", TOKENS)[1]
    model = carried(model, target, folder)
    seconds, most = written(model, target, f"{folder}/one")
    found["compiled"] = seconds, most, written(model, target, f"{folder}/one", TOKENS)[1]
    return found


def carried(model: Path, target: str, folder: str) -> Path:
    """Return the model compiled to a file."""
    path = Path(folder) / "model.lamina"
    command = [sys.executable, "-m", "lamina", "compile", str(model), "-o", str(path)]
    environ = os.environ | {"LAMINA_CACHE": f"{folder}/lamina"}
    subprocess.run(
        [*command, "--target", target], check=True, stdout=subprocess.DEVNULL, env=environ
    )
    return path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="smollm2", help="a model, or its name")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--rounds", type=positive, default=3)
    options = parser.parse_args()
    model = resolve_model(options.model)
    files = [model] if model.is_file() else [each for each in model.rglob("*") if each.is_file()]
    size = sum(len(each.read_bytes()) for each in files)
    found: dict[str, list[Run]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for kind, run in started(model, options.target, folder).items():
                found.setdefault(kind, []).append(run)
    print(f"{model.name}, {size / 1e6:.1f} MB, median of {options.rounds} rounds")
    print(f"on {describe()}")
    for name, runs in found.items():
        seconds, one, many = (median(column) for column in zip(*runs, strict=True))
        print(f"{name}: {seconds:.2f} s, {one / 1e6:.0f} MB; {TOKENS} tokens: {many / 1e6:.0f} MB")
    print(f"to hold at most: {1.3 * size / 1e6 + 150:.0f} MB")


if __name__ == "__main__":
    main()
