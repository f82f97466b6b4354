"""From a file to a module, and from a module to something that can be called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lamina.arguments import checked_path, exists, listed, whole_number, wrong_kind
from lamina.compiled.model import CompiledModel, is_compiled, read_compiled, write_compiled
from lamina.errors import FormatError, InputError
from lamina.failures import Failure, explained
from lamina.frontend.model import Model, Weights
from lamina.known_imports import check_import
from lamina.pass_runs import Observer, run_passes
from lamina.plugins import manager
from lamina.rare_collection import rarely_collecting
from lamina.targets.artifact_lookup import ArtifactLookup
from lamina.targets.base import MOST_THREADS, Artifact, Executable, Target
from lamina.targets.spec import AUTO, join_options, parse_target, target_name, target_spec
from lamina.targets.text_executable import with_texts

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from lamina.targets.dump import StageDump

Pipeline = str | Sequence["ModulePass"]
"""Passes, or their spec `a,b{x=1}`."""


def read(path: str | os.PathLike[str], *, defer: bool = False) -> Model:
    """Read a model file, a model folder, a dumped stage (`.mlir`), or a compiled model.

    A stage takes its weights, tokenizer and settings from where the manifest beside it says; with
    no manifest it has none. The graph of a file that was read before, or with `defer` any graph, is
    made when it is first asked for: a model compiled before needs none. Raises `InputError` if no
    front end knows the file, `FormatError` or `UnsupportedError` for what is wrong in it.
    """
    where = checked_path(path, "path")
    if not exists(where):
        raise InputError(f"{where}: there is no such file or folder")
    try:
        return _read(where, defer=defer)
    except OSError as error:
        what = error.filename or where
        raise InputError(f"{what}: cannot be read: {error.strerror or error}") from None


def _read(where: Path, *, defer: bool) -> Model:
    if where.suffix == ".mlir" and where.is_file():
        return _read_stage(where)
    if is_compiled(where):
        return read_compiled(where, lambda path: read(path, defer=True).weights)
    for name, factory in manager.frontends().items():
        frontend = factory()
        if frontend.sniff(where):
            model = replace(cast("Model", frontend.read(where)), source=where, format=name)
            if not defer:
                check_import(model)
            return model
    known = ", ".join(sorted(manager.frontends())) or "none"
    raise InputError(f"{where}: is in no format that can be read (known: mlir, {known})")


def compile(
    model: Model | ModuleOp,
    target: str | Target = AUTO,
    pipeline: Pipeline | None = None,
    threads: int | None = None,
    dump: str | os.PathLike[str] | None = None,
    *,
    weights: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> Executable:
    """Compile for `target` and load the result; the given module stays as it is.

    "auto" is the target that a stage was dumped for or a file compiled for, or else the CPU.
    `pipeline` takes the place of the target's own passes; a dumped stage goes on with the passes
    that it still had to go through, if `target` is the one that it was dumped for. `threads` says
    how many run the code, where the target has threads; on the CPU one for each that the process
    may use at most. `dump` is a folder for the stages.
    `weights` (by name) take the place of the model's own. Raises `LoweringError` for an operation
    that no rule covers, `TargetUnavailable` where the code cannot run here, and `FormatError` for
    a file of weights that was changed since it was read.

    Code that the cache folder has from an earlier time is loaded as it is: found by the model's
    header before any pass has run; a module without one, as a stage of a dump, by the text that
    its passes make of it.
    Where another process is compiling the same, it is waited for.
    """
    _check_model(model)
    chosen = resolve_target(target, model, threads)
    pipeline = _checked_pipeline(pipeline)
    if weights is not None and not isinstance(cast(object, weights), Mapping):
        raise wrong_kind("weights", weights, "weights by name")
    if isinstance(model, CompiledModel):
        if pipeline is not None or dump is not None or observers:
            raise InputError(f"{model.source}: is compiled, there are no passes to run or to show")
        return with_texts(model.load(chosen, weights))
    artifact = _artifact(model, chosen, pipeline, dump, observers)
    given = _verified(_own_weights(model) if weights is None else weights)
    return with_texts(chosen.load(artifact, given))


def compile_to_file(
    model: Model,
    path: str | os.PathLike[str],
    target: str | Target = AUTO,
    dump: str | os.PathLike[str] | None = None,
    *,
    with_weights: bool = True,
) -> None:
    """Compile for `target` and write all that is needed to run the model to one file.

    It holds machine code, packed weights, tokenizer and settings, and can be given as a model to
    `read` and `LLM`. Without weights it says which files they are in, which then have to be
    beside it. The file is written whole or not at all. Raises as `compile`, and `InputError` if
    it cannot be written.
    """
    _check_model(model)
    chosen = resolve_target(target, model)
    where = checked_path(path, "path")
    write_compiled(
        where,
        model,
        chosen,
        lambda: _artifact(model, chosen, None, dump, ()),
        with_weights=with_weights,
    )


def _artifact(
    model: Model | ModuleOp,
    target: Target,
    pipeline: Pipeline | None,
    dump: str | os.PathLike[str] | None,
    observers: Sequence[Observer],
) -> Artifact:
    _verified(_own_weights(model))
    lookup = ArtifactLookup.of(target, manager.stamp())
    key = lookup.key_of_header(_header(model), _spelt(pipeline)) if lookup else None
    wanted = None if dump is not None or observers else key
    if lookup and (known := lookup.find(wanted)):
        return known
    with lookup.alone(wanted) if lookup else nullcontext(), rarely_collecting():
        if lookup and (known := lookup.find(wanted)):
            return known
        return _emit(model, target, pipeline, dump, observers, lookup, key)


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
    # A module is printed for its key, which takes a while: a file's header will do, but for the
    # stages of a dump, which have none.
    lowered = lookup.key_of_module(module) if lookup and (stages or key is None) else None
    artifact = (lookup.find(key) or lookup.find(lowered)) if lookup else None
    if artifact is None:
        passes = resolve_pipeline(pipeline, _module(model), target)
        artifact = emit(ctx, module, target, passes)
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
    watching = [*([stages] if stages else []), *observers]
    return _run(ctx, module, passes, watching, target_spec(target)), stages


def lower(
    model: Model | ModuleOp,
    target: str | Target = AUTO,
    pipeline: Pipeline | None = None,
    dump: str | os.PathLike[str] | None = None,
    *,
    observers: Sequence[Observer] = (),
) -> ModuleOp:
    """Return the module that `compile` would have the target emit; `dump` has just its stages."""
    _check_model(model)
    chosen, pipeline = resolve_target(target, _module(model)), _checked_pipeline(pipeline)
    with rarely_collecting():
        module, stages = _lower(manager.context(), model, chosen, pipeline, dump, observers)
    if stages:
        stages.finish({}, {})
    return module


def emit(
    ctx: Context, module: ModuleOp, target: Target, passes: tuple[ModulePass, ...]
) -> Artifact:
    """Return what `target` emits for a module that went through `passes`, as one more pass."""
    try:
        return target.emit(ctx, module)
    except Exception as error:
        failure = Failure(module, target_spec(target), passes, ())
        raise explained(failure, error) from error


def resolve_target(
    target: str | Target, model: Model | ModuleOp | None = None, threads: int | None = None
) -> Target:
    """Return the target that a name or spec means.

    The bare name of the target that a stage was dumped for, or a model was compiled for, means
    that target's options too; so does "auto", which is the CPU for other models.
    Targets without an option `threads` run on one.
    """
    if isinstance(target, str):
        target = _named_target(target, model)
    if not isinstance(cast(object, target), Target):
        raise wrong_kind("target", target, "the name of a target, or a Target")
    if threads is None:
        return target
    threads = whole_number(threads, "threads", 1, MOST_THREADS)
    if "threads" not in {field.name for field in fields(target)}:
        return target
    return replace(target, **cast("dict[str, Any]", {"threads": threads}))


def resolve_pipeline(
    pipeline: Pipeline | None, module: ModuleOp, target: Target
) -> tuple[ModulePass, ...]:
    """Return the passes to run: those given, those a stage has to go through, or the target's.

    Raises `InputError` for a stage that went through other passes than `target` has.
    """
    from lamina.targets.dump import pending

    if isinstance(pipeline, str):
        return manager.parse_pipeline(pipeline)
    if pipeline is not None:
        return tuple(pipeline)
    stage = pending(module)
    if stage is None or target_name(stage[0]) != target.name:
        return _passes_from_start(stage and stage[0], module, target)
    rest, spec = manager.parse_pipeline(stage[1]), target_spec(target)
    if stage[0] == spec:
        return rest
    theirs = _spelt(parse_target(type(target), stage[0]).passes())
    if theirs == _spelt(target.passes()):
        return rest
    if theirs == _spelt(rest):
        return target.passes()
    raise InputError(
        f"the stage was dumped for {stage[0]}, and cannot go on for {spec}: start from its import"
    )


def _passes_from_start(
    spec: str | None, module: ModuleOp, target: Target
) -> tuple[ModulePass, ...]:
    """Return a target's passes; InputError for a stage of another, `spec`, that has kernels."""
    from lamina.dialects.tile import AnyKernelOp

    passes = target.passes()
    if spec and passes and any(isinstance(op, AnyKernelOp) for op in module.ops):
        raise InputError(
            f"the stage has kernels for the target {spec}: run it with --target {spec!r}, or "
            f"start for {target.name} from its import"
        )
    return passes


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
    name = target_name(spec)
    if isinstance(model, CompiledModel) and spec in (AUTO, model.target.name):
        return model.target
    own = _own_target(model)
    if name == AUTO:
        spec = join_options(own or "cpu", spec)
    elif own is not None and target_name(own) == spec:
        spec = own
    return parse_target(manager.target(target_name(spec)), spec)


