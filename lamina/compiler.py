"""From a file to a module, and from a module to something that can be called."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lamina.errors import FormatError, InputError, LoweringError
from lamina.frontend.model import Model, Weights
from lamina.plugins import manager
from lamina.progress import report
from lamina.targets.artifact_lookup import ArtifactLookup
from lamina.targets.base import Artifact, Executable, Target
from lamina.targets.spec import parse_target, target_name, target_spec

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from lamina.targets.dump import StageDump

Pipeline = str | Sequence["ModulePass"]
"""Passes, or their spec `a,b{x=1}`."""

Observer = Callable[["ModulePass | None", "ModuleOp", "ModulePass | None"], None]
"""Called before the first pass and after every pass: the last one, the module, the next one."""


def read(path: str | os.PathLike[str], *, defer: bool = False) -> Model:
    """Read a model file, a model folder, or a dumped stage (`.mlir`).

    A stage takes its weights, tokenizer and settings from where the manifest beside it says; with
    no manifest it has none. With `defer` the graph is made when it is first asked for: a model
    compiled before needs none. Raises `InputError` if no front end knows the file, `FormatError`
    or `UnsupportedError` for what is wrong in it.
    """
    where = Path(path)
    if not where.exists():
        raise InputError(f"{where}: there is no such file or folder")
    if where.suffix == ".mlir" and where.is_file():
        return _read_stage(where)
    for name, factory in manager.frontends().items():
        frontend = factory()
        if frontend.sniff(where):
            model = replace(cast("Model", frontend.read(where)), source=where, format=name)
            if not defer:
                _module(model)
            return model
    known = ", ".join(sorted(manager.frontends())) or "none"
    raise InputError(f"{where}: is in no format that can be read (known: mlir, {known})")


def compile(
    model: Model | ModuleOp,
    target: str | Target = "cpu",
    pipeline: Pipeline | None = None,
    threads: int | None = None,
    dump: str | os.PathLike[str] | None = None,
    *,
    weights: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> Executable:
    """Compile for `target` and load the result; the given module stays as it is.

    `pipeline` takes the place of the target's own passes; a dumped stage goes on with the passes
    that it still had to go through, if `target` is the one that it was dumped for. `threads` says
    how many run the code, where the target has threads. `dump` is a folder for the stages.
    `weights` (by name) take the place of the model's own. Raises `LoweringError` for an operation
    that no rule covers and `TargetUnavailable` where the code cannot run here.

    Code that the cache folder has from an earlier time is loaded as it is: found by the model's
    header before any pass has run, or else by the text of the module that is to be emitted.
    """
    chosen = resolve_target(target, model, threads)
    found = _own_weights(model) if weights is None else weights
    lookup = ArtifactLookup.of(chosen, manager.stamp())
    key = lookup.key_of_header(_header(model), _spelt(pipeline)) if lookup else None
    if lookup and dump is None and not observers and (known := lookup.find(key)):
        return chosen.load(known, found)
    artifact = _emit(model, chosen, pipeline, dump, observers, lookup, key)
    return chosen.load(artifact, found)


def _emit(
    model: Model | ModuleOp,
    target: Target,
    pipeline: Pipeline | None,
    dump: str | os.PathLike[str] | None,
    observers: Sequence[Observer],
    lookup: ArtifactLookup | None,
    key: str | None,
) -> Artifact:
    from lamina.targets.acceptance import check_accepted

    ctx = manager.context()
    module, stages = _lower(ctx, model, target, pipeline, dump, observers)
    check_accepted(module, target)
    lowered = lookup.key_of_module(module) if lookup else None
    artifact = lookup.find(lowered) if lookup else None
    if artifact is None:
        artifact = target.emit(ctx, module)
    if lookup:
        lookup.keep(artifact, key, lowered)
    if stages:
        stages.finish(target.listings(ctx, module, artifact), {"facts": dict(artifact.facts)})
    return artifact


def _lower(
    ctx: Context,
    model: Model | ModuleOp,
    target: Target,
    pipeline: Pipeline | None,
    dump: str | os.PathLike[str] | None,
    observers: Sequence[Observer],
) -> tuple[ModuleOp, StageDump | None]:
    module = _module(model)
    passes = resolve_pipeline(pipeline, module, target)
    stages = _stages(dump, target, passes, model)
    return _run(ctx, module, passes, [*([stages] if stages else []), *observers]), stages


def lower(
    model: Model | ModuleOp,
    target: str | Target = "cpu",
    pipeline: Pipeline | None = None,
    dump: str | os.PathLike[str] | None = None,
    *,
    observers: Sequence[Observer] = (),
) -> ModuleOp:
    """Return the module that `compile` would have the target emit; `dump` has just its stages."""
    chosen = resolve_target(target, _module(model))
    module, stages = _lower(manager.context(), model, chosen, pipeline, dump, observers)
    if stages:
        stages.finish({}, {})
    return module


def resolve_target(
    target: str | Target, model: Model | ModuleOp | None = None, threads: int | None = None
) -> Target:
    """Return the target that a name or spec means.

    The bare name of the target that a stage was dumped for means that target's options too.
    Targets without an option `threads` run on one.
    """
    if isinstance(target, str):
        target = _named_target(target, model)
    if threads is None or "threads" not in {field.name for field in fields(target)}:
        return target
    if threads < 1:
        raise InputError(f"threads: expected at least 1, got {threads}")
    return replace(target, **cast("dict[str, Any]", {"threads": threads}))


def resolve_pipeline(
    pipeline: Pipeline | None, module: ModuleOp, target: Target
) -> tuple[ModulePass, ...]:
    """Return the passes to run: those given, those a stage has to go through, or the target's."""
    from lamina.targets.dump import pending

    if isinstance(pipeline, str):
        return manager.parse_pipeline(pipeline)
    if pipeline is not None:
        return tuple(pipeline)
    stage = pending(module)
    if stage is not None and target_name(stage[0]) == target.name:
        return manager.parse_pipeline(stage[1])
    return target.passes()


