"""Run a `tile.kernel` for every point of its grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from lamina.dialects.dims import parse_dim
from lamina.dialects.tensors import DYNAMIC
from lamina.dialects.tile import WORKERS, AnyKernelOp, KernelOp
from lamina.errors import InputError
from lamina.targets.reference import arith, math, scf, tile
from lamina.targets.reference.dtypes import Array, dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning, Program, quiet

MEANINGS: dict[type[Operation], Meaning] = {
    **arith.MEANINGS,
    **math.MEANINGS,
    **scf.MEANINGS,
    **tile.MEANINGS,
}
"""What every operation of a kernel means."""


def run_kernel(
    kernel: KernelOp,
    memrefs: Sequence[Array],
    symbols: Mapping[str, int],
    workers: int = 2,
    *,
    seed: int | None = None,
    meanings: Mapping[type[Operation], Meaning] = MEANINGS,
) -> None:
    """Run every program of the grid, in ascending order, or in one that `seed` shuffles.

    `memrefs` are changed in place; views with strides stand for strided memrefs. InputError if
    an argument does not fit its type, a symbol is missing, or a `tile.check` fails.
    """
    values = {**symbols, WORKERS: workers}
    run = Interpreter(Program(meanings))
    run_programs(run, kernel, memrefs, values, programs_of(kernel, values, seed))
    run.finish()


def run_programs(
    run: Interpreter,
    kernel: KernelOp,
    memrefs: Sequence[Array],
    values: Mapping[str, int],
    programs: Iterable[tuple[int, ...]],
) -> None:
    """Run some programs of a kernel in the given order; a failed check is left in `run.failed`."""
    arguments = [*arrays_of(kernel, memrefs), *indices_of(kernel, values)]
    with quiet():
        for program in programs:
            run.place = tuple(int(i) for i in program)
            run.run_block(kernel.body.block, arguments)


def programs_of(
    kernel: AnyKernelOp, values: Mapping[str, int], seed: int | None = None
) -> list[tuple[int, ...]]:
    """Return the points of a kernel's grid, in ascending order, or in one that `seed` shuffles."""
    programs = list(np.ndindex(*grid_of(kernel, values)))
    if seed is not None:
        np.random.default_rng(seed).shuffle(programs)
    return programs


def grid_of(kernel: AnyKernelOp, values: Mapping[str, int]) -> tuple[int, ...]:
    """Return the number of programs in each dimension; InputError names a missing symbol."""
    try:
        return tuple(max(0, parse_dim(extent.data).evaluate(values)) for extent in kernel.grid)
    except KeyError as error:
        raise InputError(f"kernel {_name(kernel)}: the symbol {error} has no value") from error


def arrays_of(kernel: AnyKernelOp, memrefs: Sequence[Array]) -> list[Array]:
    """Return views of the memrefs, to be written where the kernel may; InputError if one is odd."""
    if len(memrefs) != len(kernel.memrefs):
        raise InputError(
            f"kernel {_name(kernel)} takes {len(kernel.memrefs)} memrefs, got {len(memrefs)}"
        )
    arguments: list[Array] = []
    for n, (argument, array) in enumerate(zip(kernel.memrefs, memrefs, strict=True)):
        kind = cast("MemRefType[Any]", argument.type)
        expected = kind.get_shape()
        fits = len(expected) == array.ndim and all(
            e in (DYNAMIC, size) for e, size in zip(expected, array.shape, strict=True)
        )
        if not fits or _signless(array.dtype) != dtype_of(kind):
            raise InputError(
                f"argument {n} of kernel {_name(kernel)} is {kind}, "
                f"got {array.dtype} of shape {array.shape}"
            )
        view = array.view(_signless(array.dtype))
        view.flags.writeable = array.flags.writeable and kernel.access.data[n].data != "read"
        arguments.append(view)
    return arguments


def _signless(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype by which kernels hold elements."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else dtype


def indices_of(kernel: AnyKernelOp, values: Mapping[str, int]) -> list[Any]:
    """Return the values of a kernel's indices; InputError if one is missing."""
    missing = [symbol.data for symbol in kernel.symbols if symbol.data not in values]
    if missing:
        raise InputError(f"kernel {_name(kernel)}: the symbols {missing} have no value")
    return [np.int64(values[symbol.data]) for symbol in kernel.symbols]


def _name(kernel: AnyKernelOp) -> str:
    return f"@{kernel.sym_name.data}"
