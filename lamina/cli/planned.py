"""What a model becomes on a target, in figures: kernels, launches, variants and memory."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lamina.cli.options import check_sizes
from lamina.cli.output import emit_table, megabytes
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block

    from lamina.dialects.plan import BufferType, SwitchOp
    from lamina.frontend.model import Model

_EXTENTS: Final = (1, 64, 512)
"""Values of every symbol for which memory is shown, where none is given."""

_ALWAYS: Final = "always"


def plan_facts(
    model: "Model", target: str, sizes: Mapping[str, int], dump: Path | None
) -> dict[str, Any]:
    """Lower `model` and count; `sizes` are values of symbols, the others vary.

    Where `target` cannot take the model, only `error` says why. `dump` is a folder for the stages.
    """
    from lamina import compiler
    from lamina.dialects.plan import HostOp
    from lamina.targets.spec import AUTO, target_spec

    chosen = compiler.resolve_target(target, model)
    shown = target_spec(chosen) if target == AUTO else target
    try:
        module = compiler.lower(model, chosen, dump=dump)
        ranges = _ranges(module)
    except LaminaError as error:
        return {"target": shown, "error": str(error)}
    hosts = {op.callee.string_value() for op in module.walk() if isinstance(op, HostOp)}
    return {
        "target": shown,
        "launches": [{key: row[key] for key in row if key != "kernels"} for row in ranges],
        "kernels": _kernels(module, ranges),
        "host_calls": sorted(hosts),
        "packed": _packed(module),
        "memory": _memory(module, sizes),
    }


def print_plan(facts: Mapping[str, Any]) -> None:
    """Print what `plan_facts` returned."""
    if "error" in facts:
        print(f"\non {facts['target']}: {facts['error']}")
        return
    packed = facts["packed"]
    print(f"\non {facts['target']}: {len(facts['kernels'])} kernels,", end=" ")
    print(f"{packed['count']} arrays made of the weights, {megabytes(packed['bytes'])}")
    for name in facts["host_calls"]:
        print(f"@{name} runs by its NumPy meaning, slowly")
    if facts["launches"]:
        print()
        columns = ("runs if", "launches", "calls")
        keys = ("when", "launches", "calls")
        if any(row["copies"] for row in facts["launches"]):
            columns += ("copies", "bytes copied")
            keys += ("copies", "copied_bytes")
        emit_table(columns, (tuple(row[key] for key in keys) for row in facts["launches"]))
    if facts["kernels"]:
        print()
        emit_table(("kernel", "grid", "calls"), map(_shown_kernel, facts["kernels"]))
    if facts["memory"]:
        print()
        symbols = tuple(facts["memory"][0]["symbols"])
        columns = (*symbols, "arena bytes", "sum of intermediates", "largest live set")
        emit_table(columns, map(_shown_memory, facts["memory"]))


def _shown_kernel(row: Mapping[str, Any]) -> tuple[str, ...]:
    calls = ", ".join(f"{each['count']} if {each['when']}" for each in row["calls"])
    return row["name"], " x ".join(row["grid"]), calls.replace(f" if {_ALWAYS}", "")


def _shown_memory(row: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = (row[f"{key}_bytes"] for key in ("arena", "sum", "largest_live"))
    return (*row["symbols"].values(), *sizes)


def _ranges(module: "ModuleOp") -> list[dict[str, Any]]:
    """Return what is launched and copied for each range: by `kernels`, how often each is called."""
    from lamina.dialects.dims import Dim
    from lamina.dialects.plan import CopyOp, LaunchOp, SwitchOp
    from lamina.targets.signature import forward_of

    found: list[dict[str, Any]] = []

    def visit(block: "Block", within: Mapping[str, Any], when: str) -> None:
        launches = [op for op in block.ops if isinstance(op, LaunchOp)]
        calls = Counter(c.callee.string_value() for each in launches for c in each.calls)
        copies = [op for op in block.ops if isinstance(op, CopyOp)]
        if launches or copies:
            size = sum((cast("BufferType", op.x.type).bytes for op in copies), Dim.of(0))
            counts = {"launches": len(launches), "calls": calls.total(), "kernels": calls}
            counts |= {"copies": len(copies), "copied_bytes": str(size)}
            found.append({"when": when or _ALWAYS, **within, **counts})
        for op in block.ops:
            if isinstance(op, SwitchOp):
                for branch, (said, bounds) in zip(op.branches, _branches(op), strict=True):
                    visit(branch.block, bounds, f"{when} and {said}" if when else said)

    visit(forward_of(module).body.block, {}, "")
    return found


def _branches(op: "SwitchOp") -> list[tuple[str, dict[str, Any]]]:
    from lamina.dialects.tile import values

    symbol, bounds = op.value.data, list(values(op.bounds))
    branches: list[tuple[str, dict[str, Any]]] = []
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        if high is None:
            said = f"{symbol} > {low}"
        else:
            said = f"{symbol} <= {high}" if low is None else f"{low} < {symbol} <= {high}"
        branches.append((said, {"symbol": symbol, "above": low, "at_most": high}))
    return branches


def _kernels(module: "ModuleOp", ranges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from lamina.dialects.tile import AnyKernelOp

    kernels = [op for op in module.ops if isinstance(op, AnyKernelOp)]
    return [
        {
            "name": op.sym_name.data,
            "grid": [extent.data for extent in op.grid],
            "calls": [
                {"when": row["when"], "count": row["kernels"][op.sym_name.data]}
                for row in ranges
                if op.sym_name.data in row["kernels"]
            ],
        }
        for op in kernels
    ]


def _packed(module: "ModuleOp") -> dict[str, int]:
    from lamina.dialects.plan import BufferType
    from lamina.targets.signature import arguments_of, forward_of

    sizes = [
        type.bytes.constant or 0
        for names, type in arguments_of(forward_of(module))
        if "lamina.packed" in names and isinstance(type, BufferType)
    ]
    return {"count": len(sizes), "bytes": sum(sizes)}


def _memory(module: "ModuleOp", sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    from lamina.dialects.plan import ArenaOp
    from lamina.passes.plan_memory import arena_report, plan_symbols
    from lamina.targets.signature import signature_of

    rows: list[dict[str, Any]] = []
    planned = any(isinstance(op, ArenaOp) for op in module.walk())
    symbols = plan_symbols(module)
    inputs = signature_of(module).inputs
    bound = {name for each in inputs for dim in each.dims for name in dim.symbols}
    check_sizes(sizes, bound.union(symbols))
    for extent in _EXTENTS if planned else ():
        given = {name: sizes.get(name, extent) for name in symbols}
        report = {f"{key}_bytes": size for key, size in arena_report(module, given).items()}
        row = {"symbols": given, **report}
        if row not in rows:
            rows.append(row)
    return rows
