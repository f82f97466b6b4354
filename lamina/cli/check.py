"""`lamina check`: everything in a model that is not supported, all at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from lamina.cli.options import DebugOption, JsonOption, ModelArgument
from lamina.cli.output import emit_json, emit_table, say, working

if TYPE_CHECKING:
    from lamina.frontend.examination import Examination, Finding


def check(model: ModelArgument, json: JsonOption = False, debug: DebugOption = False) -> None:
    """Say everything in a model that is not supported, and how many of its nodes are.

    Each finding has the node, a code that stays the same, the sentence, and what may be done about
    it. A node is compiled, runs by its NumPy meaning (since its form depends on values that it is
    given), is refused, or is unchecked, since it needs what a refused node gives. The exit code is
    1 if anything is refused.

    Examples:

      lamina check model.onnx

      lamina check model.onnx --json
    """
    from lamina.frontend.fetch import resolve_model
    from lamina.model_check import check as examined

    path = resolve_model(model)
    with working(f"Checking {path.name}"):
        found = examined(path)
    if json:
        emit_json({"model": str(path), **_facts(found)})
    else:
        _print(str(path), found)
    if found.findings:
        raise typer.Exit(1)


def _facts(found: Examination) -> dict[str, Any]:
    from lamina.frontend.examination import STATES

    operators: dict[str, Counter[str]] = {}
    for (operator, state), count in sorted(found.nodes.items()):
        operators.setdefault(operator, Counter())[state] += count
    return {
        "supported": not found.findings,
        "nodes": {"total": found.total} | {_key(state): found.count(state) for state in STATES},
        "coverage": found.coverage,
        "findings": [asdict(finding) for finding in found.findings],
        "operators": [
            {"operator": operator} | {_key(state): counts[state] for state in STATES}
            for operator, counts in operators.items()
        ],
        "warnings": list(found.warnings),
    }


def _key(state: str) -> str:
    return state.replace(" ", "_")


def _print(path: str, found: Examination) -> None:
    from lamina.frontend.examination import BY_MEANING, STATES

    counts = ", ".join(f"{found.count(state)} {state}" for state in STATES)
    print(f"{path}: {found.total} nodes: {counts} ({100 * found.coverage:.1f} % served)")
    for text in found.warnings:
        say(f"warning: {text}")
    hosted = [(op, count) for (op, state), count in found.nodes.items() if state == BY_MEANING]
    if hosted:
        print()
        emit_table(("runs by its NumPy meaning, slowly", "nodes"), sorted(hosted))
    if found.findings:
        print()
        columns = ("code", "node", "operator", "what", "suggestion")
        emit_table(columns, (_row(finding) for finding in found.findings))


def _row(finding: Finding) -> tuple[str, ...]:
    # The file, the node and its operator are said beside it.
    start = f"node {finding.node!r} ({finding.operator.rpartition('.')[2]}): "
    said = finding.message.partition(start)[2] or finding.message
    return finding.code, finding.node, finding.operator, said, finding.suggestion
