"""`lamina run`: compute a model's outputs once."""

from collections.abc import Mapping
from itertools import groupby
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from lamina.cli.options import (
    DebugOption,
    DumpOption,
    FallbackOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
    check_sizes,
    read_path,
    read_size,
    said_of,
    with_fallback,
)
from lamina.cli.output import emit_json, emit_table, working
from lamina.cli.profile import ProfileOption, check_profile, profiled
from lamina.errors import InputError
from lamina.writing import writing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lamina.targets.base import Binding, Signature

    Array = npt.NDArray[Any]

_EXTENT: Final = 8
"""The value of a symbolic extent that nothing says."""

_DRAWN: Final = 8
"""Bytes of a number as it is drawn, before it takes its own dtype."""

_TEXTS: Final = 100
"""How many texts there are to draw from."""

_SHOWN: Final = 4
"""How many texts of an output are printed."""

_LONGEST: Final = 40
"""Characters of each that are."""

_WIDE: Final = 4
"""Bytes of a character in an array of texts."""


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
            "--random",
            help="Make up the other inputs: normal floats, integers that are 0 or 1, short texts; "
            "for a decoder a ragged batch of sequences.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed of --random.")] = 0,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            show_default=False,
            help="A symbolic extent for --random, 8 by default; for a decoder T tokens (8), "
            "S sequences (2) or R rows of logits (2); repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=read_path,
            show_default=False,
            help="Write each output as a .npy file; texts have NumPy's kind U.",
        ),
    ] = None,
    target: TargetOption = "auto",
    fallback: FallbackOption = "host",
    threads: ThreadsOption = None,
    dump_ir: DumpOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run any model once, and print its outputs' shapes, statistics and the time.

    What --random makes up depends on the seed alone: any two stages or targets can be compared.

    Examples:

      lamina run folder/ --input input_ids=ids.npy --input attention_mask=mask.npy

      lamina run smollm2 --random --dim T=33 --dim S=4

      lamina run stages/000-import.mlir --random --target reference --output results/
    """
    import lamina
    from lamina.frontend.fetch import resolve_model

    arrays = dict(_read_array(text) for text in given or ())
    sizes = dict(read_size(text) for text in dim or ())
    path, place = resolve_model(model), check_profile(profile)
    target = with_fallback(target, fallback)
    with working(f"Preparing {path.name}{said_of(target)}"):
        read = lamina.read(path, defer=True)
        exe = lamina.compile(read, target=target, threads=threads, dump=dump_ir)
    made = make_up(exe.signature, random, sizes, seed)
    arrays = {name: array for name, array in made.items() if name not in arrays} | arrays
    if missing := [each.name for each in exe.inputs if each.name not in arrays]:
        raise InputError(
            f"no value is given for {', '.join(missing)}: say --input {missing[0]}=FILE.npy, "
            "or --random to make values up"
        )
    with profiled(exe, place):
        start = perf_counter()
        outputs = exe(**arrays)
        seconds = perf_counter() - start
    if output is not None:
        _write(output, outputs)
    rows = [{"name": name, **_said(array)} for name, array in outputs.items()]
    if json:
        emit_json({"model": str(path), "seconds": seconds, "outputs": rows})
        return
    # Texts have other columns than numbers.
    for _, group in groupby(sorted(rows, key=tuple, reverse=True), tuple):
        same = list(group)
        emit_table(tuple(same[0]), ([_short(v) for v in row.values()] for row in same))
    print(f"{seconds * 1e3:.2f} ms")


def _read_array(text: str) -> tuple[str, "Array"]:
    import numpy as np

    name, separator, file = text.partition("=")
    if not separator or not file:
        raise InputError(f"--input {text}: expected NAME=FILE.npy")
    try:
        with Path(file).open("rb") as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--input {name}: {file} is not a .npy file: {error}") from None
    return name, array


def make_up(
    signature: "Signature", random: bool, sizes: Mapping[str, int], seed: int
) -> "dict[str, Array]":
    """Return the inputs that are asked for, and states: those that a caller cannot give."""
    import numpy as np

    from lamina.runtime.decoder import is_decoder
    from lamina.runtime.random_batch import random_batch
    from lamina.targets.memory_limit import check_memory

    rng = np.random.default_rng(seed)
    if random and is_decoder(signature):
        return random_batch(signature, sizes, rng)
    bindings = (*signature.inputs, *signature.states)
    check_sizes(sizes, {name for each in bindings for dim in each.dims for name in dim.symbols})
    wanted = bindings if random else signature.states
    shapes = {each.name: _shape(each, sizes) for each in wanted}
    for each in wanted:
        size = prod(shapes[each.name]) * max(_dtype(each).itemsize, _DRAWN)
        check_memory(f"input {each.name!r} of shape {shapes[each.name]}", size)
    return {
        each.name: _random_texts(rng, shapes[each.name])
        if each.text
        else _random(rng, shapes[each.name], _dtype(each))
        for each in wanted
    }


def _shape(binding: "Binding", sizes: Mapping[str, int]) -> tuple[int, ...]:
    free = {name: _EXTENT for dim in binding.dims for name in dim.symbols}
    return tuple(dim.evaluate(free | dict(sizes)) for dim in binding.dims)


def _dtype(binding: "Binding") -> "np.dtype[Any]":
    import numpy as np

    from lamina.targets.base import NUMPY

    return np.dtype(NUMPY[binding.dtype])


def _random(rng: "np.random.Generator", shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "Array":
    values = rng.integers(0, 2, shape) if dtype.kind in "iub" else rng.standard_normal(shape)
    return values.astype(dtype)


def _random_texts(rng: "np.random.Generator", shape: tuple[int, ...]) -> "Array":
    import numpy as np

    return np.strings.add("text ", rng.integers(0, _TEXTS, shape).astype(np.str_))


def _write(folder: Path, outputs: "Mapping[str, Array]") -> None:
    from urllib.parse import quote

    import numpy as np

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, array in outputs.items():
        # "." is not quoted, and a file must not leave the folder.
        path = folder / f"{quote(name, safe='').replace('..', '%2E%2E')}.npy"
        with writing(path):
            np.save(path, _plain(name, array), allow_pickle=False)


def _plain(name: str, array: "Array") -> "Array":
    """Return texts as elements of one width, and other arrays as they are."""
    import numpy as np

    from lamina.targets.memory_limit import check_memory

    if array.dtype != np.object_:
        return array
    longest = max(map(len, array.ravel().tolist()), default=1)
    check_memory(f"output {name!r} as texts of {longest} characters", array.size * longest * _WIDE)
    return array.astype(np.str_)


def _said(array: "Array") -> dict[str, Any]:
    if array.dtype != object:
        return _statistics(array)
    texts: list[str] = array.ravel().tolist()
    return {
        "dtype": "text",
        "shape": list(array.shape),
        "distinct": len(set(texts)),
        "longest": max(map(len, texts), default=0),
        # What was no UTF-8 in a file is none on a terminal.
        "first": [n.encode("utf-8", "backslashreplace").decode() for n in texts[:_SHOWN]],
    }


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
    if isinstance(value, list):
        cells = cast("list[object]", value)
        return f"[{', '.join(repr(n[:_LONGEST] if isinstance(n, str) else n) for n in cells)}]"
    return f"{value:.6g}" if isinstance(value, float) else value
