"""ONNX networks beside ONNX Runtime and OpenVINO in the same run.

    python bench/networks.py FILES... --peer-python PATH [--threads 1 2] [--json FILE]

Times are those of whole calls, with f32 arithmetic on every side, on seeded inputs of the first
shape that `onnx_inputs.py` gives a file, or on so many images as --batches says, for which a file
is written anew. OpenVINO gets that very shape; ours is compiled once for all shapes. Rows sum up to
the geometric mean of how many times faster than the better peer.
"""

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import command
import numpy as np
import onnx
from answers import flat
from command import Setting
from figures import Row, summary
from onnx_inputs import Array, Said, calls, graph_of, said_of
from positive import positive

import lamina

PEERS = ("onnxruntime", "openvino")
TABLE = Path(__file__).with_name("onnx_inputs.json")
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """What is measured of each file: calls at these numbers of images, None for its own."""

    table: Path
    batches: Sequence[int | None]


def measure(setting: Setting, files: Sequence[Path], sizes: Sizes) -> Iterator[Row]:
    """Yield a row for each file that is asked for, and each number of images."""
    for path in files:
        if not setting.wants(path.as_posix()):
            continue
        with tempfile.TemporaryDirectory() as folder:
            at = path.absolute()
            if sizes.batches != [None]:
                at = of_any_batch(path, Path(folder))
            yield from rows_of(setting, at, said_of(path.absolute(), sizes.table), sizes.batches)


def rows_of(
    setting: Setting, path: Path, said: Said, batches: Sequence[int | None]
) -> Iterator[Row]:
    """Yield the times of a file's calls, ours by one executable."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable: Any = lamina.compile(lamina.read(path), setting.target, threads=setting.threads)
    drawn = next(calls(graph_of(path), said))
    for batch in batches:
        given = {name: of_batch(array, batch) for name, array in drawn.items()}
        name = path.stem if batch is None else f"{path.stem} x{batch}"
        yield row_of(setting, path, executable, given, name)


def row_of(
    setting: Setting, path: Path, executable: Any, given: dict[str, Array], name: str
) -> Row:
    """Return the times of a call."""
    ours = flat(executable(**given).values())
    sides = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **given)
        for side in PEERS if setting.peer else ():
            job = {"model": str(path), "inputs": str(inputs)}
            theirs = setting.prepared(side, side, **job)
            if fault := fault_of(ours, theirs):
                print(f"{name}: {side} is left out, which {fault}")
                continue
            sides.append(side)

    def once() -> list[float]:
        began = perf_counter()
        executable(**given)
        return [perf_counter() - began]

    seconds = {side: parts[0] for side, parts in setting.times(once, sides).items()}
    return Row(name[-31:], setting.threads, seconds, 1.0, "calls/s", None)


def of_batch(array: Array, batch: int | None) -> Array:
    """Return an array with its first image so many times."""
    return array if batch is None else np.repeat(array[:1], batch, 0)


def of_any_batch(path: Path, folder: Path) -> Path:
    """Write a file anew with any number of images, and return where it is.

    First extents of inputs become free, and so do those that reshapes say are one.
    """
    model = onnx.load(path)
    graph = model.graph
    stored = {each.name: each for each in graph.initializer}
    for value in graph.input:
        if value.name not in stored:
            value.type.tensor_type.shape.dim[0].dim_param = "images"
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for name in (node.input[1] for node in graph.node if node.op_type == "Reshape"):
        shape = onnx.numpy_helper.to_array(stored[name]).copy() if name in stored else np.zeros(1)
        if shape[0] == 1:
            shape[0] = 0
            stored[name].CopyFrom(onnx.numpy_helper.from_array(shape, name))
    written = folder / path.name
    onnx.save(model, written)
    return written


def fault_of(ours: Array, theirs: Array) -> str:
    """Return what is wrong with what a peer answers: ONNX Runtime's answers are ours."""
    if ours.shape != theirs.shape:
        return f"gives {theirs.size} numbers for {ours.size}" if theirs.size else "cannot read it"
    worst = float(np.abs(ours - theirs).max()) / max(float(np.abs(ours).max()), 1e-30)
    return "" if worst <= TOLERANCE else f"differs by {worst:.1e} of the largest number"


def main() -> None:
    """Measure, and print rows and what they come to."""
    parser = command.parser(__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--batches", type=positive, nargs="+", metavar="N", help="numbers of images, of one file"
    )
    parser.add_argument("--inputs", type=Path, default=TABLE, metavar="FILE", help="a JSON table")
    options: argparse.Namespace = parser.parse_args()
    sizes = Sizes(options.inputs, options.batches or [None])
    script = command.Script(
        "networks_peer.py",
        partial(measure, files=options.files, sizes=sizes),
        lambda row: "networks",
    )
    print(command.head(options))
    rows = command.measured(script, options, {})
    print(*summary(rows, script.group), sep="\n")
    if options.json:
        command.write(options.json, {}, rows)


if __name__ == "__main__":
    main()
