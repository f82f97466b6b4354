"""ONNX networks beside ONNX Runtime and OpenVINO in the same run.

    python bench/networks.py FILES... --peer-python PATH [--threads 1 2] [--json FILE]

Times are those of whole calls, with f32 arithmetic on every side, on seeded inputs of the first
shape that `onnx_inputs.py` gives a file. OpenVINO gets that very shape; ours is compiled once for
all shapes. Rows sum up to the geometric mean of how many times faster than the better peer.
"""

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import command
import numpy as np
from command import Setting
from figures import Row, summary
from onnx_inputs import Array, calls, graph_of, said_of

import lamina

PEERS = ("onnxruntime", "openvino")
TABLE = Path(__file__).with_name("onnx_inputs.json")
TOLERANCE = 1e-3


def measure(setting: Setting, files: Sequence[Path], table: Path) -> Iterator[Row]:
    """Yield a row for each file that is asked for."""
    for path in files:
        if setting.wants(path.as_posix()):
            yield row_of(setting, path, table)


def row_of(setting: Setting, path: Path, table: Path) -> Row:
    """Return the times of a file's call."""
    given = next(calls(graph_of(path), said_of(path.absolute(), table)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable: Any = lamina.compile(lamina.read(path), setting.target, threads=setting.threads)
    ours = flat(executable(**given).values())
    sides = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **given)
        for side in PEERS if setting.peer else ():
            job = {"model": str(path.absolute()), "inputs": str(inputs)}
            theirs = setting.prepared(side, side, **job)
            if fault := fault_of(ours, theirs):
                print(f"{path.stem}: {side} is left out, which {fault}")
                continue
            sides.append(side)

    def once() -> list[float]:
        began = perf_counter()
        executable(**given)
        return [perf_counter() - began]

    seconds = {side: parts[0] for side, parts in setting.times(once, sides).items()}
    return Row(path.stem[-31:], setting.threads, seconds, 1.0, "calls/s", None)


def fault_of(ours: Array, theirs: Array) -> str:
    """Return what is wrong with what a peer answers: ONNX Runtime's answers are ours."""
    if ours.shape != theirs.shape:
        return f"gives {theirs.size} numbers for {ours.size}" if theirs.size else "cannot read it"
    worst = float(np.abs(ours - theirs).max()) / max(float(np.abs(ours).max()), 1e-30)
    return "" if worst <= TOLERANCE else f"differs by {worst:.1e} of the largest number"


def flat(outputs: Any) -> Array:
    """Return arrays one after another, f32."""
    return np.concatenate([np.asarray(x, np.float32).ravel() for x in outputs])


def main() -> None:
    """Measure, and print rows and what they come to."""
    parser = command.parser(__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inputs", type=Path, default=TABLE, metavar="FILE", help="a JSON table")
    options: argparse.Namespace = parser.parse_args()
    script = command.Script(
        "networks_peer.py",
        partial(measure, files=options.files, table=options.inputs),
        lambda row: "networks",
    )
    print(command.head(options))
    rows = command.measured(script, options, {})
    print(*summary(rows, script.group), sep="\n")
    if options.json:
        command.write(options.json, {}, rows)


if __name__ == "__main__":
    main()
