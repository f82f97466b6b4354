"""Find plugins, index what they offer, and refuse two that claim one name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy

import lamina
from lamina import knobs
from lamina.errors import InputError, LaminaError
from lamina.frontend.onnx.known import KNOWN as OPERATORS
from lamina.passes.known import KNOWN as PASSES
from lamina.plugins import builtin, hookspecs
from lamina.targets.known import KNOWN

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Dialect, Operation
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import RewritePattern

    from lamina.frontend.onnx.registry import Table
    from lamina.frontend.settings import SettingsReader
    from lamina.targets.base import Target

BUILTIN = "builtin"
"""The name under which what is in the box is registered."""

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("register_"))
"""The names of all hooks."""


@dataclass(frozen=True)
class Offer:
    """One thing a hook returned: its key and value, its name, and the plugin it is from."""

    name: str
    owner: str
    key: Any
    value: Any


@cache
def manager() -> pluggy.PluginManager:
    """Return the one plugin manager: what is in the box and, unless switched off, installed."""
    installed = entry_points(group=hookspecs.PROJECT) if knobs.plugins_enabled() else ()
    return load(installed)


def load(installed: Iterable[EntryPoint] = ()) -> pluggy.PluginManager:
    """Return a manager of the box and `installed`; `LaminaError` names a plugin that is wrong."""
    pm = pluggy.PluginManager(hookspecs.PROJECT)
    pm.add_hookspecs(hookspecs)
    pm.register(builtin, BUILTIN)
    for point in sorted(installed, key=lambda point: point.name):
        register(pm, point)
    return pm


def register(pm: pluggy.PluginManager, point: EntryPoint) -> None:
    """Load one entry point into `pm`; `LaminaError` if it fails or has an unknown hook."""
    try:
        pm.register(point.load(), point.name)
        pm.check_pending()
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LaminaError(
            f"the plugin {point.name} ({point.value}) cannot be loaded: {reason}; "
            f"the hooks are {', '.join(HOOKS)}; "
            f"{knobs.PLUGINS.name}=off runs without installed plugins"
        ) from error


def offers(hook: str, pm: pluggy.PluginManager | None = None) -> dict[str, Offer]:
    """Index by name what every plugin's `hook` returns; `LaminaError` names two rival owners."""
    found: dict[str, Offer] = {}
    caller = cast(pluggy.HookCaller, getattr((pm or manager()).hook, hook))
    for implementation in caller.get_hookimpls():
        owner, returned = implementation.plugin_name, implementation.function()
        if not isinstance(returned, Mapping):
            raise LaminaError(f"{hook} of the plugin {owner} does not return a mapping")
        for key, value in cast(Mapping[Any, Any], returned).items():
            offer = Offer(key if isinstance(key, str) else key.name, owner, key, value)
            if (rival := found.setdefault(offer.name, offer)) is not offer:
                raise LaminaError(
                    f"{hook}: the plugins {rival.owner} and {owner} both claim {offer.name!r}"
                )
    return found


def stamp(pm: pluggy.PluginManager | None = None) -> str | None:
    """Return what identifies the code of the installed plugins; None if one is from no file."""
    found: list[str] = []
    for name, plugin in (pm or manager()).list_name_plugin():
        if name == BUILTIN:
            continue
        package = sys.modules.get(str(getattr(plugin, "__name__", "")).partition(".")[0])
        file = getattr(package, "__file__", None)
        if file is None:
            return None
        path = Path(file)
        files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
        stats = [(str(each), each.stat()) for each in files]
        found += [f"{each} {stat.st_size} {stat.st_mtime_ns}" for each, stat in stats]
    return "\n".join(found)


def version(owner: str) -> str:
    """Return the version of the distribution that a plugin is from; empty if it is from none."""
    if owner == BUILTIN:
        return lamina.__version__
    for point in entry_points(group=hookspecs.PROJECT):
        if point.name == owner and point.dist is not None:
            return point.dist.version
    return ""


def dialects() -> dict[str, Callable[[], Dialect]]:
    """Return the factory of each dialect of the box and the plugins, by name."""
    return {name: offer.value for name, offer in offers("register_dialects").items()}


def meanings() -> dict[type[Operation], Callable[..., Any]]:
    """Return what each operation computes, in NumPy."""
    return {offer.key: offer.value for offer in offers("register_meanings").values()}


