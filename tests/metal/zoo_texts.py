"""The kernel zoo in Metal's language, and the same programs without one of their barriers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from shim_kernel import Shimmed, shimmed
from xdsl.parser import Parser

from lamina.dialects.simt import KernelOp
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.metal.msl import KernelText, library_text
from lamina.targets.metal.pipeline import SUBGROUP, THREADS
from lamina.targets.metal.rules_simt import BARRIER
from lamina.testing.kernels import ZOO, context
from lamina.testing.msl import compile

CASES = {case.name: case for case in ZOO}


@cache
def lowered(name: str) -> KernelOp:
    """A program of the zoo as the work of threads."""
    module = Parser(context(), CASES[name].path.read_text()).parse_module()
    for each in (
        DecomposeMathPass(),
        ChooseLayoutsPass(THREADS),
        LowerTilesPass(THREADS, SUBGROUP),
    ):
        each.apply(context(), module)
    return module.body.block.first_op


@cache
def in_one(names: Sequence[str]) -> Shimmed:
    """These programs, in one library."""
    return shimmed([lowered(name) for name in names])


@cache
def mutants(names: Sequence[str]) -> Shimmed:
    """Each of these programs once for each of its barriers, without that one: `NAME without N`."""
    given = in_one(names)
    found = {
        f"{name} without {n}": _without(given.texts[name], n)
        for name in names
        for n in range(given.texts[name].text.count(BARRIER))
    }
    kernels = {name: given.kernels[name.split()[0]] for name in found}
    return replace(
        given, library=compile(library_text(found.values())), texts=found, kernels=kernels
    )


def _without(text: KernelText, number: int) -> KernelText:
    parts = text.text.split(BARRIER)
    body = BARRIER.join(parts[: number + 1]) + BARRIER.join(parts[number + 1 :])
    function = f"{text.function}_{number}"
    return replace(
        text, function=function, text=body.replace(f"{text.function}(", f"{function}(", 1)
    )
