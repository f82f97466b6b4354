"""ONNX files on the CPU beside ONNX Runtime: what they answer, how they compile, and how long.

    python bench/onnx_models.py FILES... --peer-python PATH [--inputs TABLE.json] [--json FILE]

Each file is called with seeded inputs, at two shapes where its extents are free, and with those of
--recorded, a folder of `NAME.npz` (`in:` and an input's name) beside `NAME.model` (the end of the
file's path). Every output is to be within 10 times the floor, which is how far ONNX Runtime's own
answers are apart with optimisations off and on, or within 1e-4 of its largest number if that is
more; integers are to be equal. Files that round activations to integers are to be within 1e-2 of
the largest number, and to agree on 99.5 % of the largest elements of rows: with its answer on the
same number of threads, or with that on many.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from onnx_inputs import Array, calls, graph_of, said_of
from onnx_verdict import Verdict, judge, quantises
from positive import positive

import lamina

PEER = Path(__file__).with_name("onnx_runtime.py")
TABLE = Path(__file__).with_name("onnx_inputs.json")
MOST_CALLS = 1000


@dataclass(frozen=True)
class Row:
    """One call of a file; times in seconds, None where it did not come to them."""

    file: str
    call: str
    shapes: dict[str, list[int]]
    verdict: Verdict | None
    refusal: str = ""
    kernels: int | None = None
    by_meaning: tuple[str, ...] = ()
    compile_s: float | None = None
    call_s: float | None = None
    peer_s: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether all outputs are what ONNX Runtime gives."""
        return self.verdict is not None and not self.verdict.fault

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.file[-40:]:41}{self.call:24}{self.refusal}"
        said = self.verdict
        line = f"{self.file[-40:]:41}{self.call:24}{'right' if self.is_right else 'WRONG':7}"
        line += f"{said.error:10.1e}{said.floor:10.1e}{said.allowed:10.1e}"
        line += f"{self.kernels or 0:8}{len(self.by_meaning):8}{self.compile_s or 0:10.1f}"
        line += f"{1e3 * (self.call_s or 0):11.2f}{1e3 * (self.peer_s or 0):11.2f}"
        return line + (f"  {said.fault}" if said.fault else "")


HEAD = (
    f"{'file':41}{'call':24}{'':7}{'error':>10}{'floor':>10}{'allowed':>10}"
    f"{'kernels':>8}{'meaning':>8}{'compile s':>10}{'lamina ms':>11}{'peer ms':>11}"
)


def recorded(path: Path, folder: Path | None) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the recorded inputs of a file, by name."""
    for said in sorted(folder.glob("*.model")) if folder else ():
        if path.as_posix().endswith(said.read_text(encoding="utf-8").strip()):
            with np.load(said.with_suffix(".npz")) as arrays:
                given = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in:")}
            yield said.stem, given


def rows_of(path: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each call of a file, as soon as it is made."""
    graph, where = graph_of(path), path.absolute()
    drawn = enumerate(calls(graph, said_of(where, options.inputs)))
    given = {f"drawn{n}": arrays for n, arrays in drawn} | dict(recorded(where, options.recorded))
    compiled = lru_cache(maxsize=1)(lambda: compile_file(path, options.threads))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, arrays in given.items():
            np.savez(folder / f"{name}.npz", **arrays)
        for name, took in asked(path, folder, options).items():
            shapes = {key: list(array.shape) for key, array in given[name].items()}
            row = Row(where.as_posix(), name, shapes, None, peer_s=took)
            if took is None:
                said = (folder / f"{name}.txt").read_text(encoding="utf-8")
                yield replace(row, refusal=f"the peer refuses it: {said[:200]}")
                continue
            try:
                executable, facts = compiled()
                found, seconds = run(executable, given[name], options.seconds)
            except lamina.LaminaError as error:
                yield replace(row, refusal=f"{type(error).__name__}: {str(error)[:300]}")
                continue
            peers = [outputs(folder / f"{name}.{kind}.npz") for kind in ("off", "on", "rows")]
            verdict = judge(found, peers, quantised=quantises(graph))
            yield replace(row, **facts, verdict=verdict, call_s=seconds)


def asked(path: Path, folder: Path, options: argparse.Namespace) -> dict[str, float | None]:
    """Have the peer answer every call of a folder, and return its seconds."""
    command = [options.peer_python, str(PEER), str(path), str(folder)]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def outputs(path: Path) -> list[Array]:
    """Return the outputs of a call in order."""
    with np.load(path) as arrays:
        return [arrays[f"arr_{n}"] for n in range(len(arrays.files))]


def compile_file(path: Path, threads: int) -> tuple[Any, dict[str, Any]]:
    """Return the executable of a file, and what there is to say of it."""
    began = perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        executable: Any = lamina.compile(lamina.read(path), "cpu", threads=threads)
    facts = {
        "kernels": len(executable.plan.kernels),
        "by_meaning": tuple(str(each.message) for each in said[: len(executable.hosts)]),
        "compile_s": perf_counter() - began,
    }
    return executable, facts


def run(executable: Any, arrays: dict[str, Array], least: float) -> tuple[list[Array], float]:
    """Return the outputs of a call, and the seconds of the best of several."""
    found = list(executable(**arrays).values())
    times = list[float]()
    while not times or (sum(times) < least and len(times) < MOST_CALLS):
        began = perf_counter()
        executable(**arrays)
        times.append(perf_counter() - began)
    return found, min(times)


def main() -> None:
    """Print a row for each call, and end with 1 if one is not right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--peer-python", required=True, metavar="PATH")
    parser.add_argument("--inputs", type=Path, default=TABLE, metavar="FILE", help="a JSON table")
    parser.add_argument("--recorded", type=Path, metavar="FOLDER", help="inputs of other calls")
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="least time of a measurement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args()
    # Compilation is measured, and what most files become is not used again.
    os.environ["LAMINA_DISK_CACHE"] = "off"
    print(HEAD)
    rows = list[Row]()
    for path in options.files:
        for row in rows_of(path, options):
            print(row, flush=True)
            rows.append(row)
    print(f"{sum(row.is_right for row in rows)} of {len(rows)} calls right")
    if options.json:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if all(row.is_right for row in rows) else 1)


if __name__ == "__main__":
    main()
