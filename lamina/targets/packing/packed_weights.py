"""The packed image: what `@prepare` makes of the weights, made once and mapped from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina import knobs
from lamina.errors import FormatError, LoweringError
from lamina.progress import report
from lamina.targets.artifact_store import code_stamp, digest_of
from lamina.targets.file_lock import alone
from lamina.targets.memory import Array, aligned, allocate, element_dtype
from lamina.targets.packed import PackedWeights
from lamina.targets.packing.image_writer import ImageWriter
from lamina.targets.packing.packed_image import Layout, lay_out, read_image
from lamina.targets.plans.plan_tables import Stored

_FOLDER = "packed"


def packed_weights(
    specs: Sequence[Stored], prepare: bytes, weights: Mapping[str, Any]
) -> list[Array]:
    """Return the packed weights in the order of `specs`, 64-byte aligned.

    `prepare` is the text of a module that holds `@prepare`. An image that was kept on disk for
    the same files and the same text is mapped; otherwise the weights are packed one after another
    and their source pages released, so that no more than the image and one tensor is in memory.
    Weights that are packed already are taken as they are.
    """
    if not specs:
        return []
    layout = lay_out(specs)
    if isinstance(weights, PackedWeights):
        return _as_given(layout, weights)
    kept = _place_on_disk(layout, prepare, weights)
    if kept is None:
        arrays = layout.arrays(allocate(layout.size))
        _pack(arrays, layout, prepare, weights)
        return arrays
    if (image := read_image(*kept, layout)) is not None:
        return layout.arrays(image)
    with alone(kept[0].with_suffix(".lock")):
        if (image := read_image(*kept, layout)) is not None:
            return layout.arrays(image)
        arrays = layout.arrays(allocate(layout.size))
        with ImageWriter(*kept, layout, arrays) as writer:
            _pack(arrays, layout, prepare, weights, writer.made)
    return arrays


def _as_given(layout: Layout, weights: PackedWeights) -> list[Array]:
    for spec in layout.specs:
        array = weights.get(spec.name)
        expected = (spec.shape, element_dtype(spec.dtype))
        if array is None or (array.shape, array.dtype) != expected or not aligned(array):
            raise FormatError(f"the packed weight {spec.name!r} is not {spec.dtype} {spec.shape}")
    names = [spec.name for spec in layout.specs]
    if not knobs.huge_pages_enabled():
        return [weights[name] for name in names]
    places = layout.arrays(allocate(layout.size))
    for name, place in zip(names, places, strict=True):
        place[...] = weights[name]
        place.flags.writeable = False
        weights.release(name)
    return places


def _pack(
    arrays: Sequence[Array],
    layout: Layout,
    prepare: bytes,
    weights: Mapping[str, Any],
    made: Callable[[int], None] = lambda _: None,
) -> None:
    """Fill the arrays of a layout; `made` hears the number of each that is ready."""
    from lamina.targets.module_text import module_of
    from lamina.targets.reference.prepare import prepare as results

    numbers = {spec.name: number for number, spec in enumerate(layout.specs)}
    places = {name: arrays[number] for name, number in numbers.items()}
    module = module_of(prepare, "the artifact's @prepare")
    for name, array in results(module, weights, places):
        place = places.pop(name, None)
        if place is None:
            continue
        if (place.shape, place.dtype) != (array.shape, array.dtype):
            raise LoweringError(
                f"@prepare gives {name!r} as {array.dtype} {array.shape}, "
                f"@forward takes {place.dtype} {place.shape}"
            )
        if array is not place:
            place[...] = array
        made(numbers[name])
        report("packing weights", len(layout.specs) - len(places), len(layout.specs))
    if places:
        raise LoweringError(f"@prepare does not give {min(places)!r}, which @forward takes")


def _place_on_disk(
    layout: Layout, prepare: bytes, weights: Mapping[str, Any]
) -> tuple[Path, str] | None:
    """Return where the image is kept and its key; None if it is not to be kept.

    The file's name says what was packed and how; the key also says which state of it.
    """
    if (folder := knobs.kept_dir()) is None:
        return None
    sources = {id(source): source for w in weights.values() if (source := _source(w))}
    if not sources or any(_source(weight) is None for weight in weights.values()):
        return None
    files = sorted((str(s.path.absolute()), s.size, s.mtime_ns, s.inode) for s in sources.values())
    how = digest_of([prepare, layout.describe()])
    name = digest_of([how.encode(), *(path.encode() for path, *_ in files)])
    key = digest_of([how.encode(), repr(files).encode(), code_stamp()])
    return folder / _FOLDER / f"{name}.image", key


def _source(weight: Any) -> Any:
    return getattr(weight, "source", None)
