"""Mark what a target cannot run, so that it runs on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups
from lamina.passes.own_outputs import own_outputs


@dataclass(frozen=True)
class ChoosePlacesPass(ModulePass):
    """Groups that compute on elements of `types`, which the target has not, run on the host.

    Their attribute `host` says why. No later pass merges them with groups that do not.
    """

    name = "choose-places"

    types: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function, groups = find_function(op, "forward"), Groups.of(op)
        if function is None:
            return
        # What only copies an output is not known to later passes by what it computes.
        own_outputs(groups, function, lambda type: _element(type) in self.types)
        for group in groups.by_name.values():
            lacking = [each for each in self.types if each in _elements(group)]
            if lacking:
                group.host = StringAttr(f"the target has no {' and no '.join(lacking)}")


def _elements(group: nn.GroupOp) -> set[str]:
    """Return the element types of all that a group takes and computes."""
    values = [arg.type for arg in group.body.block.args]
    values += [result.type for op in group.walk() for result in op.results]
    return {_element(each) for each in values}


def _element(type: Attribute) -> str:
    if isinstance(type, TensorType):
        return str(cast("TensorType[Any]", type).get_element_type())
    return str(type)
