"""What ships in the box, registered through the same hooks as everything else.

A pass is listed by its spec alone: `decompose-math` is `DecomposeMathPass` in
`passes/decompose_math.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lamina.plugins.hookspecs import hookimpl
from lamina.plugins.lazy import lazy

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import RewritePattern

    from lamina.frontend.onnx.registry import Table
    from lamina.frontend.settings import SettingsReader
    from lamina.targets.base import Target

DIALECTS: Mapping[str, str] = {
    "nn": "lamina.dialects.nn:NN",
    "quant": "lamina.dialects.quant:QUANT",
    "cache": "lamina.dialects.cache:CACHE",
    "tile": "lamina.dialects.tile:TILE",
    "simt": "lamina.dialects.simt:SIMT",
    "plan": "lamina.dialects.plan:PLAN",
}

MEANINGS: tuple[str, ...] = (
    "lamina.targets.reference.nn:MEANINGS",
    "lamina.targets.reference.quant:MEANINGS",
    "lamina.targets.reference.cache:MEANINGS",
    "lamina.targets.reference.arith:MEANINGS",
    "lamina.targets.reference.math:MEANINGS",
    "lamina.targets.reference.scf:MEANINGS",
    "lamina.targets.reference.tile:MEANINGS",
    "lamina.targets.reference.simt:MEANINGS",
    "lamina.targets.reference.plan:MEANINGS",
    "lamina.foreign_nodes:MEANINGS",
)

DECOMPOSITIONS: tuple[str, ...] = ("lamina.passes.decompose_composites:DECOMPOSITIONS",)

TILE_RULES: tuple[str, ...] = ("lamina.passes.kernels.build:TILE_RULES",)

PASSES: tuple[str, ...] = (
    "choose-activations",
    "choose-cache-layout",
    "choose-layouts",
    "choose-places",
    "choose-splits",
    "choose-variants",
    "choose-winograd",
    "decompose-composites",
    "decompose-convolutions",
    "decompose-math",
    "fold-branches",
    "fold-duplicates",
    "fold-positions",
    "fold-scales",
    "fold-transposes",
    "fuse-activations",
    "fuse-attention",
    "fuse-elementwise",
    "fuse-epilogues",
    "fuse-gate-up",
    "fuse-launches",
    "fuse-norm-prologues",
    "fuse-transposes",
    "lower-groups",
    "lower-tiles",
    "outline-groups",
    "pack-weights",
    "plan-copies",
    "plan-joins",
    "plan-memory",
    "prepare-weights",
    "schedule-groups",
    "verify-plan",
)

INSERTIONS: Mapping[str, str] = {"fuse-launches": "kernels"}

TARGETS: Mapping[str, str] = {
    "cpu": "lamina.targets.cpu.target:CpuTarget",
    "cuda": "lamina.targets.cuda.target:CudaTarget",
    "metal": "lamina.targets.metal.target:MetalTarget",
    "reference": "lamina.targets.reference.target:ReferenceTarget",
    "webgpu": "lamina.targets.webgpu.target:WebGpuTarget",
}

FRONTENDS: Mapping[str, str] = {
    "gguf": "lamina.frontend.readers:GgufFrontend",
    "huggingface": "lamina.frontend.readers:HuggingFaceFrontend",
}

ONNX = "lamina.frontend.onnx.frontend:OnnxFrontend"

SETTINGS: tuple[str, ...] = ("lamina.frontend.settings:SETTINGS",)

CONVERTERS: Mapping[str, str] = {
    "bert": "lamina.frontend.bert:build",
    "gpt2": "lamina.frontend.gpt2:build",
    "llama": "lamina.frontend.llama:build",
}


@hookimpl
def register_dialects() -> Mapping[str, Callable[[], Dialect]]:
    """The levels of IR."""
    return _table(DIALECTS)


@hookimpl
def register_meanings() -> Mapping[type[Operation], Callable[..., Any]]:
    """What the operations of the box compute."""
    return _merged(MEANINGS)


@hookimpl
def register_decompositions() -> Mapping[type[Operation], Callable[[], RewritePattern]]:
    """How the composites of the box are spelt in simpler operations."""
    return _merged(DECOMPOSITIONS)


@hookimpl
def register_tile_rules() -> Mapping[type[Operation], Callable[..., Any]]:
    """How kernels compute tiles of the operations of the box."""
    return _merged(TILE_RULES)


@hookimpl
def register_passes() -> Mapping[str, Callable[[], type[ModulePass]]]:
    """The passes of the box."""
    return {spec: lazy(_pass_location(spec)) for spec in PASSES}


@hookimpl
def register_insertions() -> Mapping[str, str]:
    """Where the default pipelines run passes of the box that no step of theirs needs."""
    return INSERTIONS


@hookimpl
def register_targets() -> Mapping[str, Callable[[], type[Target]]]:
    """The targets of the box."""
    return _table(TARGETS)


@hookimpl
def register_frontends() -> Mapping[str, Callable[[], Any]]:
    """The readers of model files."""
    return {**{name: _frontend(where) for name, where in FRONTENDS.items()}, "onnx": _onnx}


@hookimpl
def register_operators() -> Mapping[str, Callable[[], Table]]:
    """The operators of ONNX, and of com.microsoft."""
    return {"onnx": lazy("lamina.frontend.onnx.registry:CONVERTERS")}


@hookimpl
def register_settings() -> Mapping[str, SettingsReader]:
    """What reads the settings of the architectures."""
    return _merged(SETTINGS)


@hookimpl
def register_converters() -> Mapping[str, Callable[[], Any]]:
    """The architectures."""
    return _table(CONVERTERS)


def _table(table: Mapping[str, str]) -> Mapping[str, Callable[[], Any]]:
    return {name: lazy(where) for name, where in table.items()}


def _frontend(where: str) -> Callable[[], Any]:
    def make() -> Any:
        from lamina.plugins import manager

        return lazy(where)()(manager.converters(), manager.settings())

    return make


def _onnx() -> Any:
    return lazy(ONNX)()()


def _merged(tables: tuple[str, ...]) -> Mapping[Any, Any]:
    return {key: value for where in tables for key, value in lazy(where)().items()}


def _pass_location(spec: str) -> str:
    words = spec.split("-")
    title = "".join(word.capitalize() for word in words)
    return f"lamina.passes.{'_'.join(words)}:{title}Pass"
