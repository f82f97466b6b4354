"""What a model's file holds, in figures: settings, tokenizer, weights, functions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, cast

from lamina.cli.output import emit_table, megabytes

if TYPE_CHECKING:
    from lamina.frontend.model import Model, ModelConfig
    from lamina.frontend.tokenizer import Tokenizer
    from lamina.targets.base import Binding


def contents(model: "Model", each_weight: bool) -> dict[str, Any]:
    """Return what `model` says, ready for JSON; `each_weight` lists the weights one by one."""
    source = model.source
    compiled = _compiled(model)
    return {
        "model": str(source) if source else "",
        "format": model.format or "mlir",
        "bytes": source.stat().st_size if source and source.is_file() else model.weights.nbytes,
        "config": _config(model.config) if model.config else {},
        **({"file": dict(model.facts)} if model.facts else {}),
        "tokenizer": _tokenizer(model.tokenizer) if model.tokenizer else {},
        "weights": _weights(model, each_weight),
        "signature": _signature(model),
        "functions": [] if compiled else _functions(model),
        **({"compiled": compiled} if compiled else {}),
        **({"usage": usage} if (usage := _usage(model)) else {}),
    }


def print_contents(facts: dict[str, Any]) -> None:
    """Print what `contents` returned."""
    weights = facts["weights"]
    print(f"{facts['model']}: {facts['format']}, {megabytes(facts['bytes'])}")
    if facts["config"]:
        print()
        emit_table(("setting", "value"), facts["config"].items())
    if "file" in facts:
        print()
        emit_table(("file", "value"), facts["file"].items())
    if facts["tokenizer"]:
        print()
        emit_table(("tokenizer", "value"), _shown_tokenizer(facts["tokenizer"]).items())
    if "compiled" in facts:
        print()
        emit_table(("compiled", "value"), facts["compiled"].items())
    if "usage" in facts:
        print()
        emit_table(("kernel", *list(facts["usage"][0])[1:]), _rows(facts["usage"]))
    print(f"\n{weights['count']} weights, {weights['elements']:,} elements,", end=" ")
    print(megabytes(weights["bytes"]))
    emit_table(("dtype", "count", "elements", "bytes"), _rows(weights["by_dtype"]))
    if "each" in weights:
        print()
        emit_table(("weight", "dtype", "shape", "bytes"), _rows(weights["each"]))
    for function in facts["functions"]:
        print(f"\n@{function['name']}: {sum(function['ops'].values())} operations")
        emit_table(("operation", "count"), function["ops"].items())
    if facts["signature"]:
        print()
        emit_table(("@forward", "name", "dtype", "shape"), _rows(_folded(facts["signature"])))


def _rows(found: Sequence[dict[str, Any]]) -> list[list[Any]]:
    return [[_plain(value) for value in row.values()] for row in found]


def _folded(signature: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for neighbouring states that differ in name alone."""
    rows: list[dict[str, Any]] = []
    for kind, group in groupby(signature, lambda row: (row["kind"], row["dtype"], row["shape"])):
        same = list(group)
        if kind[0] == "state" and len(same) > 2:
            name = f"{same[0]['name']} to {same[-1]['name']}, {len(same)} in all"
            same = [same[0] | {"name": name}]
        rows += same
    return rows


def _plain(value: object) -> object:
    if not isinstance(value, list):
        return value
    return f"[{', '.join(map(str, cast('list[object]', value)))}]"


def _config(config: "ModelConfig") -> dict[str, Any]:
    said = {f.name: getattr(config, f.name) for f in fields(config)}
    del said["metadata"]
    return {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in said.items()
        if value is not None
    }


def _tokenizer(tokenizer: "Tokenizer") -> dict[str, Any]:
    return {
        "model": type(tokenizer.backend.model).__name__,
        "tokens": tokenizer.vocab_size,
        "bos_id": tokenizer.bos_id,
        "eos_ids": sorted(tokenizer.eos_ids),
        "chat_template": tokenizer.chat_template,
    }


def _shown_tokenizer(said: dict[str, Any]) -> dict[str, Any]:
    template = said["chat_template"]
    return said | {"chat_template": f"{len(template)} characters" if template else "none"}


def _weights(model: "Model", each: bool) -> dict[str, Any]:
    count, size, elements = Counter[str](), Counter[str](), Counter[str]()
    for weight in model.weights.values():
        count[weight.dtype] += 1
        elements[weight.dtype] += prod(weight.shape)
        size[weight.dtype] += weight.nbytes
    found: dict[str, Any] = {
        "count": count.total(),
        "elements": elements.total(),
        "bytes": size.total(),
        "by_dtype": [
            {"dtype": d, "count": count[d], "elements": elements[d], "bytes": size[d]}
            for d in sorted(count)
        ],
    }
    if each:
        found["each"] = [
            {"name": w.name, "dtype": w.dtype, "shape": list(w.shape), "bytes": w.nbytes}
            for w in model.weights.values()
        ]
    return found


def _compiled(model: "Model") -> dict[str, Any]:
    """Return what code there is, none for a model that is not compiled."""
    from lamina.compiled.model import CompiledModel
    from lamina.targets.spec import target_spec

    if not isinstance(model, CompiledModel):
        return {}
    facts = {k: v for k, v in model.artifact.facts.items() if isinstance(v, str | int)}
    facts.pop("flags", None)
    copies: list[dict[str, str]] = model.artifact.facts.get("copies") or []
    if copies:
        each = (f"{copy['bytes']} bytes to the {copy['to']}" for copy in copies)
        facts["copies"] = ", ".join(each)
    return {"for": target_spec(model.target), **facts}


def _usage(model: "Model") -> list[dict[str, Any]]:
    """Return what each kernel takes of a device, where the assembler said it."""
    from lamina.compiled.model import CompiledModel

    if not isinstance(model, CompiledModel):
        return []
    usage: dict[str, dict[str, int]] = model.artifact.facts.get("usage") or {}
    return [{"kernel": name, **figures} for name, figures in usage.items()]


def _signature(model: "Model") -> list[dict[str, Any]]:
    from lamina.compiled.model import CompiledModel
    from lamina.errors import LoweringError
    from lamina.targets.signature import signature_of

    try:
        compiled = isinstance(model, CompiledModel)
        signature = model.artifact.signature if compiled else signature_of(model.module)
    except LoweringError:
        return []
    kinds = {"input": signature.inputs, "state": signature.states, "output": signature.outputs}
    return [_binding(kind, each) for kind, found in kinds.items() for each in found]


def _binding(kind: str, each: "Binding") -> dict[str, Any]:
    return {
        "kind": kind,
        "name": each.name,
        "dtype": each.elements,
        "shape": [str(dim) for dim in each.dims],
    }


def _functions(model: "Model") -> list[dict[str, Any]]:
    from xdsl.dialects.func import FuncOp

    return [
        {
            "name": op.sym_name.data,
            "ops": dict(Counter(o.name for o in op.body.walk()).most_common()),
        }
        for op in model.module.walk()
        if isinstance(op, FuncOp)
    ]
