"""A plan as data: the tables that a step walks, to bytes and back.

Every number of a plan is a *value*: a symbol, a constant, or an expression of earlier values.
Every address is a *base* (0, the arena, or an array of the call) plus a value. Where kernels run on
a device, the arena and the arrays are there; host calls and copies know the host's memory too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from lamina.errors import FormatError

LAUNCH, BARRIER, SWITCH, JUMP, HOST_CALL, COPY, END = 1, 2, 3, 4, 5, 6, 0
"""The records: launch(first call, calls, counter), barrier, switch(value, bound, record if above),
jump(record), host call(number), copy(number), end."""

OPERATIONS: Final = ("add", "mul", "floordiv", "ceildiv", "mod", "min", "max")
"""What an expression computes, by number."""

NULL, ARENA, FIRST_ARRAY = 0, 1, 2
"""The bases: address 0, the arena, then inputs, states, packed weights and outputs in order."""

HOST: Final = NULL
"""In host calls and copies, the base of the host's memory; no kernel is given any of it."""

RECORD, CALL, ARGUMENT, EXPRESSION, COUNTS, COPIED = 6, 6, 2, 4, 3, 5
"""The integers in a row of each table."""

UNSAID: Final = -1
"""In place of the value of a count that nothing says."""

_VERSION: Final = 4

_TABLES: Final = (
    *("symbols", "constants", "expressions", "records"),
    *("calls", "works", "arguments", "copies", "outputs"),
)

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Stored:
    """An array of fixed shape: a packed weight."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class HostBuffer:
    """A buffer that a host call is given: where it lies and, in values, its extents."""

    base: int
    offset: int
    dtype: str
    dims: tuple[int, ...]
    access: str


@dataclass(frozen=True)
class HostCall:
    """What the caller itself does between launches.

    A group that runs by its NumPy meaning; with `binds`, (value, result, axis), its results' shapes
    give symbols their numbers, and the host call after, a `receive`, is given the results'
    buffers. Or a `bind`, (value, 0, element), of the integers in its buffer; `equal` are pairs of
    values that must be equal then. `node` is what is named if something is not as it must be.
    """

    name: str
    buffers: tuple[HostBuffer, ...]
    kind: str = "run"
    binds: tuple[tuple[int, int, int], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()
    node: str = ""


@dataclass(frozen=True)
class Plan:
    """What a step does.

    `values` counts the values; `symbols` and `constants` say what some are at the start: (name,
    value) and (number, value). `expressions` are (operation, a, b, value), `records` an opcode
    and its operands, `calls` (kernel, first argument, arguments, three grid extents), `arguments`
    (base, value). `works` are, for each call, the values of its bytes, float operations and
    integer operations; `schedules` say what each kernel was built with. `copies` are (base, value)
    of where they read, the same of where they write, and the value of their bytes. `arena` and
    `host_arena` are the values of the arenas' sizes, `outputs` the extents of each output,
    `scratch` the most bytes a kernel wants, `nodes` what a check may name, from 1. `equal` are
    pairs of values that have to be equal, and the node that says so.
    """

    values: int
    symbols: tuple[tuple[str, int], ...]
    constants: tuple[tuple[int, int], ...]
    expressions: Rows
    records: Rows
    calls: Rows
    works: Rows
    arguments: Rows
    copies: Rows
    launches: int
    kernels: tuple[str, ...]
    schedules: tuple[str, ...]
    arrays: int
    arena: int
    host_arena: int
    outputs: Rows
    packed: tuple[Stored, ...]
    hosts: tuple[HostCall, ...]
    scratch: int
    nodes: tuple[str, ...]
    equal: tuple[tuple[int, int, str], ...] = ()

    @property
    def most_arguments(self) -> int:
        """The most arguments that one kernel takes."""
        return max((call[2] for call in self.calls), default=0)

    def to_bytes(self) -> bytes:
        """Return the plan as UTF-8 JSON."""
        fields = {"version": _VERSION, **vars(self)}
        return json.dumps(fields, separators=(",", ":"), default=vars).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Plan:
        """Return the plan in `data`; FormatError if it is none or points outside its tables."""
        try:
            fields = cast("dict[str, Any]", json.loads(data))
            version = fields.pop("version")
            plan = _plan(fields) if version == _VERSION else None
            fault = _fault(plan) if plan else None
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise FormatError(f"the plan cannot be read: {error!r}") from None
        if plan is None:
            raise FormatError(f"the plan: field version: expected {_VERSION}, got {version!r}")
        if fault:
            raise FormatError(f"the plan: {fault}")
        return plan


def table(rows: Rows, width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return rows of integers as an array `[rows, width]`; short rows end in zeros."""
    padded = [(*row, *(0,) * (width - len(row))) for row in rows]
    return np.array(padded, np.int64).reshape(len(rows), width)