@cache
def decompositions() -> dict[type[Operation], Callable[[], RewritePattern]]:
    """Return the factory of each composite operation's decomposition."""
    return {offer.key: offer.value for offer in offers("register_decompositions").values()}


@cache
def tile_rules() -> dict[type[Operation], Callable[..., Any]]:
    """Return how kernels compute a tile of each operation that maps elements to elements."""
    return {offer.key: offer.value for offer in offers("register_tile_rules").values()}


def passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Return the factory of each pass by name, as `PassPipeline.parse_spec` takes them."""
    return {name: offer.value for name, offer in offers("register_passes").items()}


def insertions(pm: pluggy.PluginManager | None = None) -> dict[str, tuple[ModulePass, ...]]:
    """Return the passes that the box and the plugins put at each extension point.

    `LaminaError` names a plugin that means a point which there is not.
    """
    from lamina.passes.pipelines import POINTS

    found: dict[str, tuple[ModulePass, ...]] = {}
    for spec, offer in offers("register_insertions", pm).items():
        if offer.value not in POINTS:
            raise LaminaError(
                f"register_insertions: the plugin {offer.owner} puts {spec} at {offer.value!r}, "
                f"which is no extension point (known: {', '.join(POINTS)})"
            )
        found[offer.value] = (*found.get(offer.value, ()), *parse_pipeline(spec))
    return found


def targets() -> dict[str, Callable[[], type[Target]]]:
    """Return the factory of each target by name; none is imported."""
    return {name: offer.value for name, offer in offers("register_targets").items()}


def frontends() -> dict[str, Callable[[], Any]]:
    """Return the factory of each reader of model files by the format's name."""
    return {name: offer.value for name, offer in offers("register_frontends").items()}


def settings() -> dict[str, SettingsReader]:
    """Return what reads the settings of each architecture by the name that files give it."""
    return {name: offer.value for name, offer in offers("register_settings").items()}


def converters() -> dict[str, Callable[[], Any]]:
    """Return the factory of each architecture's converter by the architecture's name."""
    return {name: offer.value for name, offer in offers("register_converters").items()}


@cache
def operators(pm: pluggy.PluginManager | None = None) -> list[Table]:
    """Return the tables of converters of ONNX operators, those of plugins before the box's."""
    found = offers("register_operators", pm).values()
    return [o.value() for o in sorted(found, key=lambda offer: offer.owner == BUILTIN)]


def target(name: str) -> type[Target]:
    """Import one target; `InputError` lists the known ones if `name` is not among them."""
    known = targets()
    if name not in known:
        raise InputError(unknown("target", name, known))
    return known[name]()


def parse_pipeline(spec: str) -> tuple[ModulePass, ...]:
    """Read passes from `a,b{x=1}`; `InputError` names the pass or option that is wrong."""
    from xdsl.utils.arg_spec import parse_pipeline as parse_specs
    from xdsl.utils.exceptions import ArgSpecParseError

    known, chosen = passes(), list[Any]()
    try:
        specs = list(parse_specs(spec))
    except ArgSpecParseError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"the pipeline {spec!r} cannot be read: {reason}") from None
    for each in specs:
        if each.name not in known:
            raise InputError(unknown("pass", each.name, known))
        try:
            chosen.append(known[each.name]().from_spec(each))
        except ValueError as error:
            raise InputError(f"the pass {each.name}: {error}") from None
    return tuple(chosen)


def context() -> Context:
    """Return a context that knows every dialect of the box, the plugins and xDSL by name."""
    from xdsl.context import Context
    from xdsl.dialects import get_all_dialects

    ctx, ours, theirs = Context(), offers("register_dialects"), get_all_dialects()
    for name, offer in ours.items():
        if name in theirs:
            raise LaminaError(f"the plugin {offer.owner} and xDSL both claim the dialect {name!r}")
        ctx.register_dialect(name, offer.value)
    for name, factory in theirs.items():
        ctx.register_dialect(name, factory)
    return ctx


def unknown(kind: str, name: str, known: Mapping[str, Any]) -> str:
    """Say that `name` is no `kind`, with the nearest names or all of them."""
    near = get_close_matches(name, known)
    hint = f"did you mean {' or '.join(near)}" if near else f"known: {', '.join(sorted(known))}"
    return f"there is no {kind} {name!r} ({hint})"


KNOWN.meanings, KNOWN.context = meanings, context
OPERATORS.tables = operators
PASSES.decompositions, PASSES.tile_rules, PASSES.insertions = decompositions, tile_rules, insertions