def _own_target(model: Model | ModuleOp | None) -> str | None:
    """Return the spec of the target that a stage or a file was made for; None for other models."""
    if isinstance(model, CompiledModel):
        return target_spec(model.target)
    graph = model.graph if isinstance(model, Model) else model
    if graph is None or callable(graph):
        return None
    from lamina.targets.dump import pending

    stage = pending(graph)
    return stage[0] if stage else None


def _check_model(model: object) -> None:
    if isinstance(model, Model):
        return
    from xdsl.dialects.builtin import ModuleOp

    if not isinstance(model, ModuleOp):
        hint = "a model as lamina.read returns it, or a module"
        raise wrong_kind("model", model, hint)


def _checked_pipeline(pipeline: object) -> Pipeline | None:
    if pipeline is None or isinstance(pipeline, str):
        return pipeline
    from xdsl.passes import ModulePass

    expected = "a spec such as 'a,b{x=1}', or a list of passes"
    passes = listed(pipeline, "pipeline", expected)
    for each in passes:
        if not isinstance(each, ModulePass):
            raise wrong_kind("a member of pipeline", each, "a pass")
    return tuple(cast("list[ModulePass]", passes))


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


def _verified(weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return weights of which no file was changed since it was read."""
    if isinstance(weights, Weights):
        weights.verify_unchanged()
    return weights


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
    return StageDump(checked_path(dump, "dump"), target_spec(target), passes, entry)


def _run(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    observers: Sequence[Observer],
    target: str,
) -> ModuleOp:
    lowered = _unmarked(module)
    run_passes(ctx, lowered, passes, observers, again=lambda: _unmarked(module), target=target)
    return lowered


def _unmarked(module: ModuleOp) -> ModuleOp:
    """Return a copy that is no stage."""
    from lamina.targets.dump import PENDING, TARGET

    module = module.clone()
    for key in (PENDING, TARGET):
        module.attributes.pop(key, None)
    return module
