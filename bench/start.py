"""What the first token costs in a new process: wall time and the most memory.

    python bench/start.py [MODEL] [--rounds 3]

The command is `lamina generate MODEL -p Hello -n 1 --temperature 0`, the model's file being in
the system's cache. "cold" has an empty cache folder of ours, "warm" the one that cold left, and
"compiled" starts from what `lamina compile` wrote, with the weights in it.
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


def first_token(model: Path, target: str, cache: str) -> tuple[float, int]:
    """Return the seconds of a process that writes one token, and the most bytes it held."""
    command = [sys.executable, "-m", "lamina", "generate", str(model)]
    command += ["-p", "Hello", "-n", "1", "--temperature", "0", "--target", target]
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
    found: dict[str, list[tuple[float, int]]] = {"cold": [], "warm": []}
    compiled: list[tuple[float, int]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for runs in found.values():
                runs.append(first_token(model, options.target, f"{folder}/lamina"))
            compiled.append(
                first_token(
                    carried(model, options.target, folder), options.target, f"{folder}/lamina"
                )
            )
    print(f"{model.name}, {size / 1e6:.1f} MB, median of {options.rounds} rounds")
    print(f"on {describe()}")
    for name, runs in {**found, "compiled": compiled}.items():
        seconds, most = (median(column) for column in zip(*runs, strict=True))
        print(f"{name}: {seconds:.2f} s, {most / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
