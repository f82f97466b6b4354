"""What a model becomes on a target, in figures: kernels, launches, variants and memory."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lamina.cli.output import emit_table
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.frontend.model import Model

_EXTENTS: Final = (1, 64, 512)
"""Values of every symbol for which memory is shown, where none is given."""


def plan_facts(model: "Model", target: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Lower `model` and count; `sizes` are values of symbols, the others vary.

    Where `target` cannot take the model, only `error` says why.
    """
    from lamina import compiler
    from lamina.dialects.plan import CallOp, HostOp, LaunchOp, SwitchOp
    from lamina.dialects.tile import KernelOp

    chosen = compiler.resolve_target(target, model)
    try:
        module = compiler.lower(model, chosen)
    except LaminaError as error:
        return {"target": target, "error": str(error)}
    ops = list(module.walk())
    return {
        "target": target,
        "kernels": sum(isinstance(op, KernelOp) for op in ops),
        "launches": sum(isinstance(op, LaunchOp) for op in ops),
        "calls": sum(isinstance(op, CallOp) for op in ops),
        "host_calls": sorted({op.callee.string_value() for op in ops if isinstance(op, HostOp)}),
        "variants": [_ranges(op) for op in ops if isinstance(op, SwitchOp)],
        "memory": _memory(module, sizes),
    }


def print_plan(facts: Mapping[str, Any]) -> None:
    """Print what `plan_facts` returned."""
    print(f"\non {facts['target']}:", facts.get("error", ""))
    if "error" in facts:
        return
    print(f"{facts['kernels']} kernels, {facts['launches']} launches of {facts['calls']} calls")
    for name in facts["host_calls"]:
        print(f"@{name} runs by its NumPy meaning, slowly")
    for ranges in facts["variants"]:
        print(f"variants: {', '.join(ranges)}")
    if facts["memory"]:
        emit_table(tuple(facts["memory"][0]), (list(row.values()) for row in facts["memory"]))


def _ranges(op: Any) -> list[str]:
    value = op.value.data
    return [*(f"{value} <= {bound}" for bound in op.bounds.get_values()), "else"]


def _memory(module: Any, sizes: Mapping[str, int]) -> list[dict[str, int]]:
    from lamina.dialects.plan import ArenaOp
    from lamina.passes.plan_memory import arena_report, plan_symbols

    rows: list[dict[str, int]] = []
    planned = any(isinstance(op, ArenaOp) for op in module.walk())
    symbols = plan_symbols(module)
    for extent in _EXTENTS if planned else ():
        row = {name: sizes.get(name, extent) for name in symbols}
        row |= {f"{key} bytes": size for key, size in arena_report(module, row).items()}
        if row not in rows:
            rows.append(row)
    return rows
