"""The state of one kernel's printing: what each value of the program is called in WGSL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.ir import Operation

from lamina.targets.shading import printer
from lamina.targets.shading.printer import Language, NodeTable, Rule, count_of
from lamina.targets.webgpu.accesses import ACCESSES
from lamina.targets.webgpu.elements import Element, element
from lamina.targets.webgpu.places import Places

__all__ = ["WGSL", "Memory", "NodeTable", "Printer", "Rule", "count_of"]

WGSL: Final = Language(
    target="webgpu",
    constant="let {name} = {text};",
    variable="var {name}: {type} = {text};",
    choice="select({right}, {left}, {test})",
    counter="var",
    element=element,
)


@dataclass(frozen=True)
class Memory:
    """A memory in WGSL: the variable, its element, and how an element's number is spelt.

    `offset` is added to every number, `atomic` says that words are, `shared` that it is a block's
    own and holds elements as registers do, `aligned` that it begins with a word whatever the
    offset. `strides` and `extents` are texts.
    """

    name: str
    element: Element
    offset: str = ""
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    atomic: bool = False
    shared: bool = False
    aligned: bool = False


class Printer(printer.Printer):
    """Prints WGSL.

    `varied` are the functions whose text depends on the device, `accesses` those that reach the
    kernel's arguments, as kinds and memories; `workgroup_bytes` is what the threads of a block
    share, narrow elements taking a word each.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], nodes: NodeTable) -> None:
        """Begin with nothing; `rules` prints each operation."""
        super().__init__(WGSL, rules, nodes)
        self.varied: set[str] = set()
        self.accesses: set[tuple[str, str]] = set()
        self.places = Places()
        self.workgroup_bytes = 0

    def access(self, kind: str, memory: Memory, index: str, *arguments: str) -> str:
        """Return the call that reaches word `index` of an argument (see `ACCESSES`)."""
        kind = f"{kind}_atomic" if memory.atomic and f"{kind}_atomic" in ACCESSES else kind
        self.accesses.add((kind, memory.name))
        return f"{kind}_{memory.name}({', '.join((index, *arguments))})"

    def share(self, name: str, type: str, size: int) -> None:
        """Declare a variable of `size` bytes that the threads of a block share."""
        self.declarations.append(f"var<workgroup> {name}: {type};")
        self.workgroup_bytes += size
