"""Find which groups have one kernel, and of which arguments it is called for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from lamina.dialects import nn
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.general_extents import generalised
from lamina.passes.kernels.general_maps import general_map
from lamina.passes.kernels.general_numbers import general_numbers
from lamina.passes.kernels.general_products import general_product
from lamina.passes.kernels.general_windows import Step, general_windows
from lamina.passes.kernels.group_key import Key, kernel_key
from lamina.passes.kernels.kernel import group_symbols
from lamina.passes.kernels.named_axes import Values
from lamina.passes.kernels.shared_checks import WHICH, SharedChecks, name_nodes, nodes_of
from lamina.passes.rewriting import erase_unused

Shape = tuple[Dim, ...]

Rule = Callable[[nn.GroupOp], tuple[nn.GroupOp, Values] | None]
"""Returns a group of which another may be a case, and what its symbols are in this one."""

LADDERS: Final[dict[str, tuple[Rule, ...]]] = {
    "conv": tuple(map(general_windows, Step)),
    "linear": (general_product,),
    "rows": (general_map, general_numbers),
}
"""How groups of each anchor become more general, step by step."""


@dataclass(frozen=True)
class SharedGroup:
    """A group of which others may be cases, and what it is of in this one.

    `symbols` are what its symbols are; `shapes` those of its operands, None for a page pool, and
    then of its results, page pools left out.
    """

    group: nn.GroupOp
    key: Key
    symbols: list[str]
    shapes: list[Shape | None]


@dataclass(frozen=True)
class _Case:
    """A group as others may be, the extents of its new symbols, and what its kernel depends on."""

    group: nn.GroupOp
    values: Values
    key: Key

    @staticmethod
    def of(group: nn.GroupOp, values: Values) -> _Case:
        return _Case(group, values, kernel_key(group))


def shared_groups(groups: Mapping[str, nn.GroupOp]) -> dict[str, SharedGroup]:
    """Return what the kernel of each group is made of."""
    cases = _cases(groups)
    checks: dict[Key, SharedChecks] = {case.key: SharedChecks() for case in cases.values()}
    places = {name: checks[case.key].place(nodes_of(case.group)) for name, case in cases.items()}
    result: dict[str, SharedGroup] = {}
    for name, case in cases.items():
        turn, which = places[name]
        named = name_nodes(case.group, checks[case.key].rounds[turn])
        known = {**case.values, WHICH: Dim.of(which)}
        symbols = [str(known.get(s, s)) for s in group_symbols(named)]
        shapes = _shapes(case.group, case.values)
        result[name] = SharedGroup(named, (case.key, turn), symbols, shapes)
    return result


def _cases(groups: Mapping[str, nn.GroupOp]) -> dict[str, _Case]:
    """Return each group: of any extents where that makes two groups one, else as it is.

    Of those that others may be cases of, the least general is taken that makes them one. One whose
    rows are single elements is of any extents too, since those are longer rows.
    """
    used = {name: _used(group) for name, group in groups.items()}
    found = {name: _Case.of(*generalised(group)) for name, group in used.items()}
    for rules in zip_longest(*LADDERS.values()):
        rule_of = dict(zip(LADDERS, rules, strict=True))
        general = dict(_general(used, rule_of))
        merged: dict[Key, set[Key]] = {}
        for name, case in general.items():
            merged.setdefault(case.key, set()).add(found[name].key)
        thin = rule_of["rows"] is general_map
        for name, case in general.items():
            longer = thin and case.group.anchor.data == "rows" and _is_thin(found[name].group)
            if longer or len(merged[case.key]) > 1:
                found[name] = case
    return found


def _general(
    groups: Mapping[str, nn.GroupOp], rules: Mapping[str, Rule | None]
) -> Iterator[tuple[str, _Case]]:
    """Yield groups as their anchor's rule makes them, those that there is a rule for."""
    for name, group in groups.items():
        rule = rules.get(group.anchor.data)
        if rule is None or group.host is not None:
            continue
        if (case := rule(group)) is not None:
            yield name, _Case.of(*case)


def _is_thin(group: nn.GroupOp) -> bool:
    """Whether results have several dimensions, the last of one element."""
    end = cast("nn.YieldOp", group.body.block.last_op)
    shapes = [extents(y.type) for y in end.ys if y.type.name == "tensor"]
    return any(len(shape) > 1 and shape[-1] == 1 for shape in shapes)


def _used(group: nn.GroupOp) -> nn.GroupOp:
    """Return a group without the operations whose results nothing uses."""
    new = group.clone()
    erase_unused(new.body.block)
    return new


def _shapes(group: nn.GroupOp, values: Values) -> list[Shape | None]:
    end = cast("nn.YieldOp", group.body.block.last_op)
    results = [y.type for y in end.ys if not isinstance(y.type, PagesType)]
    kinds = [*(arg.type for arg in group.body.block.args), *results]
    return [_shape(kind, values) for kind in kinds]


def _shape(kind: Attribute, values: Values) -> Shape | None:
    if isinstance(kind, PagesType) or not isinstance(kind, TensorType):
        return None
    return tuple(dim.substitute(values) for dim in extents(cast("Attribute", kind)))