def _read_stage(path: Path) -> Model:
    from lamina.dialects.text import read_module
    from lamina.targets.dump import MANIFEST, read_manifest

    module = read_module(manager.context(), path)
    manifest = read_manifest(path.parent)
    source = manifest.get("weights") if manifest else None
    if source is None:
        return Model(module, Weights((), path), None, None)
    where = _source_path(path.parent / MANIFEST, source)
    return replace(read(where, defer=True), graph=module)


def _source_path(manifest: Path, source: object) -> Path:
    if not isinstance(source, dict):
        raise FormatError(f"{manifest}: field weights: expected an object")
    entry = cast("dict[str, object]", source)
    name, size = entry.get("path"), entry.get("size")
    if not isinstance(name, str) or name.endswith(".mlir"):
        raise FormatError(f"{manifest}: field weights.path: expected the path of a model")
    path = manifest.parent / name
    if not path.exists():
        raise InputError(f"{manifest}: the weights are to be in {path}, which does not exist")
    if path.is_file() and size != path.stat().st_size:
        raise FormatError(f"{manifest}: {path} is no longer the file that was compiled")
    return path


def _named_target(spec: str, model: Model | ModuleOp | None) -> Target:
    graph = model.graph if isinstance(model, Model) else model
    if graph is not None and not callable(graph):
        from lamina.targets.dump import pending

        stage = pending(graph)
        if stage is not None and target_name(stage[0]) == spec:
            spec = stage[0]
    return parse_target(manager.target(target_name(spec)), spec)


def _module(model: Model | ModuleOp) -> ModuleOp:
    return model.module if isinstance(model, Model) else model


def _header(model: Model | ModuleOp) -> bytes | None:
    return model.header if isinstance(model, Model) else None


def _spelt(pipeline: Pipeline | None) -> str:
    if pipeline is None:
        return "the target's own"
    if isinstance(pipeline, str):
        return pipeline
    return ",".join(str(each) for each in pipeline)


def _own_weights(model: Model | ModuleOp) -> Mapping[str, Any]:
    return model.weights if isinstance(model, Model) else {}


def _stages(
    dump: str | os.PathLike[str] | None,
    target: Target,
    passes: tuple[ModulePass, ...],
    model: Model | ModuleOp,
) -> StageDump | None:
    from lamina.targets.dump import StageDump

    if dump is None:
        return None
    source = model.source if isinstance(model, Model) else None
    entry: dict[str, Any] | None = None
    if isinstance(model, Model) and source is not None:
        size = source.stat().st_size if source.is_file() else None
        entry = {"path": str(source.absolute()), "format": model.format, "size": size}
    return StageDump(Path(dump), target_spec(target), passes, entry)


def _run(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    observers: Sequence[Observer],
) -> ModuleOp:
    from lamina.targets.dump import PENDING, TARGET

    module = module.clone()
    for key in (PENDING, TARGET):
        module.attributes.pop(key, None)
    run_passes(ctx, module, passes, observers)
    return module


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    observers: Sequence[Observer] = (),
) -> None:
    """Change `module` by each pass in turn; `LoweringError` names the pass that fails."""
    from xdsl.passes import PassPipeline

    current, done = "the passes", 0

    def observe(last: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
        nonlocal current, done
        done += last is not None
        report("running passes", done, len(passes))
        for observer in observers:
            observer(last, module, following)
        current = f"the pass {following.name}" if following else current

    with _sentences(lambda: current):
        PassPipeline(tuple(passes), observe).apply(ctx, module)


@contextmanager
def _sentences(doing: Callable[[], str]) -> Generator[None]:
    from xdsl.utils.exceptions import DiagnosticException, VerifyException

    try:
        yield
    except (DiagnosticException, VerifyException) as error:
        reason = " ".join(str(error).split())
        raise LoweringError(f"{doing()} failed: {reason[:300]}") from error
