"""`lamina run`: compute a model's outputs once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import (
    DebugOption,
    DumpOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
    read_size,
)
from lamina.cli.output import emit_json, emit_table, working
from lamina.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lamina.targets.base import Binding

    Array = npt.NDArray[Any]


def run(
    *,
    model: ModelArgument,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE.npy",
            show_default=False,
            help="An input from a NumPy file; repeatable.",
        ),
    ] = None,
    random: Annotated[
        bool,
        typer.Option(
            "--random", help="Make up the other inputs: normal floats, integers that are 0 or 1."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed of --random.")] = 0,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            show_default="8 each",
            help="The value of a symbolic extent for --random; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help="Write each output as a .npy file."),
    ] = None,
    target: TargetOption = "cpu",
    threads: ThreadsOption = None,
    dump_ir: DumpOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run any model once, and print its outputs' shapes, statistics and the time.

    Examples:

      lamina run folder/ --input input_ids=ids.npy --input attention_mask=mask.npy

      lamina run stage.mlir --random --dim T=33 --output results/
    """
    import lamina
    from lamina.frontend.fetch import resolve_model

    arrays = dict(_read_array(text) for text in given or ())
    sizes = dict(read_size(text) for text in dim or ())
    path = resolve_model(model)
    with working(f"Preparing {path.name} for {target}"):
        exe = lamina.compile(lamina.read(path), target=target, threads=threads, dump=dump_ir)
    wanted = (*exe.inputs, *exe.signature.states) if random else exe.signature.states
    arrays |= _make_up([each for each in wanted if each.name not in arrays], sizes, seed)
    start = perf_counter()
    outputs = exe(**arrays)
    seconds = perf_counter() - start
    if output is not None:
        _write(output, outputs)
    rows = [{"name": name, **_statistics(array)} for name, array in outputs.items()]
    if json:
        emit_json({"model": str(path), "seconds": seconds, "outputs": rows})
        return
    emit_table(tuple(rows[0]) if rows else (), ([_short(v) for v in row.values()] for row in rows))
    print(f"{seconds * 1e3:.2f} ms")


def _read_array(text: str) -> tuple[str, "Array"]:
    import numpy as np

    name, separator, file = text.partition("=")
    if not separator:
        raise InputError(f"--input {text}: expected NAME=FILE.npy")
    try:
        with Path(file).open("rb") as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--input {name}: {file} is not a .npy file: {error}") from None
    return name, array


def _make_up(
    wanted: "Sequence[Binding]", sizes: Mapping[str, int], seed: int
) -> "dict[str, Array]":
    import numpy as np

    from lamina.targets.base import NUMPY

    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for each in wanted:
        free = {name: 8 for dim in each.dims for name in dim.symbols}
        shape = tuple(dim.evaluate(free | dict(sizes)) for dim in each.dims)
        made[each.name] = _random(rng, shape, np.dtype(NUMPY[each.dtype]))
    return made


def _random(rng: "np.random.Generator", shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "Array":
    values = rng.integers(0, 2, shape) if dtype.kind in "iub" else rng.standard_normal(shape)
    return values.astype(dtype)


def _write(folder: Path, outputs: "Mapping[str, Array]") -> None:
    from urllib.parse import quote

    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for name, array in outputs.items():
        # "." is not quoted, and a file must not leave the folder.
        np.save(folder / f"{quote(name, safe='').replace('..', '%2E%2E')}.npy", array)


def _statistics(array: "Array") -> dict[str, Any]:
    import numpy as np

    values = array.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
        "std": float(finite.std()) if finite.size else None,
        "not_finite": int(values.size - finite.size),
    }


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
