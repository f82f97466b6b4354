"""A model's settings as plain values for JSON, and back; what the file said beside them is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from lamina.frontend.model import ModelConfig
from lamina.frontend.pooling import Pooling
from lamina.frontend.rope import LinearScaling, Llama3Scaling, Rope

_SCALINGS = {kind.__name__: kind for kind in (LinearScaling, Llama3Scaling)}


def config_to_record(config: ModelConfig) -> dict[str, Any]:
    """Return all settings but `metadata`."""
    record = {each.name: getattr(config, each.name) for each in fields(config)}
    del record["metadata"]
    if config.rope:
        record["rope"] = asdict(config.rope)
        if config.rope.scaling:
            record["rope"]["scaling"]["kind"] = type(config.rope.scaling).__name__
    if config.pooling:
        record["pooling"] = asdict(config.pooling)
    return record


def config_from_record(record: Mapping[str, Any]) -> ModelConfig:
    """Return the settings; KeyError, TypeError or ValueError for what is no record of them."""
    found: dict[str, Any] = {**record, "eos_ids": tuple(record["eos_ids"])}
    if (rope := found["rope"]) is not None:
        turned: dict[str, Any] = {**rope, "scaling": _scaling(rope["scaling"])}
        found["rope"] = Rope(**turned)
    if (pooling := found["pooling"]) is not None:
        found["pooling"] = Pooling(**pooling)
    return ModelConfig(**found)


def _scaling(record: dict[str, Any] | None) -> LinearScaling | Llama3Scaling | None:
    if record is None:
        return None
    kind = _SCALINGS[cast("str", record["kind"])]
    return kind(**{key: value for key, value in record.items() if key != "kind"})