def _plan(fields: dict[str, Any]) -> Plan:
    rows: dict[str, Any] = {name: tuple(tuple(row) for row in fields.pop(name)) for name in _TABLES}
    packed = tuple(
        Stored(each["name"], each["dtype"], tuple(each["shape"])) for each in fields.pop("packed")
    )
    hosts = tuple(_host(each) for each in fields.pop("hosts"))
    equal = tuple((a, b, node) for a, b, node in fields.pop("equal"))
    lists = {name: tuple(fields.pop(name)) for name in ("kernels", "schedules", "nodes")}
    return Plan(packed=packed, hosts=hosts, equal=equal, **rows, **lists, **fields)


def _host(fields: dict[str, Any]) -> HostCall:
    buffers: list[HostBuffer] = []
    for each in fields["buffers"]:
        dims = tuple(each.pop("dims"))
        buffers.append(HostBuffer(dims=dims, **each))
    binds = tuple((value, array, axis) for value, array, axis in fields["binds"])
    equal = tuple((a, b) for a, b in fields["equal"])
    return HostCall(fields["name"], tuple(buffers), fields["kind"], binds, equal, fields["node"])


def _fault(plan: Plan) -> str | None:
    """Return which table leads outside another; a plan without fault is safe to walk."""
    values, bases = plan.values, FIRST_ARRAY + plan.arrays
    expressions, calls = table(plan.expressions, EXPRESSION), table(plan.calls, CALL)
    arguments, works = table(plan.arguments, ARGUMENT), table(plan.works, COUNTS)
    copies = table(plan.copies, COPIED)
    known = [value for _, value in (*plan.symbols, *plan.constants)]
    sizes = [plan.arena, plan.host_arena, *(value for row in plan.outputs for value in row)]
    hosted = [value for host in plan.hosts for b in host.buffers for value in (b.offset, *b.dims)]
    hosted += [bind[0] for host in plan.hosts for bind in host.binds]
    hosted += [value for host in plan.hosts for pair in host.equal for value in pair]
    hosted += [value for a, b, _ in plan.equal for value in (a, b)]
    checks = (
        ("expressions", expressions[:, 0], len(OPERATIONS)),
        ("expressions", expressions[:, 1:], values),
        ("symbols", np.array(known, np.int64), values),
        ("calls", calls[:, 0], len(plan.kernels)),
        ("calls", calls[:, 1:3].sum(1), len(plan.arguments) + 1),
        ("calls", calls[:, 1:3], len(plan.arguments) + 1),
        ("calls", calls[:, 3:], values),
        ("works", works - UNSAID, values - UNSAID),
        ("arguments", arguments[:, 0], bases),
        ("arguments", arguments[:, 1], values),
        ("copies", copies[:, [0, 2]], bases),
        ("copies", copies[:, [1, 3, 4]], values),
        ("outputs", np.array([*sizes, *hosted], np.int64), values),
        ("hosts", np.array([b.base for h in plan.hosts for b in h.buffers], np.int64), bases),
    )
    for name, numbers, bound in checks:
        if ((numbers < 0) | (numbers >= bound)).any():
            return f"field {name}: a number is outside [0, {bound})"
    for name, given, wanted in (
        ("works", plan.works, plan.calls),
        ("schedules", plan.schedules, plan.kernels),
    ):
        if len(given) != len(wanted):
            return f"field {name}: expected {len(wanted)}, got {len(given)}"
    return _record_fault(plan)


def _record_fault(plan: Plan) -> str | None:
    records = table(plan.records, RECORD)
    if not len(records) or records[-1, 0] != END:
        return "field records: there is no end"
    for here, (opcode, one, two, three, *_) in enumerate(records.tolist()):
        sound = {
            LAUNCH: 0 <= one < one + two <= len(plan.calls) and 0 <= three < plan.launches,
            BARRIER: True,
            SWITCH: 0 <= one < plan.values and here < three < len(records),
            JUMP: here < one < len(records),
            HOST_CALL: 0 <= one < len(plan.hosts),
            COPY: 0 <= one < len(plan.copies),
            END: True,
        }
        if not sound.get(opcode, False):
            return f"field records: record {here} is wrong"
    return None
