"""One choice of schedule for each group: given, else measured, else the cost model's."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, cast

from lamina.dialects import nn
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.tile import TUNED, ScheduleAttr
from lamina.errors import InputError
from lamina.passes.groups import body_ops
from lamina.passes.kernels.column_tiles import tile_counts
from lamina.passes.kernels.dot_kernel import is_byte_product, most_sums
from lamina.passes.kernels.linear_kernel import Product, is_linear, shape_of
from lamina.passes.kernels.register_tile import RegisterTile, TileDoesNotFit
from lamina.passes.kernels.windows import rows_of
from lamina.passes.schedules.cost_model import CostModel
from lamina.passes.schedules.database import NAMES, Database, Measured, Numbers
from lamina.passes.schedules.product_class import class_of, dot_of, linear_of

_GIVEN = re.compile(r"(?P<key>.+) -> (?P<numbers>[a-z]+=\d{1,9}( [a-z]+=\d{1,9})*)")


@dataclass(frozen=True)
class Choice:
    """What groups are built with; `given` and `measured` are numbers by class of group."""

    model: CostModel
    given: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    measured: Database = field(default_factory=dict[str, Measured])

    def schedule(
        self, group: nn.GroupOp, *, few: bool, rows: int | None = None
    ) -> ScheduleAttr | None:
        """Return the schedule of a group of few rows or any, None for one that takes none.

        `rows` are the most that there are, None for any number.

        A given one that does not fit raises `TileDoesNotFit`; a measured one is left aside, with
        a warning. Measured ones are marked.
        """
        key = class_of(group, few=few) if self.given or self.measured else None
        found = None if key is None else self._known(group, key)
        if found is not None:
            return found
        numbers = self.default(group, few=few, rows=rows)
        return None if numbers is None else ScheduleAttr.of(**numbers)

    def _known(self, group: nn.GroupOp, key: str) -> ScheduleAttr | None:
        if key in self.given:
            check_fit(group, self.given[key])
            return ScheduleAttr.of(**self.given[key])
        if key not in self.measured or not self.measured[key].current:
            return None
        numbers = self.measured[key].schedule
        try:
            check_fit(group, numbers)
        except TileDoesNotFit as error:
            told = f"the measured schedule of {key} is left aside: {error}"
            warnings.warn(told, stacklevel=2)
            return None
        return ScheduleAttr.of(**numbers, **{TUNED: 1})

    def default(self, group: nn.GroupOp, *, few: bool, rows: int | None = None) -> Numbers | None:
        """Return what the cost model gives a group, None for one that takes no schedule."""
        rule = DEFAULTS.get(group.anchor.data)
        return None if rule is None else rule(replace(self.model, rows=rows), group, few)


def _linear(model: CostModel, group: nn.GroupOp, few: bool) -> Numbers:
    return model.linear(linear_of(group, few=few)).numbers


def _dot(model: CostModel, group: nn.GroupOp, few: bool) -> Numbers:
    if model.machine.threads > 1:
        return model.shared_dot(dot_of(group)).numbers
    tile = model.dot()
    return {"m": tile.m, "n": tile.n}


def _windows(model: CostModel, group: nn.GroupOp, few: bool) -> Numbers:
    (op,) = (op for op in body_ops(group) if isinstance(op, nn.ConvOp | nn.PoolOp))
    threads = model.machine.threads
    turned = any(isinstance(each, nn.TransposeOp) for each in body_ops(group))
    tile = model.window()
    if isinstance(op, nn.ConvOp) and not op.depthwise:
        tile = model.conv(op.groups.value.data if turned and op.parted else 1)
    sizes = {"m": rows_of(op.positions, tile.m, threads), "n": tile.n, "k": tile.k}
    return sizes if threads == 1 else {**sizes, "threads": threads}


def _winograd(model: CostModel, group: nn.GroupOp, few: bool) -> Numbers:
    (op,) = (op for op in body_ops(group) if isinstance(op, nn.WinogradOp))
    counts = [n.constant for n in op.tiles[1:]]
    tiles = None if None in counts else prod(n for n in counts if n is not None)
    depth, panels = op.depth.evaluate({}), extents(op.w.type)[1].evaluate({})
    return model.winograd(tiles, op.reach**2, depth, panels)


def _contraction(model: CostModel, group: nn.GroupOp, few: bool) -> Numbers | None:
    machine = model.machine
    units = machine.threads > 1 and machine.matrix and is_byte_product(body_ops(group))
    return model.shared_dot(dot_of(group)).numbers if units else None


DEFAULTS: Final[dict[str, Callable[[CostModel, nn.GroupOp, bool], Numbers | None]]] = {
    "contraction": _contraction,
    "conv": _windows,
    "dot": _dot,
    "linear": _linear,
    "pool": _windows,
    "winograd": _winograd,
}
"""The anchors whose kernels take a schedule, and what the model gives each."""


def check_fit(group: nn.GroupOp, numbers: Numbers) -> None:
    """Raise `TileDoesNotFit` where a group's kernel cannot be built with these numbers."""
    said = " ".join(f"{name}={number}" for name, number in numbers.items())
    asked = f"group {group.sym_name.data} asks for a tile of {said}"
    if group.anchor.data == "dot":
        most = most_sums(numbers.get("threads", 1))
        if not 1 <= numbers["m"] * numbers["n"] <= most:
            raise TileDoesNotFit(f"{asked}: at most {most} sums fit into registers")
        return
    ops = body_ops(group)
    products = [cast("Product", op) for op in ops if is_linear(op)]
    counts = tile_counts(ops)
    if numbers["n"] not in {count * ROWS for count in counts}:
        raise TileDoesNotFit(
            f"{asked}: what follows can be finished in tiles of "
            f"{', '.join(str(count * ROWS) for count in counts)} columns"
        )
    before, group.schedule = group.schedule, ScheduleAttr.of(**numbers)
    try:
        RegisterTile.of(group, products, shape_of(products[0]).tiles)
    finally:
        group.schedule = before


def given_text(key: str, numbers: Numbers) -> str:
    """Return the text of a given schedule: `CLASS -> m=8 n=16`."""
    return f"{key} -> {' '.join(f'{name}={number}' for name, number in numbers.items())}"


def read_given(texts: Iterable[str]) -> dict[str, Numbers]:
    """Return the given schedules that texts say; `InputError` for one that says none."""
    found: dict[str, Numbers] = {}
    for text in texts:
        parts = _GIVEN.fullmatch(text)
        if parts is None:
            raise InputError(
                f"schedule-groups: given is {text!r}: expected CLASS -> m=N n=N r=N k=N b=N"
            )
        pairs = (pair.split("=") for pair in parts["numbers"].split())
        numbers = {name: int(number) for name, number in pairs}
        if not {"m", "n"} <= numbers.keys() <= NAMES:
            raise InputError(
                f"schedule-groups: given is {text!r}: expected m and n, maybe r, k and b"
            )
        found[parts["key"]] = numbers
    return found
